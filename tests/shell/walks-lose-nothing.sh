#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Programs that allocate, map and free at random, in all ways: what they see is
# the same as without us, whatever sleeps meanwhile.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

# cycle NAME: a sleep and a wake whenever it has gone on, until it is gone
cycle() {
	local asleep=0 steps=0
	until gone "$1"; do
		moved "$1" || continue
		"$VSLEEPCTL" sleep "${PID[$1]}" >/dev/null 2>&1 &&
			asleep=$((asleep + 1))
		"$VSLEEPCTL" wake --wait 20 "${PID[$1]}" >/dev/null 2>&1
	done
	at_least "sleeps of $1" 1 "$asleep"
	ended "$1"
}
moved() {
	local before=$steps
	steps=$(grep -c step "$WORK/$1.err")
	((steps > before)) || sleep 0.01
	((steps > before))
}
ended() {
	wait "${PID[$1]}"
	equal "the end of $1" 0 $?
	unset "PID[$1]"
}

export VSLEEP_SIM_MEMORY=1G
for seed in 3 4; do
	start_plain plain SEED=$seed STEPS=350 "$BUILDDIR/walk"
	ended plain
	start walk SEED=$seed STEPS=350 "$BUILDDIR/walk"
	cycle walk
	equal "what seed $seed sees" "$(<"$WORK/plain.text")" \
		"$(<"$WORK/walk.text")"
done

# roams NAME [VAR=VALUE...]: and nothing that is read is wrong
roams() {
	start "$@" STEPS=200 "$BUILDDIR/roam"
	if [[ $1 == cycled ]]; then
		cycle "$1"
	else
		ended "$1"
	fi
	equal "what $* reads" "wrong 0" "$(<"$WORK/$1.text")"
	matches "invalid calls" "*invalid-calls=0*" "$(<"$WORK/$1.ledger")"
}

# each thread puts what it has to sleep, and others all of it
roams cycled EXPORT=1 VSLEEP_SIM_DEVICES=2
# little memory, full launch queues
roams cycled NAPS=0 VSLEEP_SIM_MEMORY=64M VSLEEP_SIM_QUEUE=8
roams alone VSLEEP_SIM_MEMORY=64M VSLEEP_SIM_DEVICES=2
