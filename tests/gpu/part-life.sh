#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What goes on beside a program that is held: its children, its signals, and the
# time limits of libraries that wait for it.

# shellcheck source=cycles.sh
. "$HERE/cycles.sh"

TREE='' LAST=''
launcher=(python3 -m torch.distributed.run --standalone --local-addr 127.0.0.1
	--nproc-per-node 2 "$HERE/programs/ranks.py")
limit=8 held=14		# seconds: of the group, and how long it is held

# brought_down NAME: it does not run on; for programs that cannot be used
brought_down() {
	[[ -z $PROBLEM ]] || { excerpt "$1" && end "$1"; }
}

# children_after NAME COUNT: have more been started
children_after() {
	local n=0
	{ read -r n <"$WORK/$1.tick"; } 2>/dev/null
	((10#${n:-0} > $2))
}

# Threads that do not call CUDA start children while the program is held.
children() {
	local name=children count=0
	PROBLEM=''
	aside "$name-plain" "$BIN/forks"
	start -p "$name" 120 TICK="$WORK/$name.tick" "$BIN/forks"
	within 60 moved "$name" || PROBLEM="no progress"
	ctl sleep "${PID[$name]}" || PROBLEM="sleep, $(refusal)"
	read -r count <"$WORK/$name.tick"
	within 20 children_after "$name" $((10#$count + 20)) ||
		PROBLEM="no children while asleep"
	ctl wake "${PID[$name]}" || PROBLEM="wake, $(refusal)"
	brought_down "$name"
	finish "$name"
	wait
	PROBLEM=${PROBLEM:-$(differs "$name" 0)}
	row "forks and exec" asleep "children run and end" \
		"$(verdict "$PROBLEM")"
}

# handled NAME SIGNAL: has that handler run
handled() { grep -q "^$2" "$WORK/$1.progress.signals" 2>/dev/null; }

# Python runs handlers between instructions: after the call that is held.
handlers() {
	local name=handlers found=''
	PROBLEM=''
	start -p "$name" 120 python3 "$HERE/programs/signals.py"
	within 90 moved "$name" || PROBLEM="no progress"
	kill -HUP "${PID[$name]}"
	within 20 handled "$name" SIGHUP ||
		PROBLEM="no handler ran while awake"
	ctl sleep "${PID[$name]}" || PROBLEM="sleep, $(refusal)"
	kill -TERM "${PID[$name]}"
	within 3 handled "$name" SIGTERM && found="while asleep"
	gone "$name" && PROBLEM="it ended by the signal"
	ctl wake "${PID[$name]}" || PROBLEM="wake, $(refusal)"
	if [[ -z $found ]]; then
		found="after the wake"
		within 10 handled "$name" SIGTERM ||
			PROBLEM=${PROBLEM:-"the handler never ran"}
	fi
	brought_down "$name"
	finish "$name"
	[[ $STATUS -eq 0 ]] || PROBLEM=${PROBLEM:-"exit status $STATUS"}
	row "Python's SIGTERM" asleep "its handler ran $found" \
		"$(verdict "$PROBLEM")"
}

# outcome NAME: what became of a group that was held past its time limit
outcome() {
	local said
	said=$(grep -m 1 -ioE '.{0,50}(timed out|timeout|watchdog).{0,50}' \
		"$WORK/$1.err")
	[[ $STATUS -ne 0 ]] || { echo "went on, exit status 0" && return; }
	echo "exit status $STATUS: ${said:-no word of a time limit}"
}

# watchdog BACKEND both|one: hold that much of the group past its time limit
watchdog() {
	local name=$1-$2 pid
	PROBLEM='' LAST=''
	start -p "$name" 150 BACKEND="$1" WATCH="$limit" STEPS=150 \
		"${launcher[@]}"
	within 90 moved "$name" || PROBLEM="no progress"
	gone "$name" && PROBLEM="it ended before it was held"
	pid=${PID[$name]} TREE=--tree
	if [[ $2 == one ]]; then
		TREE='' PID[$name]=$(cat "$WORK/$name.progress.rank1")
	fi
	[[ -n $PROBLEM ]] || of_all sleep "$name" ||
		PROBLEM="sleep, $(refusal)"
	sleep "$held"
	of_all wake "$name"
	PID[$name]=$pid
	brought_down "$name"
	finish "$name"
	if [[ -n $PROBLEM ]]; then
		row "$1, limit $limit s" "$2 held $held s" - "FAILED: $PROBLEM"
	else
		row "$1, limit $limit s" "$2 held $held s" \
			"$(outcome "$name")" stated
	fi
}

header what when found verdict
children &
if python3 -c 'import torch' 2>/dev/null; then
	handlers &
	watchdog gloo both &
	watchdog gloo one &
	if (($(nvidia-smi -L 2>/dev/null | wc -l) > 1)); then
		watchdog nccl both &
		watchdog nccl one &
	else
		row "nccl, limit $limit s" - - "skipped: no second device"
	fi
else
	row "Python's SIGTERM" - - "skipped: no torch"
	row "gloo and nccl" - - "skipped: no torch"
fi
wait
sort -o "$ROWS" "$ROWS"
