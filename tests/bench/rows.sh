# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# The rows of the benchmark that sleep and wake: a function row_NAME for each
# name that run.sh knows, and what they have in common.  lib.sh is sourced.

# ---- one size, turn about --------------------------------------------------

# ours_round MIB: a fresh process.  Its first sleep, a wake at once; a sleep
# with nothing changed, a wake a second later; the same with all of it changed;
# a sleep with a twentieth changed, a wake at once.
ours_round() {
	local size=$1 name=ours-$1
	filled "$name" "mix $size" && touch_host "$size" &&
		step "$size first ours" sleep "$name" &&
		step "$size now ours" wake "$name" && checked "$name" &&
		step "$size unchanged ours" sleep "$name" && sleep 1 &&
		step "$size 1s ours" wake "$name" && checked "$name" &&
		told "$name" "change 100" &&
		step "$size later ours" sleep "$name" && sleep 1 &&
		step "$size 1s ours" wake "$name" && checked "$name" &&
		told "$name" "change 5" &&
		step "$size part ours" sleep "$name" &&
		step "$size now ours" wake "$name" && checked "$name"
	ended "ours-$(size_name "$size")" "$name"
}

bare_round() {
	local size=$1
	bare_blocks "$size" "mix $size" "$size" &&
		told bare limit && note d2h "$(value d2h "$ANSWER")" &&
		note h2d "$(value h2d "$ANSWER")" &&
		timed "$size release bare" bare release && sleep 1 &&
		timed "$size zero bare" bare zero
	ended "bare-$(size_name "$size")" bare
}

# bare_blocks WHAT "KIND N" [MIB]: the probe, with its figures of such blocks;
# so much host memory is touched before
bare_blocks() {
	local what=$1 kind
	read -ra kind <<<"$2"
	up bare 200 "$BIN/bare" "${kind[@]}" &&
		{ [[ -z ${3-} ]] || touch_host "$3"; } &&
		timed "$what first bare" bare first &&
		timed "$what now bare" bare wake && checked bare &&
		timed "$what later bare" bare again && sleep 1 &&
		timed "$what 1s bare" bare wake && checked bare
}

# peer_round WHO MIB ROUND: wakes at once and a second later by turns
peer_round() {
	local who=$1 size=$2 when=now
	(($3 % 2 == 0)) || when=1s
	up "$who" 200 "$BIN/peer" "$who" "$size" && touch_host "$size" &&
		timed "$size first $who" "$who" sleep &&
		{ [[ $when == now ]] || sleep 1; } &&
		timed "$size $when $who" "$who" wake &&
		{ [[ $who != vllm ]] || note "$size release vllm" \
			"$(value release "$ANSWER")"; } &&
		checked "$who" && [[ $who == kept ]] &&
		timed "$size later $who" "$who" sleep && sleep 1 &&
		timed "$size 1s $who" "$who" wake && checked "$who"
	ended "$who-$(size_name "$size")" "$who"
}

checkpoint_round() {
	local size=$1
	up held 200 "$BIN/blocks" && told held "mix $size" &&
		told held fill && touch_host "$size" &&
		up checkpoint 200 "$BIN/checkpoint" "${PID[held]}" &&
		timed "$size first checkpoint" checkpoint sleep &&
		timed "$size now checkpoint" checkpoint wake && checked held
	if [[ $WRONG == *"lock 801"* ]]; then
		WRONG=''
		NO_CHECKPOINT=1
	fi
	ended "checkpoint-$(size_name "$size")" checkpoint held
}

# Where it takes them long they are tried once.
peers_of_round() {
	local size=$1 round=$2
	local small=$((size < 16384))
	((round < 1 || small)) || return 0
	peer_round vllm "$size" "$round"
	peer_round tms "$size" "$round"
	((!small)) || peer_round kept "$size" "$round"
	[[ -n ${NO_CHECKPOINT-} ]] || checkpoint_round "$size"
}

