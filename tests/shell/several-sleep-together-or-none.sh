#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Several processes sleep together or none does: when one is busy, refuses or
# fails, it is named, and the others run on as if nothing had been asked.  One
# that ends meanwhile is no obstacle.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

# both KEY VALUE: in the status of p and q
both() {
	equal "$1 of p" "$2" "$(now p "$1")"
	equal "$1 of q" "$2" "$(now q "$1")"
}
# goes_on NAME: its computing thread
goes_on() {
	local before
	before=$(number_in "$1" count)
	within "progress of $1" past "$1" count $((before + 3))
}
json_statuses() {
	python3 -c '
import json, sys
for line in sys.stdin:
    answer = json.loads(line)
    print(answer["pid"], answer["status"])'
}

puppet p
puppet q VSLEEP_TIMEOUT=1
for name in p q; do
	ask $name "alloc w $((5 * M))"
	ask $name "alloc a $((9 * M))"
	ask $name "fill a 3"
	ask $name "work w"
done
two=("${PID[p]}" "${PID[q]}")

# ---- as one ----------------------------------------------------------------

ctl 0 sleep --timeout 20 "${two[@]}"
equal "the order of the answers" "${two[*]}" \
	"$(sed -n s/^pid=//p <<<"$OUT" | paste -sd' ')"
both state asleep
ctl 0 wake --all
both holds ''
ctl 0 pause --timeout 20 --all
both paused yes
both state awake
both evicted-bytes 0
ctl 0 resume --all
both holds ''
goes_on p
goes_on q

# ---- one is busy -----------------------------------------------------------

ask q hang
before="$(now p sequence) $(now q sequence)"
for verb in sleep pause; do
	ctl 3 $verb --timeout 1 "${two[@]}"
	matches "$verb names the busy one" \
		"*process ${PID[q]}: busy: *queued*" "$ERR"
	matches "$verb names the other" \
		"*process ${PID[p]}: runs on: *process ${PID[q]} could not*" \
		"$ERR"
	equal "stdout of $verb" '' "$OUT"
	both state awake
	within "p to be let go" is p holds ''
	within "q to be let go" is q holds ''
	goes_on p
	equal "sequence" "$before" "$(now p sequence) $(now q sequence)"
done
if command -v python3 >/dev/null; then
	ctl 3 sleep --json --timeout 1 "${two[@]}"
	equal "as JSON" "${PID[p]} cancelled ${PID[q]} busy" \
		"$(json_statuses <<<"$OUT" | paste -sd' ')"
else
	echo "not tried: JSON, for want of python3"
fi

# it is tried again for as long as is wanted
ctl 0 sleep --timeout 0.5 --wait "$PATIENCE" "${two[@]}" &
client=$!
goes_on p
raise q
wait $client || exit 1
both state asleep
lower q
ctl 0 wake "${two[@]}"

# ---- one refuses -----------------------------------------------------------

ctl 0 tag "${PID[p]}" extra
ask p "alloc x $((3 * M))"
ask p "fill x 5"
before="$(now p sequence) $(now q sequence)"
ctl 1 sleep --tags extra "${two[@]}"
matches "who refuses" "*process ${PID[q]}: refused: unknown tag \"extra\"*" \
	"$ERR"
both state awake
both holds ''
ctl 1 sleep --level 2 "${two[@]}"
both state awake
sleep 1000 &
PID[idle]=$!
ctl 6 sleep "${PID[idle]}" "${two[@]}"
matches "who has no vsleep" "*no vsleep in process ${PID[idle]}*" "$ERR"
both state awake
both evicted-bytes 0
equal "sequence" "$before" "$(now p sequence) $(now q sequence)"
# what wakes goes on with the others
ctl 0 sleep "${two[@]}"
ctl 6 wake "${PID[p]}" "${PID[idle]}" "${PID[q]}"
both state awake

# ---- one fails once all are at rest ---------------------------------------

ctl 0 sleep --tags extra "${PID[p]}"
ctl 0 wake --tags default --no-hold "${PID[p]}"
puppet f VSLEEP_SIM_FAIL=cuMemcpyDtoHAsync_v2:1+:700
ask f "alloc a $((5 * M))"
ctl 1 sleep "${PID[p]}" "${PID[f]}"
matches "who failed" "*process ${PID[f]}: cuda-error: *" "$ERR"
matches "who woke again" \
	"*process ${PID[p]}: taken back: *process ${PID[f]} could not*" "$ERR"
status p
equal "the tag that slept before" asleep "$(of_tag extra state)"
equal "the tag that did not" awake "$(of_tag default state)"
equal "f" awake "$(now f state)"
wakes p
goes_on p
ask p "check a" "ok bad=0"
ask p "check x" "ok bad=0"
kill -KILL "${PID[f]}"
end f 137

# ---- one ends --------------------------------------------------------------

puppet e
ask e "alloc a $M"
ask e hang
ctl 6 sleep --timeout "$PATIENCE" "${PID[p]}" "${PID[e]}" &
client=$!
# it has been told to come to rest
draining() { [[ $(now e state) == draining || $(now e last-error) ]]; }
within "e to be asked" draining
kill -KILL "${PID[e]}"
end e 137
wait $client || exit 1
equal "the other" asleep "$(now p state)"
wakes p

for name in p q; do
	ask $name rest "ok rounds=+([0-9]) bad=0"
	ask $name "check a" "ok bad=0"
	leave $name
done
