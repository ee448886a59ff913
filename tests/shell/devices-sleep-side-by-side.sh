#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A program on two devices, whose threads allocate on one while the other's
# context is current, has every byte after each cycle, also of work that was
# queued on both.  What is current on its threads stays so, and a device that
# it does not use gets no context.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

export VSLEEP_SIM_DEVICES=2

# begin NAME DEVICE...: one of those programs
begin() {
	local name=$1
	shift
	talk "$name" "$BUILDDIR/devices" "$@"
	ready "$name"
}

begin both 0 1
ask both get
ask both contexts "ok contexts=2 active=11"
for round in 1 2 3; do
	ask both queue
	ask both current "ok 0 1 0 none"
	sleeps both
	expect state asleep kept-bytes 0 resident-bytes 0
	at_least "round $round: released" $((2 * 17 * M)) \
		"$(value released-bytes)"
	equal "round $round: copied" "$(value released-bytes)" \
		"$(value copied-bytes)"
	wakes both
	ask both check "ok bad=0"
	ask both current "ok 0 1 0 none"
done
ask both contexts "ok contexts=2 active=11"
ask both put
sleeps both
wakes both
tell both leave
end both
clean both

# The second device alone, its number and order being no matter.
begin second 1
ask second get
ask second contexts "ok contexts=1 active=01"
for round in 1 2 3; do
	ask second queue
	sleeps second
	expect resident-bytes 0
	wakes second
	ask second check "ok bad=0"
done
ask second current "ok 1 1 1 none"
ask second contexts "ok contexts=1 active=01"
ask second put
sleeps second
wakes second
tell second leave
end second
clean second

begin turned 1 0
ask turned get
ask turned queue
sleeps turned
wakes turned
ask turned check "ok bad=0"
ask turned current "ok 1 0 1 none"
tell turned leave
end turned
lawful turned
