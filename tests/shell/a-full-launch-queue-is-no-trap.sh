#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# While the launch queue of a stream is full the driver blocks who submits, us
# too.  The answer comes in time and says so, the program goes on at once, and
# what has come too late leaves nothing behind.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

export VSLEEP_SIM_QUEUE=8
full="device 0 has taken no event for +([0-9]).[0-9] s, as with a full launch"
full+=" queue"

# busy PATTERN: a sleep with a deadline of 1 s says so in time, and holds nobody
busy() {
	local started=${EPOCHREALTIME/./}
	ctl 3 sleep --timeout 1 "${PID[p]}"
	matches "the reason" "*busy: $1*" "$ERR"
	at_most "microseconds" 10000000 $((${EPOCHREALTIME/./} - started))
	status p
	expect state awake holds '' evicted-bytes 0
}

# crowd: the queue is full behind a kernel that waits
crowd() {
	local i
	lower p
	ask p hang
	for ((i = 1; i < VSLEEP_SIM_QUEUE; i++)); do
		ask p "add a 1"
	done
}

puppet p
ask p "alloc a $((3 * M))"
ask p "fill a 1"
ask p "check a" "ok bad=0"

crowd
busy "$full"
busy "$full"
ctl 0 sleep --dry-run "${PID[p]}"
matches "the obstacle" "*obstacle=$full*" "$OUT"
# the program finds what it would find without us
tell p "add a $((4294967296 - 7))"
busy "*"
silent p
raise p
answer p
equal "its launch" ok "$ANSWER"
ask p sync
ask p "check a" "ok bad=0"
sleeps p
expect state asleep
wakes p
ask p "check a" "ok bad=0"

# room comes while the sleep has time
crowd
ctl 0 sleep "${PID[p]}" --timeout "$PATIENCE" &
waiting=$!
within "the drain" is p state draining
raise p
wait "$waiting" || fail "the sleep that had time"
expect_asleep() { is p state asleep; }
within "the sleep" expect_asleep
wakes p
ask p "add a $((4294967296 - 7))"
ask p sync
ask p "check a" "ok bad=0"
leave p
equal "events at the end" 0 "$(ledger p events)"

# nor does an answer wait where what a pool keeps is to go back meanwhile
puppet p
ask p "alloc a $((3 * M))"
ask p "pool b $((3 * M))"
crowd
tell p "free b"		# and then it waits for the stream
for _ in 1 2 3; do
	busy "*"
done
raise p
answer p
equal "the free" ok "$ANSWER"
sleeps p
expect state asleep resident-bytes 0
wakes p
leave p

# a process may end with a call of ours in it
puppet p
ask p "alloc a $((3 * M))"
crowd
busy "$full"
tell p "leave exit"
end p 4
lawful p

# ranks whose queues are full of kernels that wait for each other
export RING=$WORK/ring
start r0 DEEP=30 "$BUILDDIR/ranks" 0
start r1 DEEP=30 "$BUILDDIR/ranks" 1
ranks=("${PID[r0]}" "${PID[r1]}")
goes_on() {
	local before
	before=$(number_in r0 count)
	within "progress of the job" past r0 count $((before + 29))
	within "progress of its other half" past r1 count $((before + 29))
}
for n in 1 2 3; do
	goes_on
	ctl 0 sleep --timeout $((PATIENCE * 2)) "${ranks[@]}"
	for name in r0 r1; do
		status $name
		expect state asleep resident-bytes 0
	done
	ctl 0 wake "${ranks[@]}"
done
goes_on
sleeps r1 --timeout $((PATIENCE * 2))
started=${EPOCHREALTIME/./}
ctl 3 sleep --timeout 1 "${ranks[0]}"
at_most "microseconds" 10000000 $((${EPOCHREALTIME/./} - started))
matches "what one alone says" "*busy: *" "$ERR"
held r0 0
wakes r1
goes_on
equal "what they say" '' "$(cat "$WORK"/r?.err)"
kill "${ranks[@]}"
end r0 143
end r1 143
