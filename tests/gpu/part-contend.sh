#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A wakes while B holds the memory: refused with the numbers and still asleep;
# with --wait it succeeds once B has gone.  Three rounds.

# shellcheck source=lib.sh
. "$HERE/lib.sh"

HOLD_LIMIT=450

ticked() { [[ $(cat "$WORK/ticks") != "$1" ]]; }

refused() {
	local rc tick
	tick=$(cat "$WORK/ticks")
	ctl wake "${PID[a]}"
	rc=$?
	[[ $rc -eq 4 ]] || { echo "wake, status $rc" && return; }
	grep -qiE 'need[^0-9]*[0-9].*have[^0-9]*[0-9]' <<<"$REPLY_TEXT" ||
		echo "no numbers: $(first_line "$REPLY_TEXT")"
	state_is a asleep || echo "no longer asleep"
	within 5 ticked "$tick" || echo "its host thread stands still"
}

# round N: prints what is wrong
round() {
	local waiter
	ctl sleep "${PID[a]}" ||
		{ echo "sleep, $(refusal)" && return; }
	hold_up "b$1" && ask "b$1" 60 "hog 256" ||
		echo "B took nothing: $ANSWER"
	refused
	CTL_LIMIT=120 ctl wake "${PID[a]}" --wait 60 &
	waiter=$!
	sleep 1
	kill -0 "$waiter" || echo "wake --wait did not wait"
	end "b$1"
	wait "$waiter" || echo "wake --wait, status $?"
	state_is a awake || echo "not awake: $(first_line "$REPLY_TEXT")"
	ask a 60 check && [[ $(value bad "$ANSWER") == 0 ]] ||
		echo "wrong contents: $ANSWER"
}

header round "A holds" "the refusal" verdict
trap sweep EXIT
warm "${WARM_GIB:-96}" >"$WORK/warm" 2>&1
if hold_up -p a TICK="$WORK/ticks" && ask a 20 info &&
	size=$(($(mib "$(value total "$ANSWER")") * ${PERCENT:-60} / 100)) &&
	ask a 60 "mix $size" && ask a 60 "fill 3"; then
	for ((n = 1; n <= 3; n++)); do
		round "$n" >"$WORK/round" 2>/dev/null
		said=$(grep -ohiE 'need[^0-9]*[0-9].*' "$WORK/vsleepctl.log" |
			tail -n 1)
		row "$n" "$size MiB" "$(first_line "$said")" \
			"$(verdict "$(paste -sd ';' "$WORK/round")")"
		state_is a awake || break
	done
	((n == 4)) || row "after $n" - - "FAILED: further rounds not run"
	hold_down a
else
	row - - - "FAILED: not set up: ${ANSWER-}"
	excerpt a
fi
