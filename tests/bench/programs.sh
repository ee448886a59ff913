# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# The rows of the benchmark about programs that run: what allocations cost, what
# prepare costs, PyTorch.  lib.sh is sourced.

# alloc_round WHO [-p]: the figures of one process
alloc_round() {
	local who=$1 size times
	shift
	up "$@" alloc 100 "$BIN/blocks"
	for size in 4096 1048576 268435456; do
		times=$((size < 1 << 28 ? 1000 : 200))
		[[ -n $WRONG ]] || { told alloc "pair $size $times" &&
			note "pair $size $who" "$(value us "$ANSWER")"; }
	done
	# 1.1 MiB
	[[ -n $WRONG ]] || { told alloc "many 1153434 $MANY" &&
		note "many $who" "$(value seconds "$ANSWER")"; }
	ended "alloc-$who" alloc
}

# pair_result SIZE NAME BAR
pair_result() {
	local ours plain
	ours=$(middle "pair $1 ours") plain=$(middle "pair $1 plain")
	result "pair-$2" "$ours" us "$(over "$ours" "$plain")" "r <= $3"
}

row_alloc() {
	local round ours
	for ((round = 0; round < ROUNDS; round++)); do
		room alloc 12 || break
		alloc_round plain
		alloc_round ours -p
	done
	pair_result 4096 4KiB 0.7
	pair_result 1048576 1MiB 0.5
	pair_result 268435456 256MiB 1.1
	ours=$(middle "many ours")
	result "$MANY-of-1.1MiB" "$ours" s \
		"$(over "$ours" "$(middle "many plain")")" "r <= 1.1"
}

# at_rest NAME: its prepare is not under way any more
at_rest() {
	ctl status "${PID[$1]}" &&
		[[ $(value prepare "$REPLY_TEXT") != running ]]
}

# prepared NAME: its bytes are backed up while it runs on
prepared() {
	ctl prepare "${PID[$1]}" || wrong "prepare: $(refusal)" || return
	within 60 at_rest "$1" || wrong "prepare does not end"
}

row_prepare() {
	local round size=$MAIN from
	has prepare prepared-first-sleep || return
	for ((round = 0; round < FEW; round++)); do
		room prepare 15 || break
		filled prepare "mix $size" && touch_host "$size" &&
			from=$(now_us) && prepared prepare &&
			note "prepare itself" "$(seconds "$from")" &&
			step "prepare first" sleep prepare && sleep 1 &&
			step "prepare wake" wake prepare && checked prepare
		ended prepare prepare
	done
	result "prepare-$(size_name "$size")" "$(middle "prepare itself")" s -
	result "prepared-first-sleep-$(size_name "$size")" \
		"$(middle "prepare first")" s \
		"$(over "$(middle "$size first ours")" \
			"$(middle "prepare first")")" "v <= 0.15"
}

# paced NAME FROM TO: its steps in that while, in ms; times are those of now_us
paced() {
	told train "mean $2 $3" && note "train $1" "$(value ms "$ANSWER")"
}

# One process: a while before, the while of the copying, a while after.  The
# copying is held against the quicker of the others.
row_train() {
	local round at=() before during after
	has prepare training || return
	for ((round = 0; round < FEW; round++)); do
		room training 40 || break
		up -p train 200 PREPARED_MIB="$TRAIN" \
			"$PYTHON" "$HERE/train.py" || missing train training ||
			return
		told train go && sleep 8 && at[0]=$(now_us) && sleep 4 &&
			at[1]=$(now_us) && touch_host "$TRAIN" &&
			at[2]=$(now_us) && prepared train &&
			at[3]=$(now_us) && sleep 4 && at[4]=$(now_us) &&
			paced before "${at[0]}" "${at[1]}" &&
			before=$(value ms "$ANSWER") &&
			paced during "${at[2]}" "${at[3]}" &&
			during=$(value ms "$ANSWER") &&
			paced after "${at[3]}" "${at[4]}" &&
			after=$(value ms "$ANSWER") &&
			note "train later" "$(calc "$after / $before")" &&
			{ holds "$before < $after" || before=$after; } &&
			note "train slower" "$(calc "$during / $before")"
		ended training train
	done
	result training-step "$(middle "train before")" ms -
	result training-step-in-prepare "$(middle "train during")" ms \
		"$(middle "train slower")" "r <= 1.05"
	result training-step-after "$(middle "train after")" ms \
		"$(middle "train later")" "r <= 1.01"
}

# missing PROGRAM NAME: it left since this machine cannot run it; says so, and
# what went wrong is forgotten.  Never true.
missing() {
	finish "$1"
	unset "PID[$1]"
	if [[ $STATUS -eq 77 ]]; then
		skipped "$2" "$(tail -n 1 "$WORK/$1.err")"
	else
		excerpt "$1"
		failed "$2" "$WRONG"
	fi
	WRONG=''
	return 1
}

# decoded: the model's tokens, the same as before any sleep
decoded() {
	told model decode || return
	TOKENS=${TOKENS:-$ANSWER}
	[[ $ANSWER == "$TOKENS" ]] || wrong "other tokens: $ANSWER"
}

row_model() {
	local n mib='' TOKENS='' order=(first second third)
	room model 70 || return
	up -p model 200 "$PYTHON" "$HERE/model.py" ||
		missing model model || return
	decoded && decoded && touch_host "$(model_mib)"
	for n in "${order[@]}"; do
		[[ -n $WRONG ]] || { step "model $n sleep" sleep model &&
			mib=$(mib "$(number released-bytes "$REPLY_TEXT")") &&
			sleep 1 && step "model $n wake" wake model && decoded; }
	done
	[[ -n $WRONG ]] || for n in "${order[@]}"; do
		result "model-$n-sleep" "$(middle "model $n sleep")" s -
		result "model-$n-wake" "$(middle "model $n wake")" s -
	done
	[[ -n $WRONG ]] || result model-size "$mib" MiB -
	ended model model
}

# model_mib: what it holds
model_mib() {
	ctl status "${PID[model]}"
	mib "$(number resident-bytes "$REPLY_TEXT")"
}
