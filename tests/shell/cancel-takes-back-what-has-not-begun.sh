#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Cancel takes back what waits: for the program's work, in the queue, for
# memory.  Who asked is told, and all is as before; what has begun goes on.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

# behind NAME ARGUMENT...: vsleepctl in the background; what it says on stderr
# is in $WORK/NAME.said
behind() {
	local name=$1
	shift
	"$VSLEEPCTL" "$@" >/dev/null 2>"$WORK/$name.said" &
	CLIENT[$name]=$!
}
declare -A CLIENT
# cancelled NAME: it was, and says so
cancelled() {
	local rc
	wait "${CLIENT[$1]}" && rc=0 || rc=$?
	equal "the exit status of $1" 1 $rc
	matches "what $1 says" "*cancelled*" "$(<"$WORK/$1.said")"
}
# cancels COUNT
cancels() {
	ctl 0 cancel --plain "${PID[p]}"
	expect status ok cancelled "$1"
}

let_go() {
	status p
	[[ $(value state):$(value holds) == awake: ]]
}
lacks_memory() { [[ $(now p last-error) == no-memory:* ]]; }
# taken_back: one request was
taken_back() {
	ctl 0 cancel --plain "${PID[p]}"
	[[ $(value cancelled) == 1 ]]
}

export VSLEEP_SIM_SHARE=$WORK/share VSLEEP_SIM_MEMORY=64M
puppet p
ask p "alloc a $((20 * M))"
ask p "fill a 1"
cancels 0

# it drains, another one is queued behind it
lower p
ask p hang
for verb in sleep pause; do
	behind first $verb --timeout 60 "${PID[p]}"
	within "the $verb to drain" is p state draining
	cancels 1
	cancelled first
	within "the end of the $verb" let_go
	expect paused no
done
raise p
ask p sync
ask p "check a" "ok bad=0"
sleeps p
equal "bytes on the device" 0 "$(device p)"

# it waits for memory
puppet other
ask other "alloc b $((50 * M))"
behind waits wake --wait 60 "${PID[p]}"
within "it to lack memory" lacks_memory
cancels 1
cancelled waits
equal "the state" asleep "$(now p state)"
ask other "free all"
leave other
wakes p
ask p "check a" "ok bad=0"
leave p

# it copies: that goes on, and is whole
puppet p VSLEEP_SIM_COPY_MIBPS=60
ask p "alloc a $((20 * M))"
ask p "fill a 2"
behind copies sleep "${PID[p]}"
within "the sleep to copy" is p state sleeping
behind queued pause "${PID[p]}"
within "the pause to be asked for" taken_back
cancelled queued
wait "${CLIENT[copies]}"
equal "the exit status of what copied" 0 $?
status p
expect state asleep holds asleep
wakes p
ask p "check a" "ok bad=0"
leave p
