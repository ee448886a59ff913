#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What a program is told about its memory, plain beside preloaded, asleep and
# after a cycle; error codes; what allocations do to captures.

# shellcheck source=lib.sh
. "$HERE/lib.sh"

# run_queries [-p] NAME [cycle]: WRONG says what went wrong on the way
run_queries() {
	local flags=(-i) name cycle
	[[ $1 != -p ]] || { flags+=(-p) && shift; }
	name=$1 cycle=${2-} WRONG=''
	start "${flags[@]}" "$name" 120 "$BIN/queries"
	within 60 marked "$name" ready || WRONG="never ready"
	[[ -z $cycle ]] || ctl sleep "${PID[$name]}" ||
		WRONG="sleep, $(refusal)"
	tell "$name" go
	within 10 marked "$name" asked ||
		WRONG=${WRONG:-"a query waited while asleep"}
	[[ -z $cycle ]] || ctl wake "${PID[$name]}" ||
		WRONG="wake, $(refusal)"
	tell "$name" go
	within 60 gone "$name" || end "$name"
	finish "$name"
	[[ $STATUS -eq 0 ]] || WRONG=${WRONG:-"exit status $STATUS"}
	[[ -z $WRONG ]] || excerpt "$name"
}

# compare NAME GROUP: one row
compare() {
	local plain=$WORK/plain.out ours=$WORK/$1.out lines
	local differ=$WORK/$1-$2.diff
	lines=$(grep -c "^$2 " "$plain")
	# CUDA IPC is refused on memory that sleeps, and said to be
	diff <(grep "^$2 " "$plain" | grep -v legacy-ipc) \
		<(grep "^$2 " "$ours" | grep -v legacy-ipc) >"$differ"
	if [[ $lines -eq 0 ]]; then
		row "$2" "$1" 0 - "FAILED: no answers"
	elif [[ -s $differ ]]; then
		row "$2" "$1" "$lines" "$(grep -c '^>' "$differ")" \
			"FAILED: $(grep -m 1 '^<' "$differ"); $(grep -m 1 '^>' \
				"$differ")"
		echo "--- $2, $1"
		head -n 6 "$differ" | cut -c 1-150
	else
		row "$2" "$1" "$lines" 0 ok
	fi
}

header group run answers different verdict
trap sweep EXIT
run_queries plain
if [[ -n $WRONG ]]; then
	row all plain - - "FAILED: $WRONG"
	exit 0
fi
for run in preloaded cycled; do
	run_queries -p "$run" "$([[ $run == preloaded ]] || echo cycle)"
	row way "$run" - - "$(verdict "$WRONG")"
	for group in ranges core other runtime errors capture; do
		compare "$run" "$group"
	done
done
