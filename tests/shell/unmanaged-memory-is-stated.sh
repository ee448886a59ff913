#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Memory that a program gets by ways that vsleep passes on works, stays on the
# device over a sleep, and is counted by kind.  A sleep that frees nothing does
# not look like success.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

# NAME gets a block of each kind
fill_kinds() {
	ask "$1" "vmm v $((8 * M))"
	ask "$1" "managed m $((3 * M))"
	ask "$1" "shared q $((2 * M))"
	ask "$1" "array a $((1 * M))"
	for block in v m q; do
		ask "$1" "fill $block 5"
	done
}

puppet p
ask p "alloc plain $((16 * M))"
ask p "fill plain 6"
fill_kinds p
status p
expect unmanaged-bytes $((6 * M)) unmanaged-vmm-bytes '' \
	unmanaged-managed-bytes $((3 * M)) unmanaged-pool-bytes $((2 * M)) \
	unmanaged-array-bytes $((1 * M)) unmanaged-native-bytes ''
before=$(device p)
sleeps p
expect status ok unmanaged-bytes $((3 * M)) unmanaged-managed-bytes '' \
	kept-bytes 0 resident-bytes 0
equal "released" "$(value released-bytes)" $((before - $(device p)))
at_least "left on the device" $((3 * M)) "$(device p)"
wakes p
ask p "check all" "ok bad=0"
for block in v m q a; do
	ask p "free $block"
done
status p
expect unmanaged-bytes 0 unmanaged-vmm-bytes '' unmanaged-pool-bytes '' \
	unmanaged-managed-bytes '' unmanaged-array-bytes ''
leave p

# More stays than goes: done, but no success, also when it is asked for again.
puppet m
ask m "alloc plain $((4 * M))"
ask m "fill plain 6"
ask m "array a $((8 * M))"
before=$(device m)
for time in first second; do
	ctl 5 sleep "${PID[m]}"
	expect status partial state asleep
	equal "bytes on the device, the $time time" $((8 * M)) "$(device m)"
	equal "released" $((before - 8 * M)) "$(value released-bytes)"
	matches "what vsleepctl says" "*8 MiB*not manage*MiB*released*" "$ERR"
done
wakes m
# a part of it is what was asked for
sleeps m --tags default
wakes m
ask m "check all" "ok bad=0"
ask m "free a"
sleeps m
wakes m
leave m

# Only unmanaged memory: the program sleeps, but nobody may take it for free.
puppet n VSLEEP_TAG=
ask n "alloc plain $((4 * M))"
ask n "fill plain 6"
fill_kinds n
before=$(device n)
ctl 5 sleep "${PID[n]}"
expect state asleep released-bytes 0 live-bytes 0 \
	unmanaged-bytes $((18 * M + 8)) unmanaged-native-bytes $((4 * M + 8))
matches "what vsleepctl says" "*nothing was released*18 MiB*" "$ERR"
equal "on the device" "$before" "$(device n)"
wakes n
ask n "check all" "ok bad=0"
ask n "free plain"
status n
expect unmanaged-native-bytes 8
ask n "free all"
tell n "leave return"
end n
clean n
