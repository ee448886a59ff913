#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Memory whose tag is discarded comes back as zeros to the last byte, whatever
# another process left on the device; memory of another tag comes back whole.

# shellcheck source=lib.sh
. "$HERE/lib.sh"

# 1 GiB in all, odd sizes among it
sizes="1 3 255 4095 4097 65535 1048577 2097151 2097153 10485763 67108865"
sizes+=" 51306231 134217729 268435457 536870912"

# dirty: all free memory becomes 0x5A, and is given back
dirty() {
	hold_up dirty || { echo "the second process did not start" && return; }
	ask dirty 60 "hog 64" && ask dirty 60 "byte 0x5a" ||
		echo "the second process: $ANSWER"
	hold_down dirty
}

# check_discard NAME LEVEL BYTE SETTING...: fill with 0xA5, sleep, dirty the
# device, wake; every byte must be BYTE
check_discard() {
	local name=$1 level=$2 byte=$3 problem='' bad released='-'
	shift 3
	local more=()
	[[ $level == 1 ]] || more=(--discard-all)
	if hold_up -p "$name" "$@" && ask "$name" 30 "alloc $sizes" &&
		ask "$name" 30 "byte 0xa5"; then
		if ctl sleep "${PID[$name]}" --level "$level" "${more[@]}"; then
			released=$(number released-bytes "$REPLY_TEXT")
			((released > 1000000000)) || problem="little came back"
			problem+=$(dirty)
			ctl wake "${PID[$name]}" ||
				problem+="wake, $(refusal)"
			ask "$name" 60 "checkbyte $byte" || problem+="no check"
			bad=$(value bad "$ANSWER")
			[[ $bad == 0 ]] || problem+="$bad bytes are not $byte"
		else
			problem="sleep, $(refusal)"
		fi
	else
		problem="not set up: ${ANSWER-}"
	fi
	[[ -z $problem ]] || excerpt "$name"
	row "$name" "$(mib "$released") MiB" "$byte" "$(verdict "$problem")"
	hold_down "$name"
}

header what released "every byte" verdict
trap sweep EXIT
check_discard level-1-discard 1 0 VSLEEP_TAG=kv VSLEEP_TAGS=kv=discard
check_discard level-2 2 0 VSLEEP_TAG=kv
check_discard level-1-offload 1 0xa5 VSLEEP_TAG=kv VSLEEP_TAGS=other=discard
