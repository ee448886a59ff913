#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A wake states how much it has verified, if it is asked to by vsleepctl or by
# the setting, and else nothing of the kind.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

# cycle VERIFIED [OPTION...]: sleep, and wake like that
cycle() {
	local verified=$1
	shift
	sleeps p
	ctl 0 wake "$@" "${PID[p]}"
	equal "state" awake "$(value state)"
	equal "verified" "$verified" "$(value verified-bytes)"
	equal "unverified" "${verified:+0}" "$(value unverified-bytes)"
	ask p "check all" "ok bad=0"
}
for setting in 0 1; do
	puppet p VSLEEP_VERIFY=$setting
	ask p "alloc a $((64 * M))"
	ask p "alloc b $((6 * M))"
	ask p "fill a 1"
	ask p "fill b 2"
	all=$(device p)
	cycle "$all" --verify
	cycle '' --no-verify
	if ((setting)); then
		cycle "$all"
	else
		cycle ''
	fi
	leave p
done
