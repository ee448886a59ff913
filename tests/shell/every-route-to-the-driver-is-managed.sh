#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One program that finds the driver in three ways: linked, dlopen with local
# scope and dlsym, cuGetProcAddress in both forms.  On each way all that it
# allocates is managed, and its result after cycles is that of a plain run.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

export MAX_BLOCK=$((2 * M)) SPIN_NS=300000 STEPS=${STEPS:-75}

result() { tail -n 1 "$WORK/$1.text"; }

for way in driver driver_dlopen driver_getproc; do
	start_plain "$way-plain" "$BUILDDIR/$way"
	end "$way-plain"
	matches "$way, plain" "done hash * bad 0" "$(result "$way-plain")"

	start "$way" "$BUILDDIR/$way"
	within "steps of $way" grep -sq "^step" "$WORK/$way.progress"
	cycles=0
	while ((cycles < 5)); do
		sleeps "$way"
		expect state asleep unmanaged-bytes 0 resident-bytes 0 \
			unhooked 0
		live=$(value live-bytes)
		at_least "$way: released" "$live" "$(value released-bytes)"
		at_least "$way: live" $((64 * 1024)) "$live"
		# one may just have been freed, to be replaced
		at_least "$way: allocations" 24 "$(value allocations)"
		at=$(<"$WORK/$way.progress")
		wakes "$way"
		cycles=$((cycles + 1))
		[[ $at != "step $STEPS"* ]] || break
		within "progress of $way" changed "$way" "$at"
	done
	at_least "$way: cycles" 3 "$cycles"
	end "$way"
	equal "$way: result" "$(result "$way-plain")" "$(result "$way")"
	lawful "$way"
done
