#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The same library on a driver of CUDA 12.0, which lacks a hundred of the entry
# points: all that a program allocates is managed, sleeps and comes back.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

names() { nm -D --defined-only "$1/libcuda.so.1" | grep -c ' cu'; }

older=$BUILDDIR/sim/older
at_most "names of the older driver" 540 "$(names "$older")"
at_least "names of the newer one" 637 "$(names "$BUILDDIR/sim")"
export LD_LIBRARY_PATH=$older

puppet p
ask p "alloc a $((40 * M))"
ask p "alloc b 1000"
ask p "fill a 1"
ask p "fill b 2"
full=$(device p)
for _ in 1 2; do
	sleeps p
	expect status ok state asleep resident-bytes 0 unhooked 0
	at_least "given back" $((40 * M)) $((full - $(device p)))
	wakes p
	expect status ok state awake evicted-bytes 0
	ask p "check all" "ok bad=0"
done
leave p

export MAX_BLOCK=$((2 * M)) SPIN_NS=300000 STEPS=20
for way in driver_dlopen driver_getproc; do
	start "$way" "$BUILDDIR/$way"
	within "steps of $way" grep -sq "^step" "$WORK/$way.progress"
	sleeps "$way"
	expect state asleep unmanaged-bytes 0 resident-bytes 0 unhooked 0
	wakes "$way"
	end "$way"
	matches "the result of $way" "done hash * bad 0" \
		"$(tail -n 1 "$WORK/$way.text")"
	lawful "$way"
done
