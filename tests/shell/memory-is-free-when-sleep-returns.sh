#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# When a sleep has returned another program gets the memory at once, at its
# first try; and the wake that follows finds it free again.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

export VSLEEP_SIM_SHARE=$WORK/share VSLEEP_SIM_MEMORY=25M
puppet p
ask p "alloc a $((15 * M))"
ask p "alloc b $((5 * M))"
ask p "fill a 1"
ask p "fill b 2"

# eighty: one program takes 80 % of the device and fills it
eighty() {
	talk_plain other "$BUILDDIR/hold"
	ready other
	ask other "alloc $((14 * M)) $((6 * M))"
	ask other "byte 90"
	tell other quit
	answer other
	end other
}

for round in {1..20}; do
	sleeps p
	eighty
	wakes p
	((round % 5)) || ask p "check all" "ok bad=0"
done
leave p