row_main() {
	local size round seconds
	for ((round = 0; round < ROUNDS; round++)); do
		for size in "${PEER_SIZES[@]}"; do
			seconds=$((5 + size / 1024 * (round ? 1 : 3)))
			room "main-$(size_name "$size"), round $((round + 1))" \
				"$seconds" || continue
			ours_round "$size"
			bare_round "$size"
			peers_of_round "$size" "$round"
		done
	done
	result limit-d2h "$(middle d2h)" GiB/s -
	result limit-h2d "$(middle h2d)" GiB/s -
	[[ -z ${NO_CHECKPOINT-} ]] ||
		skipped checkpoint "this driver has no checkpoints"
	for size in "${PEER_SIZES[@]}"; do
		report_ours "$size"
		report_peers "$size"
	done
}

# report_one MIB KEY NAME RATIO BAR: ours, with the probe's figure of that key
report_one() {
	local probe=''
	[[ -z $5 ]] || probe=$(middle "$1 $2 bare")
	[[ $2 != unchanged ]] || probe=$(middle "$1 release bare")
	result "$3-$(size_name "$1")" "$(middle "$1 $2 ours")" s "$4" "$5" \
		"$probe"
	result "$3-caller-$(size_name "$1")" \
		"$(middle "$1 $2 ours caller")" s -
}

# report_ours MIB: bars are those of the main size
report_ours() {
	local size=$1 name first d2h h2d part=''
	local bars=('' '' '' '' '' '' '')
	name=$(size_name "$size") first=$(middle "$1 first ours")
	d2h=$(middle d2h) h2d=$(middle h2d)
	if ((size == MAIN)); then
		part=$(calc "0.1 + 0.05 * $size / 1024 / ${d2h:-0}")
		bars=("r >= 9" "v >= 20" "r >= 0.93" "v <= 0.1" "v <= $part"
			"r >= 0.97" "r >= 0.9")
	fi
	report_one "$size" first first-sleep \
		"$(over "$(middle "$size first vllm")" "$first")" "${bars[0]}"
	result "first-sleep-rate-$name" "$(rate "$size" "$first")" GiB/s \
		"$(over "$(rate "$size" "$first")" "$d2h")" "${bars[1]}" \
		"$(rate "$size" "$(middle "$size first bare")")"
	report_one "$size" later later-sleep \
		"$(of_limit "$size" later "$d2h")" "${bars[2]}"
	report_one "$size" unchanged unchanged-sleep - "${bars[3]}"
	report_one "$size" part part-changed-sleep - "${bars[4]}"
	report_one "$size" 1s wake-after-1s \
		"$(of_limit "$size" 1s "$h2d")" "${bars[5]}"
	report_one "$size" now wake-at-once \
		"$(of_limit "$size" now "$h2d")" "${bars[6]}"
}

# of_limit MIB KEY LIMIT: our rate as a share of the limit
of_limit() { over "$(rate "$1" "$(middle "$1 $2 ours")")" "$3"; }

