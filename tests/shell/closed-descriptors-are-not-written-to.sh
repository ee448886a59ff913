#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# vsleepctl started with standard descriptors closed: a socket never takes the
# number of one, lost output is a failure, and a program finds them closed.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

puppet p
ask p "alloc a $M"
threads=("/proc/${PID[p]}/task"/*)
thread=${threads[-1]##*/}

# that it is a thread would be said into the socket, before the request
"$VSLEEPCTL" status "$thread" >"$WORK/said" 2>&- </dev/null
equal "status with stderr closed" 0 $?
equal "the first line" "status=ok" "$(head -n 1 "$WORK/said")"
"$VSLEEPCTL" status "$thread" >"$WORK/said" 2>&- <&-
equal "status with stdin closed, too" 0 $?
equal "the first line" "status=ok" "$(head -n 1 "$WORK/said")"

"$VSLEEPCTL" sleep "${PID[p]}" >&- 2>"$WORK/said"
equal "sleep with stdout closed" 1 $?
equal "what is said of it" \
	"vsleepctl: standard output: Bad file descriptor" "$(<"$WORK/said")"
equal "the state" asleep "$(now p state)"
"$VSLEEPCTL" wake "${PID[p]}" >/dev/full 2>"$WORK/said"
equal "wake with stdout full" 1 $?
equal "what is said of it" \
	"vsleepctl: standard output: No space left on device" \
	"$(<"$WORK/said")"
equal "the state" awake "$(now p state)"

open_in_child() {
	VSLEEP_LIBRARY=$LIBVSLEEP "$VSLEEPCTL" run sh -c \
		'for n in 0 1 2; do
			[ ! -e /proc/$$/fd/$n ] || echo $n >>"$1"
		done' sh "$WORK/open"
}
: >"$WORK/open"
open_in_child <&- >&- 2>&-
equal "descriptors of a program that has none" '' "$(<"$WORK/open")"
open_in_child </dev/null >&- 2>&-
equal "descriptors of a program that has one" 0 "$(<"$WORK/open")"
leave p
