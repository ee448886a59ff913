#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A paused program submits nothing and keeps its memory; whoever pauses it
# twice, or puts it to sleep meanwhile, changes nothing about that, and a wake
# does not end it.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

pauses() { ctl 0 pause "${PID[$1]}"; }
resumes() { ctl 0 resume "${PID[$1]}"; }

# stands NAME: it runs on where it needs no GPU, and only there
stands() {
	local rounds ticks
	held "$1" 1
	rounds=$(number_in "$1" count)
	ticks=$(number_in "$1" tick)
	within "other threads of $1" past "$1" tick $((ticks + 10))
	equal "rounds of $1 meanwhile" "$rounds" "$(number_in "$1" count)"
}
# goes NAME: it does its work
goes() {
	within "progress of $1" past "$1" count \
		$(($(number_in "$1" count) + 2))
}

puppet p
ask p "alloc a $((2 * M))"
ask p "alloc b $((17 * M))"
ask p "fill b 3"
ask p "work a"
goes p
before=$(device p)
for _ in 1 2 3; do
	pauses p
	stands p
	status p
	expect state awake holds operator paused yes evicted-bytes 0
	equal "bytes on the device" "$before" "$(device p)"
	# it is what was asked for already
	pauses p
	stands p

	sleeps p
	equal "bytes on the device" 0 "$(device p)"
	wakes p
	status p
	expect state awake holds operator paused yes
	stands p
	resumes p
	status p
	expect state awake holds '' paused no
	goes p
	resumes p
	goes p
done

# while something sleeps
sleeps p
pauses p
resumes p
status p
expect state asleep holds asleep paused no
stands p
pauses p
wakes p
stands p
resumes p
goes p
ask p rest "ok rounds=* bad=0"
ask p "check b" "ok bad=0"
leave p

# one that cannot be paused, since its work does not end
puppet p
ask p hang
ctl 3 pause --timeout 0.2 "${PID[p]}"
matches "why not" "*queued work*" "$ERR"
status p
expect state awake holds '' paused no
# resume does not wait for a sleep that drains, nor for a pause behind it
"$VSLEEPCTL" sleep --timeout 60 "${PID[p]}" >"$WORK/sleep.said" 2>&1 &
sleeper=$!
within "the sleep to drain" is p state draining
"$VSLEEPCTL" pause --timeout 60 "${PID[p]}" >"$WORK/pause.said" 2>&1 &
pauser=$!
taken_back() {
	resumes p
	grep -q "cancelled by a resume" "$WORK/pause.said"
}
within "the pause to be taken back" taken_back
wait "$pauser"
status p
expect state draining paused no
raise p
ask p sync
wait "$sleeper" || fail "the sleep: $(<"$WORK/sleep.said")"
wakes p
pauses p
resumes p
leave p
