#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# While another process holds the memory a wake says how much is needed and how
# much there is, and changes nothing; its program lives.  With --wait the wake
# succeeds once the other one leaves.  A wake by signal fails the same way.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

export VSLEEP_SIM_SHARE=$WORK/share VSLEEP_SIM_MEMORY=64M
puppet p
ask p "alloc a $((24 * M))"
ask p "alloc b $((9 * M))"
ask p "fill a 1"
ask p "fill b 2"
where=$(asked hash p where)
for round in 1 2 3; do
	sleeps p
	sequence=$(value sequence)
	backed_up=$(value backed-up-bytes)
	need=$(value evicted-bytes)
	asleep=$(device p)
	talk_plain hog "$BUILDDIR/hold"
	ready hog
	ask hog "hog 6"
	have=$(asked free hog info)

	ctl 4 wake "${PID[p]}"
	equal "the message" "vsleepctl: process ${PID[p]}: no-memory: device 0:\
 need $((need / M)) MiB, have $((have / M)) MiB" "$ERR"
	status p
	expect state asleep sequence "$sequence" evicted-bytes "$need" \
		backed-up-bytes "$backed_up" resident-bytes 0 holds asleep
	equal "device memory after the refusal" "$asleep" "$(device p)"
	ticks=$(number_in p tick)
	within "ticks of its other thread" past p tick "$ticks"

	kill -USR2 "${PID[p]}"
	ctl 4 wake "${PID[p]}"
	matches "last-error" "no-memory: device 0: need *" \
		"$(now p last-error)"

	if ((round == 2)); then
		ctl 4 wake --wait 0.3 "${PID[p]}"
		equal "the state" asleep "$(now p state)"
	fi
	wakes p --wait 20 &
	waker=$!
	ticks=$(number_in p tick)
	within "ticks during --wait" past p tick $((ticks + 5))
	status p
	matches "the state during --wait" "@(asleep|waking)" "$(value state)"
	tell hog quit
	end hog
	wait "$waker" || exit 1
	status p
	expect state awake sequence $((sequence + 1)) evicted-bytes 0 holds ''
	ask p "check all" "ok bad=0"
	equal addresses "$where" "$(asked hash p where)"
done
leave p
