#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A sleep asked for while kernels and copies are queued waits for them, and
# what they compute is right.  So it is when a tag sleeps whose memory they do
# not touch.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

puppet p
ask p "alloc a $((4 * M))"
ask p "alloc b $((1 * M))"
ask p "fill a 1"
ask p "fill b 2"
for _ in 1 2 3; do
	ask p "spin 400"
	for i in 1 2 3; do
		ask p "add a $i"
	done
	ask p "copy a"
	ask p "add a $((4294967296 - 6))"
	started=${EPOCHREALTIME/./}
	sleeps p
	at_least "microseconds until the work was done" 100000 \
		$((${EPOCHREALTIME/./} - started))
	matches "drain-seconds" "@(0.[1-9]|[1-9])*" "$(value drain-seconds)"
	wakes p
	ask p sync
	ask p "check all" "ok bad=0"
done

ctl 0 tag "${PID[p]}" other
ask p "alloc c $((3 * M))"
ask p "fill c 3"
ask p "work b"
for _ in {1..15}; do
	before=$(number_in p count)
	sleeps p --tags other
	equal "the tag" asleep "$(of_tag other state)"
	equal "the tag at work" awake "$(of_tag default state)"
	wakes p --tags other
	within "work after a cycle" past p count "$before"
done
ask p rest "ok rounds=* bad=0"
ask p "fill b 2"
ask p "check all" "ok bad=0"
leave p
