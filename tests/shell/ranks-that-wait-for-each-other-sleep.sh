#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The ranks of a job, whose kernels wait for each other, are put to sleep as a
# group again and again, though the moments at which all can rest are short.
# Their bytes stay right, also of ranks that are many steps apart.  One alone
# cannot rest, and runs on.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

export RING=$WORK/ring
start r0 "$BUILDDIR/ranks" 0
start r1 "$BUILDDIR/ranks" 1
ranks=("${PID[r0]}" "${PID[r1]}")
goes_on() {
	local before
	before=$(number_in r0 count)
	within "progress of the job" past r0 count $((before + 5))
	within "progress of its other half" past r1 count $((before + 3))
}
goes_on
for n in {1..12}; do
	ctl 0 sleep --timeout $((PATIENCE * 2)) "${ranks[@]}"
	for name in r0 r1; do
		status $name
		expect state asleep resident-bytes 0
	done
	ahead=$(($(number_in r0 count) - $(number_in r1 count)))
	at_most "steps that they are apart" 1 "${ahead#-}"
	ctl 0 wake "${ranks[@]}"
	goes_on
done

# the other one comes to a step that this one never gets to
sleeps r1 --wait "$PATIENCE"
ctl 3 sleep --timeout 1 "${ranks[0]}"
matches "what one alone says" "*busy: *" "$ERR"
equal "the state" awake "$(now r0 state)"
wakes r1
goes_on
kill "${ranks[@]}"
end r0 143
end r1 143

# far apart, and hardly ever at the same step while they run
rm "$RING"
start r0 DEEP=60 "$BUILDDIR/ranks" 0
start r1 DEEP=60 "$BUILDDIR/ranks" 1
ranks=("${PID[r0]}" "${PID[r1]}")
for n in {1..4}; do
	goes_on
	ctl 0 sleep --timeout $((PATIENCE * 2)) "${ranks[@]}"
	for name in r0 r1; do
		status $name
		expect state asleep resident-bytes 0
	done
	ctl 0 wake "${ranks[@]}"
done
goes_on
equal "what they say" '' "$(cat "$WORK"/r?.err)"
