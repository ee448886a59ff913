#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A C++ program whose destructors use the device ends as without the preload,
# and as fast: awake, on the way to sleep or back, asleep, with a thread at the
# gate; by every kind of exit.  Only what cuts a process short leaves a socket.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

command -v "${CXX:-g++}" >/dev/null || skip "no C++ compiler"
read -ra flags <<<"${CUDA_CFLAGS:-}"
"${CXX:-g++}" "${flags[@]}" -o "$WORK/exits" "$SRCDIR/programs/exits.cc" \
	"$BUILDDIR/sim/libcuda.so.1" -pthread || fail "exits.cc is not compiled"
PATIENCE=10
ulimit -c 0

# begin COMMAND NAME HOW WHAT
begin() {
	"$1" "$2" VSLEEP_SIM_COPY_MIBPS="${5:-0}" "$WORK/exits" "$3" "$4"
	ready "$2"
}

# depart NAME HOW: ENDED "status|what it said", TOOK in ms
depart() {
	local pid=${PID[$1]} from=${FROM[$1]} said='' line status begun
	begun=${EPOCHREALTIME/./}
	case $2 in
	TERM | INT) kill -s "$2" "$pid" ;;
	*) tell "$1" go ;;
	esac
	within "the end of $1 by $2" ended "$1"
	TOOK=$(((${EPOCHREALTIME/./} - begun) / 1000))
	{ wait "$pid" && status=0 || status=$?; } 2>/dev/null
	echo end >&"$from"
	while IFS= read -r -u "$from" line && [[ $line != end ]]; do
		said+="$line;"
	done
	unset "PID[$1]"
	ENDED="$status|$said|$(<"$WORK/$1.err")"
}

begun() { [[ $(now "$1" state) == @("$2"|"$3") ]]; }

# bring NAME STATE
bring() {
	case $2 in
	asleep) sleeps "$1" ;;
	to-sleep)
		"$VSLEEPCTL" sleep "${PID[$1]}" >/dev/null 2>&1 &
		within "the sleep to begin" begun "$1" sleeping asleep
		;;
	to-wake)
		sleeps "$1"
		"$VSLEEPCTL" wake "${PID[$1]}" >/dev/null 2>&1 &
		within "the wake to begin" begun "$1" waking awake
		;;
	paused) ctl 0 pause "${PID[$1]}" ;;
	esac
}

states="awake asleep to-sleep to-wake"
! "$VSLEEPCTL" --help | grep -q '^  pause ' || states+=" paused"
for what in free copy work; do
	for how in return exit thread last quick _exit throw terminate TERM INT
	do
		# a thread at the gate is enough for a few
		[[ $what != work || $how == @(return|quick|TERM) ]] || continue
		begin talk_plain plain $how $what
		depart plain $how
		plain=$ENDED took=$TOOK
		for state in $states; do
			speed=0
			[[ $state != to-* ]] || speed=60
			begin talk p $how $what $speed
			socket=$VSLEEP_DIR/$(sock "${PID[p]}")
			bring p $state
			depart p $how
			equal "end by $how, $what, $state" "$plain" "$ENDED"
			at_most "ms more than plain: $how, $what, $state" \
				10000 $((TOOK - took))
			[[ ! -e $WORK/p.ledger ]] || lawful p
			[[ $how == @(_exit|throw|terminate|TERM|INT) ||
				! -e $socket ]] || fail "$how leaves a socket"
		done
	done
done

# The main thread ends alone: its stack is unwound, the process goes on, can be
# put to sleep, and exits as plain from there.
for preload in talk_plain talk; do
	begin $preload p main copy
	tell p go
	answer p
	matches "what the main thread unwinds" "stack: copy 0 * free 0" \
		"$ANSWER"
	answer p
	equal "without the main thread" "ok alone" "$ANSWER"
	[[ $preload == talk_plain ]] || sleeps p
	[[ $preload == talk_plain ]] ||
		equal "its state" asleep "$(now p state)"
	depart p main
	[[ $preload == talk ]] || plain=$ENDED
	equal "the end without the main thread" "$plain" "$ENDED"
	matches "its status" "12|*" "$ENDED"
done
wait
ctl 0 list
equal "the list" '' "$OUT"
equal "what is in the directory" '' "$(ls -A "$VSLEEP_DIR")"
