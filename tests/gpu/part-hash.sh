#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The sums of pages that the device makes: the same as the host's, different
# for what has changed, and at the speed of its memory.

# shellcheck source=lib.sh
. "$HERE/lib.sh"

# sums MODE: to its end, in SAID what it says
sums() {
	start "$1" 400 "$BIN/page_hash" "$1"
	finish "$1"
	SAID=$(cat "$WORK/$1.out")
	echo "$1: $SAID"
	[[ $STATUS -eq 0 ]] || excerpt "$1"
}

# exactly MODE COUNT WRONG...: it counted some, and nothing of what is wrong
exactly() {
	local key problem=''
	sums "$1"
	[[ $STATUS -eq 0 ]] || problem="exit status $STATUS"
	at_least "$(number "$2" "$SAID")" 1 || problem+="; no $2"
	for key in "${@:3}"; do
		[[ $(value "$key" "$SAID") == 0 ]] || problem+="; $key"
	done
	row "$1" "$SAID" "$(verdict "${problem#; }")"
}

# A rate depends on the device; one that is low is only said.
fast() {
	local problem='' rate
	sums rate
	rate=$(number gib-per-s "$SAID")
	[[ $STATUS -eq 0 ]] || problem="exit status $STATUS"
	((rate > 0)) || problem+="; no rate"
	((rate >= 2000)) || SAID+=" (note: under 2000 GiB/s)"
	row rate "$SAID" "$(verdict "${problem#; }")"
}

header mode says verdict
exactly compare compared different
exactly changes changed missed wrong
fast
