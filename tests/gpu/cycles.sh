# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Each program plain twice, preloaded, and preloaded with cycles from outside.
#
# Where the two plain runs agree the others must agree with them: output and
# exit status.  A cycle counts only if bytes were released, the program had
# progressed since the last one, and a call of it waited.
#
# An entry of the list is NAME [--tree] COMMAND...: with --tree a cycle is of
# the process and all its descendants.  VAR=VALUE words may come before the
# program.  A plain run that ends with status 77 cannot run on this machine; its
# last line on stderr says why.  ONLY="NAME..." leaves all other programs out,
# JOBS is how many run at once.

# shellcheck source=lib.sh
. "$HERE/lib.sh"

wanted=6 least=5

# aside [-p] NAME COMMAND...: to its end, in the background; its status and
# seconds are in NAME.result
aside() { aside_run "$@" & }
aside_run() {
	local flags=() name from
	[[ $1 != -p ]] || { flags=(-p) && shift; }
	name=$1 from=$(now_us) STATUS=125
	shift
	start "${flags[@]}" "$name" "${RUN_LIMIT:-120}" "$@" && finish "$name"
	echo "$STATUS $(seconds "$from")" >"$WORK/$name.result"
}

# result NAME: STATUS, TOOK of a run aside
result() { read -r STATUS TOOK <"$WORK/$1.result"; }

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

# total KEY TEXT: the sum over the answers of all processes
total() {
	tr ' ' '\n' <<<"$2" | awk -F= -v key="$1" '
		$1 == key { sum += $2 }
		END { printf "%d", sum }'
}

# of_all VERB NAME: the verb for the process, or for its tree
of_all() { ctl "$1" ${TREE:+"$TREE"} "${PID[$2]}"; }

# waited NAME HELD: have more calls waited than these
waited() {
	of_all status "$1" && (($(total held-calls "$REPLY_TEXT") > $2))
}

# cycle NAME: 0 when it counts, 1 when not, 2 when something broke; WHY
cycle() {
	local name=$1 held at counts=0
	within 90 moved "$name" || { WHY="no progress" && return 2; }
	nap 50 600
	gone "$name" && { WHY="it ended" && return 1; }
	of_all status "$name" || { WHY="$(refusal)" && return 2; }
	held=$(total held-calls "$REPLY_TEXT")
	# 5: more stays that is not managed than was released, as JAX's own
	of_all sleep "$name" || ((CTL_STATUS == 5)) ||
		{ WHY="sleep, $(refusal)" && return 2; }
	RELEASED=$(total released-bytes "$REPLY_TEXT")
	((RELEASED > 0)) || { WHY="nothing was released" && counts=1; }
	within 10 waited "$name" "$held" ||
		{ WHY="no call waited" && counts=1; }
	# a call may have waited before the last shutting: let it come to rest
	sleep 0.1
	at=$(progress "$name")
	nap 60 200
	[[ $(progress "$name") == "$at" ]] ||
		{ WHY="it ran on while asleep" && counts=2; }
	of_all wake "$name" || { WHY="wake, $(refusal)" && return 2; }
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
	[[ -z $PROBLEM ]] || of_all wake "$name"
	((CYCLES >= least)) || PROBLEM=${PROBLEM:-"only $CYCLES cycles: $WHY"}
	finish "$name"
}

# plain_runs NAME COMMAND...: two of them; PLAIN, EXPECTED, PROBLEM
plain_runs() {
	local name=$1
	shift
	PROBLEM=''
	aside "$name-plain" "$@"
	aside "$name-again" "$@"
	wait
	result "$name-plain"
	EXPECTED=$STATUS PLAIN="$TOOK "
	result "$name-again"
	PLAIN+="$TOOK s"
	if [[ $EXPECTED -eq 77 ]]; then
		return
	elif [[ $EXPECTED -ne 0 ]]; then
		PROBLEM="plain run: exit status $EXPECTED"
		excerpt "$name-plain"
	else
		PROBLEM=$(differs "$name-again" "$EXPECTED")
		PROBLEM=${PROBLEM:+"not deterministic: $PROBLEM"}
	fi
}

# preloaded_runs NAME COMMAND...: both of them; PRELOADED, CYCLES, PROBLEM
preloaded_runs() {
	local name=$1 problem
	shift
	aside -p "$name-preloaded" "$@"
	cycled "$name-cycled" "$@"
	problem=${PROBLEM:+"cycled: $PROBLEM"}
	PROBLEM=$(differs "$name-cycled" "$EXPECTED")
	problem+=${PROBLEM:+"${problem:+; }cycled: $PROBLEM"}
	[[ -z $problem ]] || excerpt "$name-cycled"
	wait
	result "$name-preloaded"
	PRELOADED="$TOOK s"
	PROBLEM=$(differs "$name-preloaded" "$EXPECTED")
	[[ -z $PROBLEM ]] || excerpt "$name-preloaded"
	problem+=${PROBLEM:+"${problem:+; }preloaded: $PROBLEM"}
	CYCLES+=" of $(mib "$RELEASED") MiB" PROBLEM=$problem
}

# one SEED NAME [--tree] COMMAND...: one row
one() {
	local name=$2 said
	TREE='' CYCLES='-' RELEASED=0 PRELOADED='-'
	RANDOM=$1
	shift 2
	[[ $1 != --tree ]] || { TREE=$1 && shift; }
	plain_runs "$name" "$@"
	if [[ $EXPECTED -eq 77 ]]; then
		said=$(tail -n 1 "$WORK/$name-plain.err")
		row "$name" "$PLAIN" - - "skipped: $said"
		return
	fi
	[[ -n $PROBLEM ]] || preloaded_runs "$name" "$@"
	row "$name" "$PLAIN" "$PRELOADED" "$CYCLES" "$(verdict "$PROBLEM")"
}

# run_programs ENTRY...: all rows
run_programs() {
	local seed=$RANDOM entry words
	header program "plain (two runs)" preloaded cycles verdict
	for entry; do
		seed=$((seed + 1))
		read -ra words <<<"$entry"
		[[ -z ${ONLY-} || " $ONLY " == *" ${words[0]} "* ]] || continue
		while (($(jobs -rp | wc -l) >= ${JOBS:-5})); do
			wait -n
		done
		one "$seed" "${words[@]}" &
	done
	wait
}
