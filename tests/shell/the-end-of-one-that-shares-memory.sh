#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Of programs that share memory one may end at any time.  What it borrowed is
# not kept for it any more; what it lent stays for those who have it mapped,
# and is zero to one that sleeps: that wakes all the same, whole but for this.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

export VSLEEP_SIM_SHARE=$WORK/share

sleeps_whole() {
	"$VSLEEPCTL" sleep --alone "${PID[$1]}" >"$WORK/whole.text" 2>&1
}

# a borrower is killed
lender a
ask a "alloc big $((24 * M))"
ask a "fill big 1"
big=$(asked handle a "handle big")
lender b
ask b "open big $big $((24 * M))"
kill -KILL "${PID[b]}"
within "the end of b" ended b
end b 137
within "a to sleep" sleeps_whole a
status a
expect state asleep kept-bytes 0 resident-bytes 0 ipc-peer ''
wakes a
ask a "check big 1" "ok bad=0"

# one that closes what it did not open is still known to map it, and finds the
# owner again
lender b
ask b "open big $big $((24 * M))"
ask b "cut"
ctl 5 sleep --alone "${PID[a]}"
expect kept-why "mapped by process ${PID[b]}"
ask b "check big 1" "ok bad=0"
wakes a --alone
ask b "close big"
within "a to know" is a ipc-peer ''
sleeps a
expect kept-bytes 0
wakes a
ask b "open big $big $((24 * M))"
ask b "check big 1" "ok bad=0"
ask b "close big"
tell b "leave"
end b

# the owner ends while its memory is mapped: it stays
lender b
ask b "alloc own $((30 * M))"
ask b "fill own 6"
ask b "open big $big $((24 * M))"
owner=${PID[a]}
kill -KILL "$owner"
within "the end of a" ended a
end a 137
ask b "check big 1" "ok bad=0"
ctl 5 sleep "${PID[b]}"
expect kept-why "process $owner, whose memory it is, has ended"
at_least "released" $((30 * M)) "$(value released-bytes)"
wakes b
ask b "check big 1" "ok bad=0"
ask b "check own 6" "ok bad=0"
ask b "spoil other $big" "error 1*"
ask b "close big"
status b
expect imported-bytes '' ipc-peer ''

tell b "leave"
end b

# lent_to_b: by a new a to a new b, and b has some of its own
lent_to_b() {
	lender a
	lender b
	ask a "alloc big $((24 * M))"
	ask a "alloc small 5000"
	ask a "fill big 1"
	ask a "fill small 1"
	ask b "alloc own $((30 * M))"
	ask b "fill own 6"
	ask b "open big $(asked handle a "handle big") $((24 * M))"
	ask b "open small $(asked handle a "handle small") 5000"
	owner=${PID[a]}
}
killed_a() {
	kill -KILL "$owner"
	end a 137
}
# zeros_for_b: it has woken, and its owner is gone
zeros_for_b() {
	status b
	expect state awake holds '' imported-asleep-bytes ''
	at_least "lost" $((24 * M + 5000)) \
		"$(word lost-bytes "$(value ipc-peer)")"
	ask b "zero big" "ok bad=0"
	ask b "zero small" "ok bad=0"
	ask b "check own 6" "ok bad=0"
	equal "lines that say so" 1 "$(grep -c "process $owner has ended, and \
what this process had open of its memory has gone with it" "$WORK/b.err")"
	# it can be used, and stays where it is
	ask b "fill big 3"
	ctl 5 sleep "${PID[b]}"
	expect kept-why "process $owner, whose memory it is, has ended"
	wakes b
	ask b "check big 3" "ok bad=0"
	ask b "close big"
	ask b "close small"
	status b
	expect imported-bytes '' ipc-peer ''
	leave b
}

# the owner is killed while the borrower sleeps, or both do
for who in b "b a"; do
	lent_to_b
	for name in $who; do
		sleeps "$name" --alone
	done
	killed_a
	wakes b
	zeros_for_b
done

# it exits while both sleep: its exit wakes it, and then it is gone
lent_to_b
sleeps b
tell a leave
end a
wakes b
zeros_for_b

# it exits as soon as the group wakes, or between the two halves of that
lent_to_b
sleeps b
ctl 0 wake --alone "$owner"
tell a leave
end a
wakes b
zeros_for_b
for _ in {1..4}; do
	lent_to_b
	sleeps b
	tell a "fill big 1"
	tell a leave
	wakes b
	end a
	status b
	expect state awake holds ''
	ask b "check own 6" "ok bad=0"
	for block in big small; do
		tell b "check $block 1"
		answer b
		if [[ $ANSWER != "ok bad=0"* ]]; then
			ask b "zero $block" "ok bad=0"
		fi
	done
	ask b "close big"
	ask b "close small"
	leave b
done

# it becomes another program
lent_to_b
sleeps b --alone
tell a again
ready a
wakes b --alone
zeros_for_b
tell a leave
end a

# what the borrower has mapped elsewhere has the bytes
lent_to_b
ask a "alloc little 6000"
ask a "fill little 2"
little=$(asked handle a "handle little")
ctl 0 sleep --alone --no-hold "${PID[b]}"
ask b "open little $little 6000"
killed_a
wakes b
ask b "check small 1" "ok bad=0"
ask b "check little 2" "ok bad=0"
ask b "zero big" "ok bad=0"
for block in big small little; do
	ask b "close $block"
done
leave b

# one that lives and cannot be reached has the bytes: nothing is zero before it
# has ended
lent_to_b
sleeps b --alone
ask a "cut"
"$VSLEEPCTL" wake --alone "${PID[b]}" >"$WORK/wake.text" 2>&1 &
waiter=$!
within "b to wake" is b state waking
sleep 0.5
is b state waking || fail "b did not wait: $(<"$WORK/wake.text")"
killed_a
wait $waiter || fail "the wake: $(<"$WORK/wake.text")"
zeros_for_b

# without room on the device, for the zeros or for the rest, it stays asleep
lent_to_b
sleeps b --alone
killed_a
puppet other
for size in 488 460; do
	ask other "alloc all $((size * M))"
	ctl 4 wake --alone "${PID[b]}"
	matches "why" "*no-memory: *device 0*" "$ERR"
	status b
	expect state asleep imported-bytes ''
	ask other "free all"
	sleeps other
	wakes other
done
wakes b
zeros_for_b
leave other
