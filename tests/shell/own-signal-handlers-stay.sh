#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A program that handles SIGUSR1 itself, from before its first CUDA call or
# later, gets every one, as without the preload, and sleeps by vsleepctl alone.

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