# The ratio of a peer's row is how many times as long as ours it took.
report_peers() {
	local who key name
	for who in bare vllm tms kept checkpoint; do
		for key in first:sleep later:later-sleep now:wake-at-once \
			1s:wake-after-1s release:release zero:zeroed-wake; do
			name=$who-${key#*:}-$(size_name "$1")
			key=${key%%:*}
			result "$name" "$(middle "$1 $key $who")" s \
				"$(over "$(middle "$1 $key $who")" \
					"$(middle "$1 $key ours")")"
		done
	done
}

# ---- other contents and sizes ----------------------------------------------

# Half of the pages are zero: compared with the first sleeps of random pages.
row_zero() {
	local round size=$MAIN first
	for ((round = 0; round < FEW; round++)); do
		room zero 15 || break
		filled zero "mix $size" && told zero half &&
			touch_host "$size" && step "zero first" sleep zero &&
			step "zero wake" wake zero && checked zero
		ended half-zero zero
		up bare 200 "$BIN/bare" mix "$size" && touch_host "$size" &&
			timed "zero first bare" bare half
		ended bare-half-zero bare
	done
	first=$(middle "zero first")
	result "half-zero-first-sleep-$(size_name "$size")" "$first" s \
		"$(over "$(middle "$size first ours")" "$first")" "r >= 1.7" \
		"$(middle "zero first bare")"
	result "half-zero-wake-$(size_name "$size")" \
		"$(middle "zero wake")" s -
}

# like_mixed NAME COMMAND LEAST SECONDS: first, unchanged, changed sleeps and a
# wake of other blocks, at LEAST times the rates of the main size; the probe's
like_mixed() {
	local name=$1 key mib='' mixed
	room "$name" "$4" || return
	filled "$name" "$2" &&
		touch_host "${MIB_OF[$name]}" &&
		step "$name first" sleep "$name" &&
		mib=$(mib "$(number released-bytes "$REPLY_TEXT")") &&
		sleep 1 && step "$name 1s" wake "$name" && checked "$name" &&
		step "$name unchanged" sleep "$name" &&
		step "$name now" wake "$name" && checked "$name" &&
		told "$name" "change 100" &&
		step "$name later" sleep "$name" &&
		step "$name now" wake "$name" && checked "$name"
	[[ -z $WRONG ]] || mib=''
	ended "$name" "$name"
	[[ -n $mib ]] || return
	bare_blocks "$name" "$2" &&
		timed "$name unchanged bare" bare release
	ended "bare-$name" bare
	for key in first later unchanged 1s now; do
		mixed=$(rate "$MAIN" "$(middle "$MAIN $key ours")")
		result "$name-$key" "$(middle "$name $key")" s \
			"$(over "$(rate "$mib" "$(middle "$name $key")")" \
				"$mixed")" "r >= $3" \
			"$(middle "$name $key bare")"
	done
}

declare -A MIB_OF
row_segments() {
	MIB_OF[segments]=$((SEGMENTS * 5))
	like_mixed segments "segments $SEGMENTS" 0.75 60
}

row_large() {
	local key
	MIB_OF[large]=$LARGE
	((LARGE >= 98304)) ||
		skipped large-96GiB "$LARGE MiB is the most that fits here"
	result large-size "$LARGE" MiB -
	like_mixed large "mix $LARGE" 0.9 80
	for key in first:first-sleep later:later-sleep \
		unchanged:unchanged-sleep 1s:wake-after-1s; do
		result "${key#*:}-$(size_name "$LARGE")" \
			"$(middle "large ${key%%:*}")" s -
	done
}

# What the plot needs beside the rows above.
row_curve() {
	local size
	for size in "${SIZES[@]}"; do
		[[ " ${PEER_SIZES[*]} $LARGE " != *" $size "* ]] || continue
		room "curve-$(size_name "$size")" $((5 + size / 1600)) ||
			continue
		ours_round "$size"
		report_ours "$size"
	done
}

row_discard() {
	local round size=$MAIN name
	name=$(size_name "$MAIN")
	for ((round = 0; round < FEW; round++)); do
		room discard 15 || break
		filled discard "mix $size" VSLEEP_TAG=kv \
			VSLEEP_TAGS=kv=discard &&
			step "discard sleep" sleep discard && sleep 1 &&
			step "discard wake" wake discard &&
			told discard zeros && checked discard
		ended discard discard
	done
	result "discard-sleep-$name" "$(middle "discard sleep")" s - \
		"v <= 0.04" "$(middle "$size release bare")"
	result "discard-wake-$name" "$(middle "discard wake")" s - \
		"v <= 0.06" "$(middle "$size zero bare")"
}

# Host memory of the process, backups included, over many cycles.
row_cycles() {
	local n second last size=${PEER_SIZES[0]}
	room cycles 40 || return
	filled cycles "mix $size"
	for ((n = 1; n <= CYCLES; n++)); do
		[[ -z $WRONG ]] || break
		told cycles "change 5" && step cycles sleep cycles &&
			step cycles wake cycles
		((n != 2)) || second=$(resident cycles)
	done
	[[ -n $WRONG ]] || { checked cycles && last=$(resident cycles); }
	[[ -n $WRONG ]] || result "host-growth-$CYCLES-cycles" \
		"$(((last - second) / 1024))" MiB - "v <= 64"
	ended cycles cycles
}
