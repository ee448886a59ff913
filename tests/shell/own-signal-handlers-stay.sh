#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A program that handles SIGUSR1 itself, from before its first CUDA call or
# later, gets every one, as without the preload, and sleeps by vsleepctl alone.
# Whatever way it installs, asks, waits or is ended by: it sees what it would
# see without the preload.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

# count NAME: three signals, one after the other
count() {
	local n
	for n in 1 2 3; do
		kill -s USR1 "${PID[$1]}"
		within "signal $n" counted "$1" $n
	done
}
counted() { [[ $(asked signals "$1" signals) == "$2" ]]; }

talk_plain plain EARLY_HANDLER=1 "$BUILDDIR/puppet"
ready plain
count plain

puppet early EARLY_HANDLER=1 VSLEEP_LOG="$WORK/early.log"
count early
equal "the state" awake "$(now early state)"
equal "log lines about it" 1 "$(grep -c "signal $(kill -l USR1)" \
	"$WORK/early.log")"

puppet late
ask late handler
count late
equal "the state" awake "$(now late state)"

for name in early late; do
	equal "sequence of $name" 0 "$(now $name sequence)"
	sleeps "$name"
	# its handler runs while it is held
	kill -s USR1 "${PID[$name]}"
	within "a signal while asleep" counted "$name" 4
	wakes "$name"
	leave "$name"
done

# as_plain NAME PROGRAM ARG...: says the same and ends the same
as_plain() {
	local name=$1 run status
	local -A ends
	shift
	for run in plain with; do
		case $run in
		plain) start_plain "$name" "$@" ;;
		with) start "$name" "$@" ;;
		esac
		within "the end of $*" ended "$name"
		{ wait "${PID[$name]}" && status=0 || status=$?; } 2>/dev/null
		unset "PID[$name]"
		ends[$run]="$status|$(<"$WORK/$name.text")|"
		ends[$run]+=$(<"$WORK/$name.err")
	done
	equal "$*" "${ends[plain]}" "${ends[with]}"
	ENDED=${ends[plain]}
}

ulimit -c 0
mapfile -t ways < <("$BUILDDIR/signals")
at_least "ways" 13 "${#ways[@]}"
killed=0
for way in "${ways[@]}"; do
	for when in before after; do
		as_plain "$way-$when" "$BUILDDIR/signals" "$way" "$when"
		matches "the end of $way" "@(6|138|140)|earliest default*" \
			"$ENDED"
		[[ $ENDED == 6* ]] || killed=$((killed + 1))
	done
done
at_least "runs that a signal ended" 8 $killed

if python3 -c 'import ctypes' 2>/dev/null; then
	for when in before after; do
		as_plain "python-$when" python3 \
			"$SRCDIR/programs/signals.py" $when
		matches "Python $when" "138|*" "$ENDED"
	done
fi

# what it takes over after the first context is said, once
start taken VSLEEP_LOG="$WORK/taken.log" "$BUILDDIR/signals" sigaction after
within "the end of it" ended taken
end taken 6
equal "lines about it" 2 "$(grep -c 'own now: it does not' "$WORK/taken.log")"
grep -q "info: signal $(kill -l USR1) is the program's own now: it does not\
 sleep any more" "$WORK/taken.log" || fail "nothing is said about SIGUSR1"
