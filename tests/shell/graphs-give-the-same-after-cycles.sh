#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Graphs with memory nodes, copies, memsets, kernels and a child graph give the
# same results after sleeps as without vsleep, updated in between or not.  What
# no graph uses goes back at a sleep; what one uses is counted and named.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"
export VSLEEP_SIM_SHARE=$WORK/share

node=$((6 * M))		# 5 MiB of a node, in pages of 2 MiB

# play NAME STEP...: what it answers, in SAID; "sleep" and "wake" are for the
# preloaded run
play() {
	local name=$1 step
	SAID=
	for step in "${@:2}"; do
		case $step in
		sleep | wake) [[ $name == plain ]] || "${step}s" "$name" ;;
		*)
			ask "$name" "$step"
			SAID+="$step: $ANSWER"$'\n'
			matches "$name: $step" "!(*bad=[1-9]*)" "$ANSWER"
			;;
		esac
	done
}

steps=(run sleep wake run run update run sleep wake run update sleep wake run
	hold held sleep wake held run sleep wake held let run sleep wake run)
talk_plain plain "$BUILDDIR/graphs"
ready plain
play plain "${steps[@]}"
plain=$SAID
tell plain leave
end plain

talk p "$BUILDDIR/graphs"
ready p
play p "${steps[@]}"
equal "what the graphs gave" "$plain" "$SAID"

# nothing of a graph that uses nothing stays
before=$(device p)
sleeps p
expect status ok unmanaged-bytes 0 unmanaged-graph-bytes ''
equal "on the device" 0 "$(device p)"
at_least "released" $((before - node)) "$(value released-bytes)"
wakes p

# what one uses stays, is counted, and goes with the next sleep after its free
ask p hold
sleeps p
expect status ok unmanaged-bytes $node unmanaged-graph-bytes $node
equal "on the device" $node "$(device p)"
status p
expect unmanaged-graph-bytes $node
ctl 0 doctor "${PID[p]}"
matches "what doctor says" "*graph-owned memory in use*" "$OUT"
wakes p
ask p held "ok bad=0"
ask p let
sleeps p
expect unmanaged-bytes 0 unmanaged-graph-bytes ''
equal "on the device" 0 "$(device p)"

# destroyed while asleep
ask p drop
wakes p
status p
expect allocations 0 live-bytes 0 unmanaged-bytes 0
tell p leave
end p
clean p
