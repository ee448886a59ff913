#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Memory that a program creates and maps by its own hand, as allocators do, goes
# and comes back while it maps and unmaps all the time; with tags, what sleeps
# can be mapped and unmapped while that of another tag is at work.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

vmm() {
	talk "$@" "$BUILDDIR/vmm"
	ready "$1"
}

# cycle ROUNDS: of sleep and wake, between which the threads of p go round; what
# they have at a time may be nothing, so that some is held besides
cycle() {
	local round seen
	ask p "hold default"
	for ((round = 0; round < $1; round++)); do
		seen=$(number_in p count)
		within "work" past p count $((seen + 20))
		sleeps p
		expect state asleep kept-bytes 0 resident-bytes 0 \
			unmanaged-bytes 0
		at_least "released" $((512 * 1024)) "$(value released-bytes)"
		equal "on the device" 0 "$(device p)"
		wakes p
		expect state awake evicted-bytes 0 backed-up-bytes 0
		ask p check "ok bad=0"
	done
	ask p drop
}

for way in segments pool mirror; do
	vmm p VSLEEP_SIM_GRANULARITY=256K
	ask p "$way"
	cycle 4
	ask p stop "ok bad=0"
	leave p
done

# all ways at once, each with a tag of its own
vmm p VSLEEP_SIM_GRANULARITY=256K
for way in segments pool mirror segments; do
	ask p "$way $way"
done
cycle 5
ask p stop "ok bad=0"
leave p

# One tag sleeps and its mappings change, while those of another are made and
# removed by a program that runs.
vmm p VSLEEP_SIM_GRANULARITY=256K
ask p "hold weights"
ask p "segments kv"
ask p "pool kv"
for round in 1 2 3; do
	sleeps p --tags weights --no-hold
	expect state partial holds ''
	equal "the tag's memory" 0 "$(of_tag weights resident-bytes)"
	equal "what sleeps of it" $((512 * 1024)) \
		"$(of_tag weights evicted-bytes)"
	seen=$(number_in p count)
	within "work" past p count $((seen + 50))
	ask p shift
	ask p shift
	wakes p --tags weights
	expect state awake
	ask p check "ok bad=0"
done
# and it is freed in its sleep
sleeps p --tags weights --no-hold
ask p drop
status p
equal "what is left of it" 0 "$(of_tag weights evicted-bytes)"
wakes p
ask p stop "ok bad=0"
leave p
