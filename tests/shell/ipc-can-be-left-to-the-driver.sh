#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A program without vsleep cannot open a handle of memory that can sleep; with
# VSLEEP_IPC the memory of the sizes it is for stays with the driver, whose
# handles anybody opens.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

talk_plain plain "$BUILDDIR/lender"
ready plain
ask plain "alloc p $((3 * M))"
ask plain "fill p 5"
theirs=$(asked handle plain "handle p")

lender a
ask a "alloc a $((3 * M))"
ours=$(asked handle a "handle a")
ask plain "open a $ours $((3 * M))" "error 1*"

# what is not ours passes, and is counted
ask a "open p $theirs $((3 * M))"
ask a "check p 5" "ok bad=0"
status a
expect native-imports 1 imported-bytes '' ipc-peer '' remedy ''
ask a "close p"
equal "what it says" '' "$(<"$WORK/a.err")"
leave a

lender n VSLEEP_IPC=native
ask n "alloc a $((3 * M))"
ask n "fill a 1"
native=$(asked handle n "handle a")
ask plain "open a $native $((3 * M))"
ask plain "check a 1" "ok bad=0"
ask plain "close a"
status n
expect allocations 0 live-bytes 0 resident-bytes 0 \
	unmanaged-native-bytes $((3 * M + 8))
before=$(device n)
ctl 5 sleep "${PID[n]}"
expect released-bytes 0
equal "on the device" "$before" "$(device n)"
wakes n
ask n "check a 1" "ok bad=0"
ask n "free all"
tell n leave
end n
clean n

lender r VSLEEP_IPC=native:2M-4M
ask r "alloc less $((2 * M - 1))"
ask r "alloc low $((2 * M))"
ask r "alloc high $((4 * M))"
ask r "alloc more $((4 * M + 1))"
status r
expect allocations 3 unmanaged-native-bytes $((6 * M))
ask plain "open low $(asked handle r "handle low") $((2 * M))"
ask plain "open high $(asked handle r "handle high") $((4 * M))"
ask plain "open less $(asked handle r "handle less") 8" "error 1*"
ask plain "open more $(asked handle r "handle more") 8" "error 1*"
ask plain "close low"
ask plain "close high"
leave r
ask plain "free all"
tell plain leave
end plain
