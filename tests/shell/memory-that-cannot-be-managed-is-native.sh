#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Where a device has no virtual memory management, a call of it is not
# supported, or addresses run out, the program works as without vsleep, and
# status says what does not sleep.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

export VSLEEP_SIM_DEVICES=2
readonly BLOCKS=$((17 * M + 300000))	# that the program has on a device

# run NAME [VAR=VALUE...]: with a cycle in between it has what it should have.
# RC is what the sleep exits with, OUT what it says.
run() {
	local name=$1 said status
	talk "$@" "$BUILDDIR/devices" 0 1
	ready "$name"
	ask "$name" get
	ask "$name" queue
	timeout -k 5 60 "$VSLEEPCTL" sleep "${PID[$name]}" >"$WORK/said" \
		2>"$WORK/said.err" </dev/null
	status=$? said=$(<"$WORK/said")
	wakes "$name"
	ask "$name" check "ok bad=0"
	RC=$status OUT=$said ERR=$(<"$WORK/said.err")
}
finish() {
	ask "$1" put
	sleeps "$1"
	wakes "$1"
	tell "$1" leave
	end "$1"
	clean "$1"
}

# one device has none
run half VSLEEP_SIM_NO_VMM=1
equal "the sleep of half" 0 "$RC"
expect unmanaged-native-bytes "$BLOCKS" resident-bytes 0
at_least "released" $((17 * M)) "$(value released-bytes)"
matches "what the program's log says" "*device 1: virtual memory*" \
	"$(<"$WORK/half.err")"
finish half

# none at all at run time, though the device says so
run refused VSLEEP_SIM_FAIL=cuMemCreate:1+:801
equal "the sleep of refused" 5 "$RC"
expect unmanaged-native-bytes $((2 * BLOCKS)) released-bytes 0
finish refused

# no addresses, now and then and from some call on: all bytes are accounted for
for fault in 1:2 2:2 3:2 4:2 1+:2 2+:2 3+:2 4+:2 1+:999 3+:999; do
	talk_plain plain VSLEEP_SIM_FAIL="cuMemAddressReserve:$fault" \
		"$BUILDDIR/devices" 0 1
	ready plain
	talk p VSLEEP_SIM_FAIL="cuMemAddressReserve:$fault" \
		"$BUILDDIR/devices" 0 1
	ready p
	for command in get contexts current put get; do
		ask plain "$command"
		said=$ANSWER
		ask p "$command" "$said"
	done
	status p
	equal "$fault: bytes" $((2 * BLOCKS)) $(($(value live-bytes) +
		$(value unmanaged-bytes)))
	tell plain leave
	end plain
	tell p leave
	end p
	lawful p
done
