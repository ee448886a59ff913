#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Managed memory leaves the device at a sleep and comes back at the wake, bytes
# and all, and the answer counts it; the driver shows its memory as used until
# another program needs it.  What does not fit comes later, what cannot go is
# kept and named, and what is on the host alone makes nothing partial.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"
export VSLEEP_SIM_SHARE=$WORK/share

puppet p VSLEEP_TAGS=mine=keep
ask p "alloc plain $((20 * M))"
ask p "managed big $((70 * M))"
ask p "managed host $((6 * M))"
for block in plain big host; do
	ask p "fill $block 7"
done
ask p "move big 0"
ask p "advise big 1"
before=$(device p)
status p
equal "on the device" $(($(value resident-bytes) + 70 * M)) "$before"
expect unmanaged-managed-bytes $((76 * M)) managed-on-host-bytes ''
for time in first second; do
	sleeps p
	expect status ok kept-bytes 0 unmanaged-bytes 0 \
		released-bytes "$before" managed-on-host-bytes $((70 * M))
	equal "shown as used, the $time time" $((70 * M)) "$(device p)"
	status p
	expect unmanaged-bytes 0 unmanaged-managed-bytes '' resident-bytes 0
	wakes p
	expect restored-bytes "$before" managed-on-host-bytes '' \
		unmanaged-managed-bytes $((76 * M))
	equal "on the device again" "$before" "$(device p)"
	ask p "check all" "ok bad=0"
done

# a program that needs the whole device gets it while this one sleeps
puppet other
sleeps p
expect released-bytes "$before"
ask other "alloc all $((510 * M))"
equal "left of it" 0 "$(device p)"
status p
expect managed-on-host-bytes $((70 * M))
ask other "free all"
leave other
wakes p
expect restored-bytes "$before"
equal "on the device again" "$before" "$(device p)"

# by tag, and with a policy; freed while it sleeps
ctl 0 tag "${PID[p]}" other
ask p "managed small $((2 * M))"
ask p "move small 0"
ctl 0 tag "${PID[p]}" mine
ask p "managed kept $((2 * M))"
ask p "fill kept 8"
ask p "move kept 0"
ctl 0 tag --clear "${PID[p]}"
sleeps p --tags other
expect state partial released-bytes $((2 * M))
sleeps p
expect state asleep kept-bytes $((2 * M)) \
	kept "$((2 * M)) policy keep"
status p
expect unmanaged-managed-bytes $((2 * M))
ask p "free small"
status p
expect managed-on-host-bytes $((70 * M))
wakes p
ask p "check all" "ok bad=0"
leave p

# another process has taken the room meanwhile
puppet q VSLEEP_SIM_MEMORY=96M
puppet other VSLEEP_SIM_MEMORY=96M
ask q "managed big $((80 * M))"
ask q "fill big 9"
ask q "move big 0"
before=$(device q)
sleeps q
expect status ok released-bytes "$before" managed-on-host-bytes $((80 * M))
ask other "alloc x $((60 * M))"
wakes q
rest=$((96 * M - $(device other)))
expect status ok restored-bytes "$rest" state awake
equal "on the device" "$rest" "$(device q)"
ask q "check all" "ok bad=0"
leave other
leave q

# a program that ends while it sleeps has its bytes till the end
puppet e
ask e "managed big $((8 * M))"
ask e "fill big 5"
ask e "move big 0"
ask e "atexit count"
sleeps e
expect managed-on-host-bytes $((8 * M))
tell e "leave exit"
answer e
equal "its exit handler" "handler: bad 0" "$ANSWER"
end e 4
lawful e

# host memory that may not be had, a device that moves nothing
puppet l VSLEEP_HOST_LIMIT=70M
ask l "managed big $((80 * M))"
ask l "fill big 3"
ask l "move big 0"
ctl 5 sleep "${PID[l]}"
expect status partial state asleep kept-bytes $((16 * M)) \
	managed-on-host-bytes $((64 * M)) \
	kept "$((16 * M)) managed memory: too little host memory for it"
wakes l
ask l "check all" "ok bad=0"
leave l

puppet s VSLEEP_SIM_STILL=0
ask s "managed big $((8 * M))"
ask s "fill big 3"
ctl 5 sleep "${PID[s]}"
expect status partial managed-on-host-bytes '' kept-bytes $((8 * M))
matches "why" "*does not move managed memory*" "$(value kept)"
status s
expect unmanaged-managed-bytes $((8 * M))
equal "on the device" $((8 * M)) "$(device s)"
wakes s
ask s "check all" "ok bad=0"
ask s "free all"
sleeps s
wakes s
tell s "leave return"
end s
clean s
