#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What a program has freed is the program's when it asks again, free memory in
# what it sees, and the device's when it does not; and then nothing looks at it
# any more.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

export VSLEEP_SIM_MEMORY=256M

# An arena keeps 4 MiB for ever.
is_back() { (($(device p) <= $1)); }

# switches: how often the thread that watches has gone to wait
switches() {
	local task
	for task in /proc/"${PID[p]}"/task/*; do
		[[ $(<"$task/comm") == vsleep-watch ]] || continue
		sed -n 's/^voluntary_ctxt_switches:\s*//p' "$task/status"
	done
}

puppet p
all=$(asked free p info)
idle=$(device p)
for size in $((40 * M)) $((15 * M)); do
	for n in 1 2 3; do
		ask p "alloc a $size"
		ask p "alloc b $size"
		ask p "fill a $n"
		ask p "fill b $n"
		ask p "free a"
		ask p "check b" "ok bad=0"
		ask p "free b"
		equal "free bytes, as the program sees them" "$all" \
			"$(asked free p info)"
	done
	within "what was freed to go back" is_back $((idle + 4 * M))
done

# nobody polls: the ticks of the program are 5 ms or more
before=$(switches)
[[ -n $before ]] || fail "no thread watches"
ticks=$(number_in p tick)
within "a hundred ticks" past p tick $((ticks + 100))
equal "how often the watch has waited" "$before" "$(switches)"

# more than is free beside what is kept
for n in 1 2 3; do
	ask p "alloc a $((150 * M))"
	ask p "free a"
	ask p "alloc b $((160 * M))"
	ask p "free b"
	ask p "managed c $M"
	ask p "free c"
	ask p "vmm d $((200 * M))"
	ask p "fill d $n"
	ask p "check d" "ok bad=0"
	ask p "free d"
done

# held, too
ask p "alloc a $((40 * M))"
ctl 0 pause "${PID[p]}"
ask p "free a"
within "what was freed while held to go back" is_back $((idle + 4 * M))
ctl 0 resume "${PID[p]}"

# and a sleep that comes at once finds none of it
for n in 1 2 3; do
	ask p "alloc a $((40 * M))"
	ask p "alloc b $((3 * M))"
	ask p "fill b $n"
	ask p "free a"
	sleeps p
	expect state asleep resident-bytes 0
	at_most "released, without what was freed before" $((39 * M)) \
		"$(value released-bytes)"
	wakes p
	ask p "check b" "ok bad=0"
	ask p "free b"
done
leave p
