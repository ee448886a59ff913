#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Two thousand signals into threads that allocate, print, load libraries and
# use the device: none hangs, nothing is wrong, no call is interrupted.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

PATIENCE=60

for seed in 1 2; do
	start storm SEED=$seed VSLEEP_LOG="$WORK/storm.log" "$BUILDDIR/storm"
	end storm
	equal "threads" 9 "$(wc -l <"$WORK/storm.text")"
	while read -r thread rounds wrong; do
		at_least "$thread: rounds" 1 "${rounds#*=}"
		equal "$thread (seed $seed)" wrong=0 "$wrong"
	done <"$WORK/storm.text"
	for word in asleep awake; do
		at_least "times $word" 2 "$(grep -c "info: $word" \
			"$WORK/storm.log")"
	done
	lawful storm
done
