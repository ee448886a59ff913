#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Each program plain twice, preloaded, and preloaded with cycles from outside.
#
# Where the two plain runs agree the others must agree with them: output and
# exit status.  A cycle counts only if bytes were released, the program had
# progressed since the last one, and a call of it waited.

# shellcheck source=lib.sh
. "$HERE/lib.sh"

wanted=6 least=5
programs=(
	"loop-static $BIN/loop-static"
	"train.py python3 $HERE/programs/train.py"
	"driver-link $BIN/driver-link"
	"graphs.py python3 $HERE/programs/graphs.py"
	"loop-shared $BIN/loop-shared"
	"driver-dlopen $BIN/driver-dlopen"
	"loop-ptds $BIN/loop-ptds"
	"driver-getproc $BIN/driver-getproc"
	"cublas $BIN/cublas"
)

(($(nvidia-smi -L 2>/dev/null | wc -l) < 2)) ||
	programs+=("peers $BIN/peers")

# run_through [-p] NAME COMMAND...: to its end; STATUS, TOOK
run_through() {
	local flags=() name from
	[[ $1 != -p ]] || { flags=(-p) && shift; }
	name=$1 from=$(now_us)
	shift
	start "${flags[@]}" "$name" 90 "$@" && finish "$name"
	TOOK=$(seconds "$from")
}

# differs NAME EXPECTED: does NAME, just run, differ from the first plain run
differs() {
	[[ $STATUS -eq $2 ]] ||
		{ echo "exit status $STATUS, plain $2" && return; }
	cmp -s "$WORK/$name-plain.out" "$WORK/$1.out" || echo "output differs"
}

progress() { cat "$WORK/$1.progress" 2>/dev/null; }

moved() {
	local now
	now=$(progress "$1")
	gone "$1" || [[ -n $now && $now != "$LAST" ]]
}

# waited NAME HELD: have more calls waited than these
waited() { answers "$1" && (($(number held-calls "$REPLY_TEXT") > $2)); }

# cycle NAME: 0 when it counts, 1 when not, 2 when something broke; WHY
cycle() {
	local name=$1 held at counts=0
	within 40 moved "$name" || { WHY="no progress" && return 2; }
	nap 50 600
	gone "$name" && { WHY="it ended" && return 1; }
	answers "$name" || { WHY="$(refusal)" && return 2; }
	held=$(number held-calls "$REPLY_TEXT")
	ctl sleep "${PID[$name]}" ||
		{ WHY="sleep, $(refusal)" && return 2; }
	RELEASED=$(number released-bytes "$REPLY_TEXT")
	((RELEASED > 0)) || { WHY="nothing was released" && counts=1; }
	within 10 waited "$name" "$held" ||
		{ WHY="no call waited" && counts=1; }
	# a call may have waited before the last shutting: let it come to rest
	sleep 0.1
	at=$(progress "$name")
	nap 60 200
	[[ $(progress "$name") == "$at" ]] ||
		{ WHY="it ran on while asleep" && counts=2; }
	ctl wake "${PID[$name]}" ||
		{ WHY="wake, $(refusal)" && return 2; }
	LAST=$at
	return $counts
}

# cycled NAME COMMAND...: a run with cycles; CYCLES, PROBLEM
cycled() {
	local name=$1 tries=0 rc=0
	LAST='' CYCLES=0 PROBLEM='' WHY=''
	shift
	start -p "$name" 150 "$@" || { PROBLEM="did not start" && return; }
	while ((CYCLES < wanted && tries < wanted + 4 && rc < 2)); do
		cycle "$name"
		rc=$?
		((rc)) || CYCLES=$((CYCLES + 1))
		tries=$((tries + 1))
	done
	((rc < 2)) || PROBLEM=$WHY
	[[ -z $PROBLEM ]] || ctl wake "${PID[$name]}"
	((CYCLES >= least)) || PROBLEM=${PROBLEM:-"only $CYCLES cycles: $WHY"}
	finish "$name"
}

one() {
	local name=$1 expected plain preloaded='-' problem=''
	CYCLES='-' RELEASED=0
	RANDOM=$2
	shift 2
	run_through "$name-plain" "$@"
	expected=$STATUS plain=$TOOK
	if [[ $expected -ne 0 ]]; then
		problem="plain run: exit status $expected"
		excerpt "$name-plain"
	else
		run_through "$name-again" "$@"
		plain+=" $TOOK s"
		problem=$(differs "$name-again" "$expected")
		problem=${problem:+"not deterministic: $problem"}
	fi
	if [[ -z $problem ]]; then
		run_through -p "$name-preloaded" "$@"
		preloaded="$TOOK s"
		problem=$(differs "$name-preloaded" "$expected")
		problem=${problem:+"preloaded: $problem"}
		[[ -z $problem ]] || excerpt "$name-preloaded"
		cycled "$name-cycled" "$@"
		problem+=${PROBLEM:+"${problem:+; }cycled: $PROBLEM"}
		PROBLEM=$(differs "$name-cycled" "$expected")
		problem+=${PROBLEM:+"${problem:+; }cycled: $PROBLEM"}
		[[ $problem != *cycled* ]] || excerpt "$name-cycled"
		CYCLES+=" of $(mib "$RELEASED") MiB"
	fi
	row "$name" "$plain" "$preloaded" "$CYCLES" "$(verdict "$problem")"
}

header program "plain (two runs)" preloaded cycles verdict
seed=$RANDOM
for program in "${programs[@]}"; do
	while (($(jobs -rp | wc -l) >= ${JOBS:-4})); do
		wait -n
	done
	seed=$((seed + 1))
	read -ra command <<<"$program"
	one "${command[0]}" "$seed" "${command[@]:1}" &
done
wait
