#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Programs that share memory are stopped, leave, free what the other has open,
# start another program or fork at any time: nobody waits for long, nothing
# stays on the device for one that does not map it, and no descriptor is left.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

export VSLEEP_SIM_SHARE=$WORK/share

has_files() { [[ $(asked files "$1" open-files) == "$2" ]]; }
free_of_loans() { [[ $(now "$1" ipc-peer) != *bytes=[1-9]* ]]; }
# takes SECONDS COMMAND...: at most
takes() {
	local limit=$1 start=$SECONDS
	shift
	"$@"
	at_most "seconds of $*" "$limit" $((SECONDS - start))
}

lender a
lender b
for block in x y z; do
	ask a "alloc $block $((40 * M))"
	ask a "fill $block 1"
done
ask a "alloc small 5000"
ask a "fill small 1"
x=$(asked handle a "handle x")
y=$(asked handle a "handle y")
z=$(asked handle a "handle z")
small=$(asked handle a "handle small")

# no descriptor is left, of what can be opened and what cannot
ask b "open x $x 8"
ask a "open w $x 8" "error 201*"
files=$(asked files b open-files)
theirs=$(asked files a open-files)
for _ in {1..30}; do
	ask b "open y $y 8"
	ask b "close y"
	ask b "spoil w $y" "error 1*"
done
equal "descriptors of the borrower" "$files" "$(asked files b open-files)"
# its own thread closes what it has lent a moment after the answer
within "descriptors of the owner: $theirs" has_files a "$theirs"

# a forked child has no connection to the other, nor any of the memory
child=$(asked child b child)
equal "sockets of the child" '' \
	"$(find "/proc/$child/fd" -lname 'socket:*' 2>/dev/null)"
kill -KILL "$child"

# its owner is stopped: a borrower sleeps all the same, and soon
ask b "open y $y $((40 * M))"
ask b "open z $z $((40 * M))"
stop a
takes 9 ctl 0 sleep --alone "${PID[b]}"
tell b "check y 1"
kill -CONT "${PID[a]}"
within "a to know" free_of_loans a
sleeps a
status a
expect state asleep kept-bytes 0 resident-bytes 0
wakes a
answer b
matches "after the wake" "ok bad=0*" "$ANSWER"

# one that opens meanwhile waits, and its owner does not believe it has it
stop a
tell b "open small $small 5000"
sleep 0.3
silent b
kill -CONT "${PID[a]}"
answer b
matches "after it goes on" "ok*" "$ANSWER"
ask b "check small 1" "ok bad=0"
for block in x y z small; do
	ask b "close $block"
done
within "a to know" free_of_loans a

# what its owner has freed stays for who has it open, and is said to
ask b "open x $x $((40 * M))"
ask b "open small $small 5000"
ask a "free x"
ctl 5 sleep --alone "${PID[b]}"
expect kept-why "process ${PID[a]}, whose memory it is, has freed it"
wakes b --alone
ask b "check x 1" "ok bad=0"
ask b "close x"
# and is no reason not to wake
ask b "open y $y $((40 * M))"
sleeps b --alone
ask a "free y"
wakes b --alone
expect state awake
ask b "check small 1" "ok bad=0"
matches "it is said" "*process ${PID[a]} has freed memory*" \
	"$(<"$WORK/b.err")"
ask b "close y"
ask b "close small"

# one that starts another program has nothing mapped any more
ask b "open z $z $((40 * M))"
status a
matches "lent" "${PID[b]} role=borrower bytes=[1-9]*" "$(value ipc-peer)"
tell b again
ready b
within "a to know" free_of_loans a
sleeps a
status a
expect state asleep kept-bytes 0 resident-bytes 0
wakes a

# an exit needs nothing of an owner that sleeps, nor of one that is stopped
ask b "open z $z $((40 * M))"
sleeps a
tell b leave
takes 10 end b
for signal in CONT STOP; do
	wakes a
	lender b
	ask b "open z $z $((40 * M))"
	sleeps b --alone
	sleeps a --alone
	kill -$signal "${PID[a]}"
	tell b leave
	takes 10 end b
	kill -CONT "${PID[a]}"
done
wakes a

leave a
