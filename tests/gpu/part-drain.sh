#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A sleep asked for while work is under way: with time it succeeds and nothing
# breaks; without, it says BUSY in time, and why, and the program never notices.

# shellcheck source=lib.sh
. "$HERE/lib.sh"

# check_end NAME MODE: prints what is wrong with the ended program
check_end() {
	[[ $STATUS -eq 0 ]] || echo -n "; the program: exit status $STATUS"
	grep -q "^$2 bad=0$" "$WORK/$1.out" || echo -n "; wrong result"
	[[ $2 != capture ]] || grep -q '^captured 8 nodes$' "$WORK/$1.out" ||
		echo -n "; the capture is not whole"
}

# with_time MODE: a deadline of 60 s, which is enough
with_time() {
	local name=$1-60 problem='' took=-
	start -p "$name" 100 "$BIN/busy" "$1"
	within 60 marked "$name" "under way" || problem="no work under way"
	nap 50 150
	if CTL_LIMIT=90 ctl sleep "${PID[$name]}" --timeout 60; then
		took=$(as_seconds "$TOOK_US")
		at_least "$(number released-bytes "$REPLY_TEXT")" 1 ||
			problem="nothing was released"
		state_is "$name" asleep || problem="not asleep"
		gone "$name" && problem="it ended before the sleep"
		ctl wake "${PID[$name]}" || problem="wake, $(refusal)"
	else
		problem="sleep, $(refusal)"
		took=$(as_seconds "$TOOK_US")
	fi
	finish "$name"
	problem+=$(check_end "$name" "$1")
	[[ -z $problem ]] || excerpt "$name"
	row "$1" "60 s" "$took s" "asleep" "$(verdict "${problem#; }")"
}

# without_time MODE: a deadline of 1 s; a copy may be over by then
without_time() {
	local name=$1-1 problem='' said rc took pattern='thread|queue|captur'
	start -p "$name" 100 "$BIN/busy" "$1"
	within 60 marked "$name" "under way" || problem="no work under way"
	nap 50 150
	CTL_LIMIT=60 ctl sleep "${PID[$name]}" --timeout 1
	rc=$? said=$REPLY_TEXT took=$TOOK_US
	[[ $1 != capture ]] || pattern='captur'
	if [[ $rc -eq 0 && $1 == copy ]]; then
		said="asleep"
		ctl wake "${PID[$name]}" || problem="wake, $(refusal)"
	elif [[ $rc -ne 3 ]]; then
		problem="status $rc: $(first_line "$said")"
		ctl wake "${PID[$name]}"
	else
		at_most "$took" 1500000 || problem="too late"
		grep -qiE "$pattern" <<<"$said" || problem="no reason named"
		gone "$name" || state_is "$name" awake ||
			problem="not awake after BUSY"
	fi
	finish "$name"
	problem+=$(check_end "$name" "$1")
	[[ -z $problem ]] || excerpt "$name"
	row "$1" "1 s" "$(as_seconds "$took") s" \
		"$(first_line "$(grep -iE "$pattern|asleep" <<<"$said")")" \
		"$(verdict "${problem#; }")"
}

header "under way" deadline answer what verdict
for mode in kernel queue copy capture; do
	with_time "$mode" &
	without_time "$mode" &
done
wait
