#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What allocations and launches cost, plain beside preloaded.

# shellcheck source=lib.sh
. "$HERE/lib.sh"

# run_mode [-p] NAME MODE: to its end, in FIGURES what it says
run_mode() {
	local flags=()
	[[ $1 != -p ]] || { flags=(-p) && shift; }
	start "${flags[@]}" "$1" 120 LAUNCHES="${LAUNCHES:-250000}" \
		"$BIN/alloc" "$2"
	finish "$1"
	FIGURES=$(cat "$WORK/$1.out")
	[[ $STATUS -ne 0 ]] || return 0
	FIGURES=''
	excerpt "$1"
}

# both MODE: PLAIN and OURS
both() {
	run_mode "$1-plain" "$1"
	PLAIN=$FIGURES
	run_mode -p "$1-preloaded" "$1"
	OURS=$FIGURES
}

small() {
	local plain ours problem=''
	both small
	plain=$(value taken "$PLAIN") ours=$(value taken "$OURS")
	at_most "$ours" $((${plain:-0} + 32 * 1048576)) ||
		problem="more than 32 MiB over native"
	row "20 000 x 4 KiB take" "$(mib "$plain") MiB" "$(mib "$ours") MiB" - \
		"$(verdict "$problem")"
	plain=$(value allocate-us "$PLAIN") ours=$(value allocate-us "$OURS")
	row "one of these" "$plain us" "$ours us" "$(calc "$ours / $plain")" \
		stated
}

pairs() {
	local size plain ours verdict
	both pairs
	for size in 4KiB 1MiB 256MiB; do
		plain=$(value "$size-us" "$PLAIN")
		ours=$(value "$size-us" "$OURS")
		verdict=stated
		[[ -n $plain && -n $ours ]] || verdict="FAILED: no figures"
		row "allocate and free $size" "$plain us" "$ours us" \
			"$(calc "$ours / $plain")" "$verdict"
	done
}

# Paired as launches are: a row for each pool, way and size.
stream() {
	local n key word runs=()
	for ((n = 0; n < ${STREAM_PAIRS:-7}; n++)); do
		if ((n % 2)); then
			run_mode stream-plain stream
			PLAIN=$FIGURES
			run_mode -p stream-preloaded stream
			OURS=$FIGURES
		else
			run_mode -p stream-preloaded stream
			OURS=$FIGURES
			run_mode stream-plain stream
			PLAIN=$FIGURES
		fi
		runs+=("$PLAIN"$'\t'"$OURS")
	done
	for key in {default,keeping}-{same,cross}-{4KiB,1MiB,64MiB}; do
		word=${key//-/, }
		stream_row "$key" "stream-ordered, $word" "${runs[@]}"
	done
}

# stream_row KEY WHAT PLAIN<tab>OURS...: medians, and that of the ratios
stream_row() {
	local key=$1 what=$2 run plain ours ratio problem=''
	local plains=() all_ours=() ratios=()
	shift 2
	for run; do
		plain=$(value "$key-us" "${run%%$'\t'*}")
		ours=$(value "$key-us" "${run#*$'\t'}")
		[[ -n $plain && -n $ours ]] || continue
		plains+=("$plain") all_ours+=("$ours")
		ratios+=("$(calc "$ours / $plain")")
	done
	if ((!${#ratios[@]})); then
		row "$what" - - - "FAILED: no figures"
		return
	fi
	ratio=$(median "${ratios[@]}")
	holds "$ratio <= 1" || problem="over 1.0 times native"
	row "$what" "$(median "${plains[@]}") us" \
		"$(median "${all_ours[@]}") us" "$ratio" \
		"$(verdict "$problem")"
}

usable() {
	local plain ours problem=''
	both usable
	plain=$(number usable "$PLAIN") ours=$(number usable "$OURS")
	((plain > 0 && ours * 100 >= plain * 98)) || problem="under 98 %"
	row "usable in steps of 64 MiB" "$(mib "$plain") MiB" \
		"$(mib "$ours") MiB" "$(calc "$ours / $plain")" \
		"$(verdict "$problem")"
}

# Paired and alternating: the order within a pair changes each time.
launches() {
	local n plain ours pairs=() all_plain=() all_ours=() problem='' percent
	for ((n = 0; n < ${PAIRS:-20}; n++)); do
		if ((n % 2)); then
			run_mode launch-plain launches
			PLAIN=$FIGURES
			run_mode -p launch-preloaded launches
			OURS=$FIGURES
		else
			run_mode -p launch-preloaded launches
			OURS=$FIGURES
			run_mode launch-plain launches
			PLAIN=$FIGURES
		fi
		plain=$(value launch-ns "$PLAIN")
		ours=$(value launch-ns "$OURS")
		[[ -n $plain && -n $ours ]] || continue
		pairs+=("$(calc "100 * ($ours - $plain) / $plain")")
		all_plain+=("$plain") all_ours+=("$ours")
	done
	printf '%s\n' "${pairs[@]}" >"$WORK/launch-pairs"
	percent=$(median "${pairs[@]}")
	# single pairs scatter by more than what is looked for
	n=$(printf '%s\n' "${pairs[@]}" | sort -g |
		sed -n "$(((${#pairs[@]} + 3) / 4))p")
	holds "$n < 1" || problem="three of four pairs are over 1 %"
	((${#pairs[@]} == ${PAIRS:-20})) ||
		problem="only ${#pairs[@]} of ${PAIRS:-20} pairs ran"
	row "empty launch, ${#pairs[@]} pairs" \
		"$(median "${all_plain[@]}") ns" \
		"$(median "${all_ours[@]}") ns" \
		"$percent %" "$(verdict "$problem")"
}

header what plain preloaded "ratio or difference" verdict
small
pairs
stream
usable
launches
