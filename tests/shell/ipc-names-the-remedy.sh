#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A CUDA IPC handle of memory that can sleep cannot be had: the program gets the
# driver's error, and one log line and status name the remedy.  With that, an
# empty VSLEEP_TAG, it gets the handle, and its memory is the driver's.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

remedy='CUDA IPC was refused: start this process with VSLEEP_TAG= *'

talk_plain plain "$BUILDDIR/puppet"
ready plain
ask plain "alloc a $((3 * M))"
ask plain "vmm v $((2 * M))"
ask plain "ipc a" ok
ask plain "ipc v" "error *"
error=$ANSWER
tell plain "leave free"
end plain

puppet p
ask p "alloc a $((3 * M))"
ask p "alloc small 4096"
ask p "vmm v $((2 * M))"
ask p "fill a 1"
# what is not ours is the driver's business
ask p "ipc v" "$error"
status p
expect remedy ''
equal "what it says" '' "$(<"$WORK/p.err")"
for block in a small a; do
	ask p "ipc $block" "$error"
	status p
	matches "the remedy" "$remedy" "$(value remedy)"
	expect state awake
	equal "lines" 1 "$(wc -l <"$WORK/p.err")"
done
matches "what it says" "vsleep[[]*[]] warning: CUDA IPC *VSLEEP_TAG= *" \
	"$(<"$WORK/p.err")"
sleeps p
matches "the remedy" "$remedy" "$(value remedy)"
ask p "ipc a" "$error"
wakes p
ask p "check a" "ok bad=0"
leave p
equal "lines" 1 "$(wc -l <"$WORK/p.err")"

puppet n VSLEEP_TAG=
ask n "alloc a $((3 * M))"
ask n "fill a 1"
ask n "ipc a" ok
status n
expect remedy '' allocations 0 live-bytes 0 resident-bytes 0 \
	unmanaged-native-bytes $((3 * M + 8))
before=$(device n)
ctl 5 sleep "${PID[n]}"
expect released-bytes 0
equal "on the device" "$before" "$(device n)"
wakes n
ask n "check a" "ok bad=0"
equal "what it says" '' "$(<"$WORK/n.err")"
ask n "free all"
tell n "leave return"
end n
clean n
