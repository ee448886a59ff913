#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# vsleepctl and a library of another version: what an answer lacks is left out,
# what is new in it is passed over, and what cannot be done is said.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

command -v python3 >/dev/null || skip "needs Python"
mkdir -m 700 "$VSLEEP_DIR"

for kind in older newer huge; do
	talk_plain $kind python3 "$SRCDIR/programs/other.py" $kind \
		"$VSLEEP_DIR/$(sock %d)"
	answer $kind
	equal "the start" ready "$ANSWER"
done

# valid JSON, one value on each line
valid() {
	python3 -c 'import json, sys; [json.loads(s) for s in sys.stdin]' \
		<<<"$OUT" || fail "no JSON: $OUT"
}

for kind in older newer; do
	ctl 0 status "${PID[$kind]}"
	expect pid "${PID[$kind]}" name $kind
	ctl 0 status --json "${PID[$kind]}"
	valid
	for verb in sleep "sleep --dry-run" wake pause resume cancel config; do
		# shellcheck disable=SC2086 # words
		ctl 1 $verb --json "${PID[$kind]}"
		valid
		matches "the object of $verb" "*\"pid\": ${PID[$kind]}*" "$OUT"
	done
done
matches "what is said of a new status" \
	"vsleepctl: process ${PID[newer]}: splendid" "$ERR"
ctl 0 status "${PID[newer]}"
expect bell '???' long "$(printf 'x%.0s' {1..3000})"
ctl 0 list --json
valid
ctl 0 wait --timeout "$PATIENCE" "${PID[older]}"
ctl 3 wait --timeout 0.1 "${PID[newer]}"
matches "what it waits for" "*: busy: still dreaming" "$ERR"

# a group with one that knows of no groups: none sleeps
puppet p
ask p "alloc a $M"
ctl 1 sleep "${PID[p]}" "${PID[older]}"
matches "who could not" "*${PID[older]}: bad-request: there is no verb*" "$ERR"
equal "the other" awake "$(now p state)"
leave p

# one with more tags than a request has room for, which is to be taken back
puppet f VSLEEP_SIM_FAIL=cuMemcpyDtoHAsync_v2:1+:700
ask f "alloc a $M"
ctl 1 sleep "${PID[f]}" "${PID[huge]}"
matches "who failed" "*process ${PID[f]}: cuda-error: *" "$ERR"
matches "the other" "*process ${PID[huge]}: taken back: *" "$ERR"
