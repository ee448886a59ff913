#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What has been prepared a sleep need not copy; the program runs on meanwhile,
# with its device memory for itself.  With VSLEEP_PREPARE nobody has to ask.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

goes() {
	within "progress of $1" past "$1" count \
		$(($(number_in "$1" count) + 2))
}
prepare_is() {
	status p
	[[ $(value prepare) == "$1" ]]
}

puppet p VSLEEP_RETAIN=yes
ask p "alloc a $((2 * M))"
ask p "alloc b $((64 * M))"
ask p "fill b 3"
before=$(device p)
ask p "work a"
goes p
ctl 0 prepare "${PID[p]}"
at_least "bytes prepared" $((64 * M)) "$(value prepared-bytes)"
at_least "bytes copied" $((64 * M)) "$(value prepared-copied-bytes)"
expect state awake prepare off prepared-left-bytes 0 holds '' \
	unmanaged-bytes 0
at_least "bytes retained" $((64 * M)) "$(value retained-bytes)"
goes p
equal "bytes on the device" "$before" "$(device p)"
sleeps p
at_most "bytes that the sleep copied" $((4 * M)) "$(value copied-bytes)"
at_least "bytes that it did not" $((64 * M)) "$(value unchanged-bytes)"
# nothing is awake
ctl 0 prepare "${PID[p]}"
expect state asleep prepared-bytes 0
wakes p
goes p
ask p rest
ask p "check b" "ok bad=0"

# what the program maps itself
ask p "vmm d $((18 * M))"
ask p "fill d 4"
ctl 0 prepare "${PID[p]}"
at_least "bytes copied" $((18 * M)) "$(value prepared-copied-bytes)"
sleeps p
at_most "bytes that the sleep copied" $((2 * M)) "$(value copied-bytes)"
wakes p
ask p "check b" "ok bad=0"
ask p "check d" "ok bad=0"

ctl 0 prepare --tags default "${PID[p]}"
expect prepared-left-bytes 0
ctl 1 prepare --tags nosuch "${PID[p]}"
ctl 0 trim "${PID[p]}"
expect host-bytes 0
leave p

puppet p VSLEEP_RETAIN=no
ask p "alloc b $((17 * M))"
ctl 1 prepare "${PID[p]}"
matches "the reason" "*VSLEEP_RETAIN*" "$ERR"
leave p

puppet p VSLEEP_RETAIN=yes VSLEEP_PREPARE=1
ask p "alloc b $((17 * M))"
ask p "fill b 5"
within "a pass of its own accord" prepare_is "done"
at_least "bytes retained" $((17 * M)) "$(value retained-bytes)"
sleeps p
expect copied-bytes 0
wakes p
ask p "fill b 6"
within "a pass after the wake" prepare_is "done"
sleeps p
expect copied-bytes 0
wakes p
ask p "check b" "ok bad=0"
# what is given back on request is not taken again at once
ctl 0 trim "${PID[p]}"
expect prepare "done" host-bytes 0
leave p

# it ends while copies are under way
puppet p VSLEEP_RETAIN=yes VSLEEP_PREPARE=1 VSLEEP_SIM_COPY_MIBPS=100
ask p "alloc b $((64 * M))"
ask p "fill b 7"
within "a pass" prepare_is running
tell p "leave return"
end p
lawful p
