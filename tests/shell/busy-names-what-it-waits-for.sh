#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A program that does not come to rest in time runs on as if nothing had been
# asked, and the answer names the queue, the thread or the capture.  Once it is
# at rest the same sleep works.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

# says PATTERN: so a sleep with a deadline of 0.3 s is refused
says() {
	ctl 3 sleep --timeout 0.3 "${PID[p]}"
	# shellcheck disable=SC2053 # a pattern
	[[ $ERR == $1 ]]
}

# busy PATTERN: the same, in time, and nothing has changed
busy() {
	local started=${EPOCHREALTIME/./} sequence
	sequence=$(now p sequence)
	says "*busy: $1" || fail "expected 'busy: $1', got '$ERR'"
	at_most "microseconds" 10000000 $((${EPOCHREALTIME/./} - started))
	status p
	expect state awake sequence "$sequence" holds '' evicted-bytes 0
	matches "last-error" "busy: $1" "$(value last-error)"
}

puppet p
ask p "alloc a $((3 * M))"
ask p "fill a 1"

ask p hang
ask p "add a 7"
busy "device 0 has +([0-9]).[0-9] s or more of queued work"
raise p
ask p sync
lower p

ask p hang
tell p "peek a"
within "the thread in the answer" says \
	"*busy: thread ${PID[p]} is inside cuMemcpyDtoH*"
silent p
raise p
answer p
matches "the blocking copy" "ok word=*" "$ANSWER"
lower p

ask p begin
ask p "add a 3"
busy "*captur*"
ask p "add a 4"
ask p end "ok nodes=2"
sleeps p
wakes p
ask p launch
ask p sync
ask p "add a $((4294967296 - 14))"
ask p sync
ask p "check a" "ok bad=0"
sleeps p
expect state asleep
wakes p
ask p "check a" "ok bad=0"
leave p
