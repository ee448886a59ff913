#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# First sleep and wake beside the flow of vLLM's sleep mode, turn about, in one
# run; every block is checked on the device after each wake.
#
# Figures are the operation's own, as the reply states them (the flow times
# itself inside its process too); what the caller of vsleepctl waits is stated
# beside.  "straight" wakes right after the memory went back, while the device
# still cleans it; "rested" half a second later.  The bar is for the latter: the
# flow gives its memory back block by block over all of its long sleep, so next
# to nothing is left to be cleaned when it wakes, straight or not.

# shellcheck source=lib.sh
. "$HERE/lib.sh"

rounds=${ROUNDS:-2}
declare -A FIGURE		# "what who" -> the numbers of all rounds

note() { FIGURE["$1"]+="${2:-x} "; }

# flow_round MIB
flow_round() {
	local said key
	start "flow-$1" 200 "$BIN/flow" "$1"
	finish "flow-$1"
	said=$(cat "$WORK/flow-$1.out")
	echo "flow $1 MiB: $(tr '\n' ' ' <<<"$said")"
	[[ $STATUS -eq 0 ]] || { excerpt "flow-$1" && return; }
	for key in sleep wake rested release; do
		note "$1 $key flow" "$(value "$key" "$said")"
	done
}

# step MIB KEY ARGUMENT...: one vsleepctl call, its figures noted
step() {
	local size=$1 key=$2
	shift 2
	if ! ctl "$@"; then
		WRONG="$key: $(refusal)"
		return 1
	fi
	note "$size $key ours" "$(value seconds "$REPLY_TEXT")"
	note "$size $key wall" "$(calc "$TOOK_US / 1000000")"
}

checked() {
	ask "$1" 60 check && [[ $(value bad "$ANSWER") == 0 ]] && return
	WRONG="wrong words after the wake: $ANSWER"
	return 1
}

# ours_round MIB: a fresh process; its first sleep, a wake straight after, a
# second sleep, a rested wake
ours_round() {
	local name=ours-$1
	if hold_up -p "$name" && ask "$name" 60 "mix $1" &&
		ask "$name" 60 "fill 5"; then
		step "$1" sleep sleep "${PID[$name]}" &&
			step "$1" wake wake "${PID[$name]}" &&
			checked "$name" &&
			step "$1" again sleep "${PID[$name]}" && sleep 0.5 &&
			step "$1" rested wake "${PID[$name]}" &&
			checked "$name"
	else
		WRONG="not set up: ${ANSWER-}"
	fi
	[[ -z $WRONG ]] || excerpt "$name"
	hold_down "$name"
}

# middle WHAT: the median of its rounds, empty when one is missing
middle() {
	local numbers
	read -ra numbers <<<"${FIGURE[$1]-}"
	[[ ${#numbers[@]} -eq $rounds && ${numbers[*]} != *x* ]] &&
		median "${numbers[@]}"
}

# compare MIB KEY FACTOR NAME: FACTOR - means no bar
compare() {
	local flow ours wall ratio verdict=stated
	flow=$(middle "$1 $2 flow") ours=$(middle "$1 $2 ours")
	wall=$(middle "$1 $2 wall")
	ratio=$(calc "$flow / $ours")
	if [[ -z $flow || -z $ours ]]; then
		verdict="FAILED: no figures${WRONG:+: $WRONG}"
	elif [[ $3 != - ]]; then
		verdict=ok
		holds "$ratio >= $3" || verdict="FAILED: under $3 times"
	fi
	echo "bench $4 $ours s $ratio"
	row "$4" "$flow s" "$ours s" "$wall s" \
		"$(calc "$1 / 1024 / $ours") GiB/s" "$ratio" "$verdict"
}

header what flow ours "caller waits" rate ratio verdict
trap sweep EXIT
warm "${WARM_GIB:-80}"
WRONG=''
read -ra sizes <<<"${SPEED_MIB:-8192 32768}"
for size in "${sizes[@]}"; do
	for ((n = 0; n < rounds; n++)); do
		ours_round "$size"
		flow_round "$size"
	done
done
for size in "${sizes[@]}"; do
	gib=$((size / 1024))GiB
	sleep_bar=- wake_bar=-
	((size < 32768)) || sleep_bar=3 wake_bar=1
	compare "$size" sleep "$sleep_bar" "first-sleep-$gib"
	compare "$size" wake - "wake-straight-$gib"
	compare "$size" rested "$wake_bar" "wake-rested-$gib"
	row "second-sleep-$gib" - "$(middle "$size again ours") s" \
		"$(middle "$size again wall") s" - - stated
	row "free-host-$gib" "$(middle "$size release flow") s" - - - - stated
done
