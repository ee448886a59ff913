#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A client that is killed while it puts a group to sleep, at whatever moment,
# leaves each process awake and running, or asleep: none is held while awake.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

names=(p q r)
for name in "${names[@]}"; do
	puppet "$name" VSLEEP_SIM_COPY_MIBPS=500
	ask "$name" "alloc a $((20 * M))"
	ask "$name" "fill a 1"
	ask "$name" "alloc w $M"
	ask "$name" "work w"
done

# settled NAME: nothing goes on in it, and it is held if it sleeps
settled() {
	status "$1"
	[[ $(value state):$(value holds) == @(awake:|asleep:asleep) ]]
}

RANDOM=20240229
awake=0 asleep=0
for round in {1..30}; do
	verb="sleep"
	((round % 4)) || verb=pause
	"$VSLEEPCTL" $verb --all >/dev/null 2>&1 &
	client=$!
	sleep "0.$(printf '%03d' $((RANDOM % 120)))"
	kill -KILL "$client" 2>/dev/null
	{ wait "$client"; } 2>/dev/null
	# what it had time for is done, and is no trouble
	[[ $verb != pause ]] || ctl 0 resume --all
	for name in "${names[@]}"; do
		within "$name to settle in round $round" settled "$name"
		if [[ $(value state) == awake ]]; then
			((++awake))
			n=$(number_in "$name" count)
			within "progress of $name" past "$name" count $((n + 1))
		else
			((++asleep))
			expect resident-bytes 0
		fi
	done
	ctl 0 wake --all
done
at_least "processes that were left awake" 5 $awake
at_least "processes that were left asleep" 5 $asleep
for name in "${names[@]}"; do
	ask "$name" rest "ok rounds=+([0-9]) bad=0"
	ask "$name" "check a" "ok bad=0"
	leave "$name"
done
