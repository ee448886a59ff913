#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Programs that have memory of each other mapped are one group for vsleepctl,
# whichever of them is named: all of the memory goes back, and comes back with
# its bytes, also where two lend to each other.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

export VSLEEP_SIM_SHARE=$WORK/share

shared() { sed -n 's/.*shares memory with.*/yes/p' <<<"$ERR" | sort -u; }

lender a
lender b
lender c
ask a "alloc big $((300 * M))"
ask a "alloc small 5000"
ask a "fill big 1"
ask a "fill small 2"
big=$(asked handle a "handle big")
small=$(asked handle a "handle small")
ask b "alloc own $((50 * M))"
ask b "fill own 3"
ask b "open big $big $((300 * M))"
ask b "open small $small 5000"
ask c "open small $small 5000"
ask a "where"
where=$ANSWER

# one is named; its memory is there for another program, all of it
for named in a b c; do
	sleeps $named
	equal "it is said" yes "$(shared)"
	for name in a b c; do
		status $name
		expect state asleep resident-bytes 0 kept-bytes 0 \
			imported-bytes ''
	done
	puppet other
	ask other "alloc all $((440 * M))"
	ask other "fill all 9"
	ask other "check all" "ok bad=0"
	ask other "free all"
	tell other leave
	end other
	wakes $named
	equal "it is said" yes "$(shared)"
	for name in a b c; do
		status $name
		expect state awake evicted-bytes 0 imported-asleep-bytes ''
	done
	ask b "check big 1" "ok bad=0"
	ask b "check own 3" "ok bad=0"
	ask b "check small 2" "ok bad=0"
	ask c "check small 2" "ok bad=0"
	ask a "check big 1" "ok bad=0"
	ask a "check small 2" "ok bad=0"
done
ask a "where" "$where"

# they still share it
ask a "fill big 21"
ask b "check big 21" "ok bad=0"
ask c "fill small 22"
ask b "check small 22" "ok bad=0"

# each lends to the other
mine=$(asked handle b "handle own")
ask a "open mine $mine $((50 * M))"
ask a "check mine 3" "ok bad=0"
for named in a b; do
	sleeps $named
	for name in a b c; do
		status $name
		expect state asleep resident-bytes 0 kept-bytes 0
	done
	puppet other
	ask other "alloc all $((440 * M))"
	ask other "free all"
	tell other leave
	end other
	wakes $named
	ask a "check mine 3" "ok bad=0"
	ask b "check big 21" "ok bad=0"
	ask a "fill mine 3"
done

# after the last close each is on its own again
ask a "close mine"
ask b "close big"
ask b "close small"
ask c "close small"
within "a to know" is a ipc-peer ''
sleeps a
equal "it is said" '' "$(shared)"
status b
expect state awake
wakes a
for name in a b c; do
	leave $name
done

# all or none: the owner fails when the borrower has unmapped already
lender a VSLEEP_SIM_FAIL=cuMemUnmap:2:999
lender b
ask a "alloc big $((30 * M))"
ask a "fill big 1"
big=$(asked handle a "handle big")
ask b "alloc own $((20 * M))"
ask b "fill own 2"
ask b "open big $big $((30 * M))"
ctl 1 sleep "${PID[b]}"
for name in a b; do
	status $name
	expect state awake evicted-bytes 0 imported-asleep-bytes '' holds ''
done
ask b "check big 1" "ok bad=0"
ask b "check own 2" "ok bad=0"
sleeps b
wakes b
ask b "check big 1" "ok bad=0"
ask a "check big 1" "ok bad=0"

# a close waits for the work that may use the memory; so does nobody else
ask b "hang"
tell b "close big"
ask a "check big 1" "ok bad=0"
silent b
status b
matches "still there" "${PID[a]} role=owner *" "$(value ipc-peer)"
raise b
answer b
matches "after the work" "ok*" "$ANSWER"
within "a to know" is a ipc-peer ''
for name in a b; do
	leave $name
done

# so it is where each lends to all, and one of them fails late
lender a
lender b
lender c VSLEEP_SIM_FAIL=cuMemUnmap:4:999
declare -A owned
for name in a b c; do
	ask $name "alloc own $((20 * M))"
	ask $name "fill own 3"
	owned[$name]=$(asked handle $name "handle own")
done
# everywhere COMMAND: of every pair
everywhere() {
	local name of
	for name in a b c; do
		for of in a b c; do
			[[ $name == "$of" ]] || ask $name "${1//@/$of}" "$2"
		done
	done
}
for of in a b c; do
	for name in a b c; do
		[[ $name == "$of" ]] ||
			ask $name "open of-$of ${owned[$of]} $((20 * M))"
	done
done
ctl 1 sleep "${PID[a]}"
matches "why" "*process ${PID[c]}: cuda-error: *" "$ERR"
for name in a b c; do
	status $name
	expect state awake evicted-bytes 0 imported-asleep-bytes '' holds ''
done
everywhere "check of-@ 3" "ok bad=0"
sleeps b
for name in a b c; do
	status $name
	expect state asleep resident-bytes 0 kept-bytes 0
done
wakes c
everywhere "check of-@ 3" "ok bad=0"
everywhere "close of-@" "ok*"
for name in a b c; do
	leave $name
done
