#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Threads that allocate at once, each under its own tag, end up under their
# tags: by the library's books, and when one tag sleeps without the others.
# Tags that are pushed or set before CUDA is called hold.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

threads=16

talk p "$BUILDDIR/asks"
ready p
ask p "push early" "ok rc=0"
ask p "set later" "ok rc=0"
ask p cuda "ok rc=0"
ask p "alloc a"
ask p "tag a" "ok tag=early"
ask p pop "ok rc=0"
ask p pop "ok rc=5"
ask p "alloc b"
ask p "tag b" "ok tag=later"
ask p "set -" "ok rc=0"

ask p "crowd $threads" "ok wrong=0"
status p
total=0
for ((n = 0; n < threads; n++)); do
	count=$((8 * (n + 1)))
	equal "blocks of t$n" $count "$(of_tag t$n allocations)"
	equal "bytes of t$n" $((count * 10000)) "$(of_tag t$n live-bytes)"
	total=$((total + count))
done
equal "blocks of default" $threads "$(of_tag default allocations)"
equal "all blocks" $((total + threads + 3)) "$(value allocations)"

for n in 0 7 15; do
	sleeps p --tags t$n
	for other in 0 7 15; do
		state=awake
		[[ $n != "$other" ]] || state=asleep
		equal "t$other while t$n sleeps" $state \
			"$(of_tag t$other state)"
	done
	wakes p --tags t$n
done
ask p "check a" "ok bad=0"
ask p "check b" "ok bad=0"
tell p leave
end p
lawful p
