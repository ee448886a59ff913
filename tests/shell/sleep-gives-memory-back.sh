#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A sleep gives every managed byte back to the device, a wake brings the same
# bytes back to the same addresses, and nothing is left when the program ends.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

puppet p
empty=$(device p)
ask p "alloc big $((20 * M))"
ask p "alloc middle $((5 * M + 3))"
for i in {1..20}; do
	ask p "alloc small$i $((i * 100))"
	ask p "fill small$i $i"
done
ask p "fill big 7"
ask p "fill middle 8"
status p
expect allocations 23 live-bytes $((25 * M + 3 + 100 * 210 + 8)) \
	unmanaged-bytes 0 evicted-bytes 0
where=$(asked hash p where)
full=$(device p)

for _ in 1 2 3; do
	sleeps p
	expect status ok state asleep resident-bytes 0
	released=$(value released-bytes)
	equal "evicted bytes" "$released" "$(value evicted-bytes)"
	at_least "backed up" $((25 * M)) "$(value backed-up-bytes)"
	at_most "left on the device" "$empty" "$(device p)"
	at_least "given back" $((25 * M)) $((full - $(device p)))
	equal "released by the driver's count" "$released" \
		$((full - $(device p)))

	wakes p
	expect status ok state awake evicted-bytes 0 backed-up-bytes 0
	equal "restored bytes" "$released" "$(value restored-bytes)"
	ask p "check all" "ok bad=0"
	equal addresses "$where" "$(asked hash p where)"
	equal "used after the wake" "$full" "$(device p)"
done
leave p
