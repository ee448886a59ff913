#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Memory of the default pool and of the program's own goes and comes back while
# several streams allocate, use and free it; what pools keep is given back when
# the program leaves them alone, and is never taken for the program's.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

pools() {
	talk "$@" "$BUILDDIR/pools"
	ready "$1"
}

little_kept() { (($(now "$1" resident-bytes) <= $2)); }

pools p VSLEEP_SIM_GRANULARITY=64K
ask p "work 4"
for _ in 1 2 3 4 5; do
	seen=$(number_in p count)
	within "work" past p count $((seen + 200))
	sleeps p
	expect state asleep kept-bytes 0 resident-bytes 0 unmanaged-bytes 0
	at_least "released" 1 "$(value released-bytes)"
	equal "on the device" 0 "$(device p)"
	wakes p
	expect state awake evicted-bytes 0 backed-up-bytes 0
done
ask p stop "ok bad=0"
# what is left is the word of drv.h
ask p used "ok bytes=0"
status p
expect allocations 1 live-bytes 8 unmanaged-bytes 0
# but for a few MiB of small blocks
within "the pools to give back" little_kept p $((5 * M))
leave p

# with little memory, so that streams wait for each other's frees
pools p VSLEEP_SIM_GRANULARITY=64K VSLEEP_SIM_MEMORY=40M
ask p "work 4"
for _ in 1 2; do
	seen=$(number_in p count)
	within "work" past p count $((seen + 300))
	sleeps p
	expect state asleep kept-bytes 0 resident-bytes 0
	wakes p
done
ask p stop "ok bad=0"
leave p

# puppet's block of a pool is one like any other
puppet q
ask q "pool b $((3 * M))"
ask q "fill b 5"
status q
expect allocations 2 unmanaged-bytes 0
sleeps q
expect state asleep resident-bytes 0
wakes q
ask q "check b" "ok bad=0"
sleeps q
evicted=$(now q evicted-bytes)
ask q "free b"
at_most "asleep without it" $((evicted - 3 * M)) "$(now q evicted-bytes)"
wakes q
leave q
