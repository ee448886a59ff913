#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# While it sleeps a program makes no progress and gets no error: calls that
# need its memory wait and are counted, queries are answered.  After the wake it
# goes on, and its result is exact.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

puppet p
ask p "alloc a $((2 * M))"
ask p "alloc b $((1 * M))"
ask p "fill b 3"
total=$(asked total p info)
ask p "work a"
for cycle in 1 2 3 4 5; do
	within "progress" past p count $((cycle * 3))
	before=$(now p held-calls)
	sleeps p
	held p 1
	status p
	reached=$(number_in p count)
	expect holds asleep state asleep
	# others were held for a moment if it did not rest at once
	calls=$(value held-calls)
	at_least "calls that were held" $((before + 1)) "$calls"

	equal "total memory" "$total" "$(asked total p info)"
	# as much free memory as there is without the blocks
	equal "free memory" $((total - $(device p))) "$(asked free p info)"
	tell p "alloc late$cycle 70000"
	held p 2
	silent p
	status p
	expect held-calls $((calls + 1))
	equal "rounds while asleep" "$reached" "$(number_in p count)"

	wakes p
	expect holds ''
	answer p
	equal "the allocation that was held" ok "$ANSWER"
	within "progress after the wake" past p count "$reached"
	equal "calls held now" 0 "$(now p held-now)"
done
ask p rest "ok rounds=* bad=0"
at_least "rounds" 15 "$(word rounds "$ANSWER")"
ask p "check b" "ok bad=0"
leave p
