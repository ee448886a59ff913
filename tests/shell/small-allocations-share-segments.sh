#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Thousands of small allocations take hardly more of the device than without
# vsleep, the rest of them is whole when every second one was freed and all
# slept, and a program that fills the device in steps gets as far.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

count=20000
for size in 512 4096; do
	talk_plain plain "$BUILDDIR/small"
	ready plain
	plain=$(asked device plain "make $count $size")
	tell plain leave
	end plain

	talk p VSLEEP_SIM_DIRTY=1 "$BUILDDIR/small"
	ready p
	ask p "make $count $size"
	equal "made" $count "$(word made "$ANSWER")"
	at_most "device bytes of $count x $size" $((plain + 32 * M)) \
		"$(word device "$ANSWER")"
	status p
	expect allocations $count live-bytes $((count * size))
	at_most "resident" $((plain + 32 * M)) "$(value resident-bytes)"
	ask p halve
	ask p check "ok bad=0 left=$((count / 2))"
	sleeps p
	expect allocations $((count / 2)) live-bytes $((count * size / 2)) \
		resident-bytes 0
	at_most "backed up" $((plain + 32 * M)) "$(value backed-up-bytes)"
	wakes p
	ask p check "ok bad=0 left=$((count / 2))"
	ask p drop
	sleeps p
	wakes p
	status p
	expect allocations 0 live-bytes 0 resident-bytes 0
	tell p leave
	end p
	clean p
done

# a megabyte at a time, until nothing is left; again after all was freed
export VSLEEP_SIM_MEMORY=256M
for size in $M $((3 * M / 2)); do
	talk_plain plain "$BUILDDIR/small"
	ready plain
	ask plain "make 0 $size" "ok *rc=2"
	plain=$(word bytes "$ANSWER")
	tell plain leave
	end plain
	at_least "what a plain program gets" $((150 * M)) "$plain"

	talk p "$BUILDDIR/small"
	ready p
	for n in 1 2; do
		ask p "make 0 $size" "ok *rc=2"
		at_least "98 % of $plain in steps of $size" \
			$((plain * 98 / 100)) "$(word bytes "$ANSWER")"
		ask p drop
	done
	tell p leave
	end p
	lawful p
done
