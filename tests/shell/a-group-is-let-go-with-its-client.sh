#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A program that one connection has brought to rest is held for as long as the
# connection lasts, or the lease; a sleep on it begins at once.  Others are
# told what there is meanwhile, wait with what they want, and a wake of theirs
# ends it.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

# client NAME: a connection to p
client() { talk_plain "$1" "$BUILDDIR/raw" "$socket" -; }
# request NAME LINE...; result NAME STATUS: its answer is in OUT
request() { printf '%s\n' "vsleep 1 $2" "${@:3}" '' >&"${TO[$1]}"; }
result() {
	OUT=''
	while answer "$1"; [[ $ANSWER ]]; do
		OUT+=$ANSWER$'\n'
	done
	equal "status for $1" "$2" "$(value status)"
}
says() {
	request "$1" "${@:3}"
	result "$1" "$2"
}
# hang_up NAME [SIGNAL]
hang_up() {
	kill "${2:--KILL}" "${PID[$1]}"
	{ wait "${PID[$1]}"; } 2>/dev/null
	unset "PID[$1]"
}
goes() {
	within "progress" past p count $(($(number_in p count) + 2))
}
let_go() {
	status p
	[[ $(value state):$(value holds) == awake: ]]
}
free_again() {
	within "p to be let go" let_go
	expect paused no
	goes
}
begun() { [[ $(now p state) == @(sleeping|asleep) ]]; }

puppet p VSLEEP_SIM_COPY_MIBPS=100
ask p "alloc a $((20 * M))"
ask p "fill a 1"
ask p "alloc w $M"
ask p "work w"
goes
socket=$VSLEEP_DIR/$(sock "${PID[p]}")

# held while the connection is there, however it ends
for how in -KILL -TERM; do
	client c
	says c ok quiesce
	expect holds operation state awake evicted-bytes 0
	held p 1
	rounds=$(number_in p count)
	says c ok status
	expect holds operation
	status p
	expect holds operation state awake
	equal "rounds while it was held" "$rounds" "$(number_in p count)"
	hang_up c $how
	free_again
done

# gone while its quiesce still waits
lower p
ask p rest "ok rounds=* bad=0"
ask p hang
client c
request c quiesce timeout-ms=60000
within "it to drain" is p state draining
hang_up c
within "it to be given up" let_go
raise p
ask p sync
ask p "work w"
goes

# taken over; the sleep is its own, whatever becomes of the client
client c
says c ok quiesce
request c sleep
within "the sleep to begin" begun
hang_up c
within "the sleep" is p state asleep
status p
expect holds asleep resident-bytes 0
wakes p
goes
client c
says c ok quiesce
says c ok pause
expect holds operator paused yes
hang_up c
status p
expect paused yes
ctl 0 resume "${PID[p]}"
goes

# another one waits; it gets its turn when the lease is over
client c
says c ok quiesce lease-ms=300
client d
request d pause
result d ok
expect holds operator
ctl 0 resume "${PID[p]}"
goes
says c ok sleep
expect state asleep
wakes p

# any other request lets go first, and a wake of another one ends it
says c ok quiesce
says c ok config
free_again
says c ok quiesce
says d ok wake
free_again
says c cancelled sleep
matches "why" '*by a wake' "$(value message)"
says c ok sleep
says c ok wake
goes
says c ok quiesce
says d ok cancel
expect cancelled 1
free_again
says c cancelled pause
hang_up c
hang_up d

ask p rest "ok rounds=* bad=0"
ask p "check a" "ok bad=0"
leave p
