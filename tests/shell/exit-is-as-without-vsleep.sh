#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# However a program ends, and whether it is awake, paused, asleep or between:
# its exit status and what its exit handlers say are those of a plain run, at
# once.  An orderly exit leaves no socket, and what others leave `list` removes.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

PATIENCE=10

# begin COMMAND NAME: a program with memory and an exit handler
begin() {
	"$1" "$2" VSLEEP_SIM_COPY_MIBPS="${3:-0}" "$BUILDDIR/puppet"
	ready "$2"
	ask "$2" "alloc a $((6 * M))"
	ask "$2" "fill a 3"
	ask "$2" "alloc b 5000"
	ask "$2" "fill b 4"
	[[ -z $handler ]] || ask "$2" "atexit $handler"
}

# depart NAME: in the way of $how; ENDED: "status|what it said"
depart() {
	local pid=${PID[$1]} from=${FROM[$1]} said='' line status
	case $how in
	TERM | INT) kill -s "$how" "$pid" ;;
	*) tell "$1" "leave $how" ;;
	esac
	within "the end of $1 by $how" ended "$1"
	{ wait "$pid" && status=0 || status=$?; } 2>/dev/null
	while IFS= read -r -t 0.01 -u "$from" line; do
		said+="$line;"
	done
	unset "PID[$1]"
	ENDED="$status|$said"
}

# begun NAME: a sleep of it copies, or is done already
begun() { [[ $(now "$1" state) == @(sleeping|asleep) ]]; }

# no_trace NAME PID: no invalid call and, unless it was cut short, no socket
no_trace() {
	[[ ! -e $WORK/$1.ledger ]] || lawful "$1"
	equal "what $1 says on stderr" '' "$(<"$WORK/$1.err")"
	case $how in
	quick | abort | TERM | INT) ;;
	*) [[ ! -e $VSLEEP_DIR/$(sock "$2") ]] || fail "$1 has left a socket" ;;
	esac
}

ulimit -c 0
for case in return: free: thread: quick: exit: abort: TERM: INT: \
	thread:free exit:free return:count exit:count; do
	how=${case%:*} handler=${case#*:}
	begin talk_plain plain
	depart plain
	plain=$ENDED
	for when in awake paused asleep between; do
		begin talk "$how-$when" "$([[ $when != between ]] || echo 60)"
		pid=${PID[$how-$when]}
		case $when in
		paused) ctl 0 pause "$pid" ;;
		asleep) sleeps "$how-$when" ;;
		between)
			"$VSLEEPCTL" sleep "$pid" >/dev/null 2>&1 &
			within "the sleep to begin" begun "$how-$when"
			;;
		esac
		depart "$how-$when"
		equal "end by $case while $when" "$plain" "$ENDED"
		no_trace "$how-$when" "$pid"
	done
done
wait
sockets=("$VSLEEP_DIR"/*.sock)
at_least "sockets left by those that were cut short" 12 "${#sockets[@]}"
ctl 0 list
equal "the list" '' "$OUT"
equal "what is in the directory" '' "$(ls -A "$VSLEEP_DIR")"
