#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# 32 GiB in mixed blocks: gone from the device when the sleep is answered, the
# same words at the same addresses after the wake.  By vsleepctl, by signals.
#
# Beside the 16 MiB of slack the driver may keep the page tables of the pinned
# host memory: 8 bytes for each page of 4 KiB, which is 2 MiB for each GiB that
# is backed up.  They go when the host memory is unpinned, and with them the
# speed of the wake.

# shellcheck source=lib.sh
. "$HERE/lib.sh"

amount=${BIG_MIB:-32768}
tables=$((amount / 512))
live=$((amount * 1048576)) slack=$(((16 + tables) * 1048576))

# look: SMI (MiB) and SEEN (bytes), device memory in use
look() {
	SMI=$(smi_used)
	SEEN=$(info used watch)
}

# check_release HOW: what is in use now against what was before the sleep
check_release() {
	local problem=''
	look
	at_most "$SMI" $((SMI_BEFORE - amount + 16 + tables)) ||
		problem="less than the live bytes came back"
	row "$1: nvidia-smi" "$SMI_BEFORE MiB" "$SMI MiB" \
		"$(verdict "$problem")"
	problem=''
	at_most "$SEEN" $((SEEN_BEFORE - live + slack)) ||
		problem="less than the live bytes came back"
	row "$1: cuMemGetInfo" "$(mib "$SEEN_BEFORE") MiB" \
		"$(mib "$SEEN") MiB" "$(verdict "$problem")"
}

# check_back HOW: words and addresses
check_back() {
	local problem='' bad
	ask big 60 check || problem="no check: $ANSWER"
	bad=$(value bad "$ANSWER")
	[[ $bad == 0 ]] || problem=${problem:-"$bad wrong words"}
	ask big 20 pointers
	[[ $ANSWER == "$POINTERS" ]] || problem=${problem:-"addresses moved"}
	row "$1: words and addresses" "$(value count "$POINTERS") blocks" \
		"$bad wrong" "$(verdict "$problem")"
}

# reached STATE SEQUENCE: also when big is gone, to wait no longer
reached() { gone big || advanced big "$1" "$2"; }

by_control() {
	local problem='' had reply
	answers big
	had=$(number resident-bytes "$REPLY_TEXT")
	if ! ctl sleep "${PID[big]}"; then
		row "vsleepctl sleep" - - \
			"FAILED: $(refusal)"
		return
	fi
	reply=$(number released-bytes "$REPLY_TEXT")
	check_release vsleepctl
	answers big
	[[ $(value state "$REPLY_TEXT") == asleep ]] || problem="not asleep"
	at_least "$reply" "$live" || problem="reply says $reply released"
	[[ $(number released-bytes "$REPLY_TEXT") == "$reply" ]] ||
		problem="status and reply differ about the released bytes"
	[[ $((had - $(number resident-bytes "$REPLY_TEXT"))) == "$reply" ]] ||
		problem="released is not what resident lost"
	row "vsleepctl: released in reply and ledger" "$had resident" \
		"$reply released" "$(verdict "$problem")"
	if ctl wake "${PID[big]}"; then
		check_back vsleepctl
	else
		row "vsleepctl wake" - - \
			"FAILED: $(refusal)"
	fi
}

by_signal() {
	local sequence
	answers big
	sequence=$(number sequence "$REPLY_TEXT")
	kill -USR1 "${PID[big]}"
	within 60 reached asleep "$sequence"
	if ! advanced big asleep "$sequence"; then
		row SIGUSR1 - - "FAILED: not asleep: $(refusal)"
		return
	fi
	sequence=$(number sequence "$REPLY_TEXT")
	check_release SIGUSR1
	kill -USR2 "${PID[big]}"
	within 60 reached awake "$sequence"
	if advanced big awake "$sequence"; then
		check_back SIGUSR2
	else
		row SIGUSR2 - - "FAILED: not awake: $(refusal)"
	fi
}

header check before after verdict
trap sweep EXIT
if hold_up watch && hold_up -p big && ask big 60 "mix $amount" &&
	ask big 60 "fill 7" && ask big 20 pointers; then
	POINTERS=$ANSWER
	look
	SMI_BEFORE=$SMI SEEN_BEFORE=$SEEN
	by_control
	by_signal
	hold_down big
else
	row "32 GiB" - - "FAILED: not set up: $ANSWER"
	excerpt big
fi
hold_down watch
