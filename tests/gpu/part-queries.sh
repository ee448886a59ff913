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
	# 5: more stays than is released, as memory that is imported
	[[ -z $cycle ]] || ctl sleep "${PID[$name]}" || ((CTL_STATUS == 5)) ||
		WRONG="sleep, $(refusal)"
	tell "$name" go
	within 10 marked "$name" asked ||
		WRONG=${WRONG:-"a query waited while asleep"}
	[[ -z $cycle ]] || ctl wake "${PID[$name]}" ||
		WRONG="wake, $(refusal)"
	tell "$name" go
	within 60 gone "$name" || end "$name"
	finish "$name"
	[[ $name != plain ]] || EXPECTED=$STATUS
	[[ $STATUS -eq $EXPECTED ]] ||
		WRONG=${WRONG:-"exit status $STATUS, plain $EXPECTED"}
	[[ $name != plain ]] || grep -q '^nulls' "$WORK/plain.out" ||
		WRONG=${WRONG:-"exit status $STATUS"}
	[[ -z $WRONG ]] || excerpt "$name"
}

# compare NAME GROUP: one row
compare() {
	local plain=$WORK/plain.out ours=$WORK/$1.out lines
	local differ=$WORK/$1-$2.diff
	lines=$(grep -c "^$2 " "$plain")
	diff <(grep "^$2 " "$plain") <(grep "^$2 " "$ours") >"$differ"
	if [[ $lines -eq 0 ]]; then
		row "$2" "$1" 0 - "FAILED: no answers"
	elif [[ -s $differ ]]; then
		row "$2" "$1" "$lines" "$(grep -c '^>' "$differ")" \
			"FAILED: $(grep -m 1 '^<' "$differ"); $(grep -m 1 '^>' \
				"$differ")"
		echo "--- $2, $1"
		head -n 20 "$differ" | cut -c 1-150
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
	for group in ranges core other ids info runtime transport errors \
		capture nulls; do
		compare "$run" "$group"
	done
done
