#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SIGUSR1 sleeps and SIGUSR2 wakes; the sequence number and last-error tell what
# became of it.  VSLEEP_SIGNALS names other signals, or none.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

# told NAME SIGNAL STATE SEQUENCE: the signal brings it there
told() {
	kill -s "$2" "${PID[$1]}"
	within "$3 by $2" reached "$1" sequence "$4"
	equal "the state after $2" "$3" "$(now "$1" state)"
}

# failed_by NAME PATTERN
failed_by() {
	# shellcheck disable=SC2053 # a pattern
	[[ $(now "$1" last-error) == $2 ]]
}

# Two threads of the program may run the handler at once, so the next signal
# waits until the one before has arrived.
arrived() { [[ $(grep -c "a signal asked for a $1" "$WORK/p.log") == "$2" ]]; }

puppet p VSLEEP_LOG="$WORK/p.log" VSLEEP_LOG_LEVEL=debug
ask p "alloc a $((3 * M))"
ask p "fill a 1"
for n in 1 3 5; do
	told p USR1 asleep $n
	status p
	expect resident-bytes 0 holds asleep
	at_most "left on the device" 0 "$(device p)"
	told p USR2 awake $((n + 1))
	ask p "check a" "ok bad=0"
done
# the same again is no work
told p USR1 asleep 7
kill -s USR1 "${PID[p]}"
within "the other signal" arrived sleep 5
told p USR2 awake 8
ask p "check a" "ok bad=0"

leave p

# what cannot be done is kept as the last error
puppet q VSLEEP_SIGNALS=RTMIN+1,SIGUSR1 VSLEEP_TIMEOUT=0.2
ask q hang
kill -s RTMIN+1 "${PID[q]}"
within "the last error" failed_by q "busy: device 0 has *"
equal "the state" awake "$(now q state)"
raise q
ask q sync
told q RTMIN+1 asleep 1
told q USR1 awake 2
leave q

# with none they do what they always do
puppet r VSLEEP_SIGNALS=none
kill -s USR1 "${PID[r]}"
end r $((128 + $(kill -l USR1)))
