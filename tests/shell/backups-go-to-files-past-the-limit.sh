#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What host memory has no room for goes to a file of VSLEEP_SPILL_DIR that has
# no name, and comes back; a folder that does not serve refuses the sleep, and
# the program runs on.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

mkdir -m 700 "$WORK/spill"
payload() {
	ask p "alloc a $((64 * M))"
	ask p "alloc b $((24 * M - 4096))"
	ask p "fill a 1"
	ask p "fill b 2"
}
# the descriptors of p that are files of the folder
spilled() {
	find "/proc/${PID[p]}/fd" -lname "$WORK/spill/*" 2>/dev/null | wc -l
}

# 16 MiB of the 40 are the ring that it goes through
puppet p VSLEEP_HOST_LIMIT=40M VSLEEP_SPILL_DIR="$WORK/spill"
payload
ctl 0 sleep --dry-run "${PID[p]}"
equal "obstacles" '' "$(value obstacle)"
for n in 1 2; do
	sleeps p
	at_least "in files, sleep $n" $((64 * M)) "$(value spilled-bytes)"
	at_most "host memory" $((24 * M)) "$(value host-bytes)"
	equal "on the device" 0 "$(device p)"
	at_least "descriptors" 1 "$(spilled)"
	equal "names" '' "$(ls "$WORK/spill")"
	if ((n == 1)); then
		at_least "copied" $((88 * M - 4096)) "$(value copied-bytes)"
	else
		equal "copied by the second sleep" 0 "$(value copied-bytes)"
	fi
	wakes p
	ask p "check all" "ok bad=0"
done
ask p "fill a 3"
sleeps p
wakes p
ask p "check all" "ok bad=0"
ctl 0 trim "${PID[p]}"
equal "in files after a trim" 0 "$(value spilled-bytes)"
equal "descriptors after a trim" 0 "$(spilled)"
leave p

# a folder that is not there, and one for everybody
mkdir -m 777 "$WORK/open"
for folder in "$WORK/none" "$WORK/open"; do
	puppet p VSLEEP_HOST_LIMIT=40M VSLEEP_SPILL_DIR="$folder"
	payload
	ctl 1 sleep "${PID[p]}"
	matches "the message" "*no-host-memory: *$folder*" "$ERR"
	ask p "check all" "ok bad=0"
	ctl 0 status "${PID[p]}"
	equal "state" awake "$(value state)"
	leave p
done
