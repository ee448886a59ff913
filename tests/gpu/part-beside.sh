#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Beside others in one process: a memory checker, a profiler, another preload
# before and after, another allocator, plugins that find the driver by a scope
# or in a namespace of their own.

# shellcheck source=lib.sh
. "$HERE/lib.sh"

export VSLEEP_LIBRARY=$LIB

# note WHAT PLAIN OURS: a row, with PROBLEM
note() { row "$1" "$2" "$3" "$(verdict "$PROBLEM")"; PROBLEM=''; }

# want TEXT TEST...: PROBLEM is TEXT unless the test succeeds
want() {
	local text=$1
	shift
	"$@" || PROBLEM=${PROBLEM:-$text}
}

# cycle NAME [--tree]: once to sleep and awake, with bytes
cycle() {
	ctl sleep ${2:+"$2"} "${PID[$1]}"
	want "sleep, $(refusal)" test "$CTL_STATUS" -eq 0
	want "nothing was released" grep -q '^released-bytes=[1-9]' \
		<<<"$REPLY_TEXT"
	ctl wake ${2:+"$2"} "${PID[$1]}"
	want "wake, $(refusal)" test "$CTL_STATUS" -eq 0
}

# same A B: what the two have said
same() { cmp -s "$WORK/$1.out" "$WORK/$2.out"; }

stepping() { grep -q '^step' "$WORK/$1.progress" 2>/dev/null || gone "$1"; }

# ---- a memory checker ------------------------------------------------------

checker=$(command -v compute-sanitizer ||
	ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)

# errors NAME: how many it found
errors() {
	sed -n 's/.*ERROR SUMMARY: \([0-9]*\) error.*/\1/p' "$WORK/$1.out" |
		tail -n 1
}

# checked [-p] NAME PROGRAM...: under the checker, in the background
checked() {
	local flags=(-i)
	[[ $1 != -p ]] || { flags+=(-p) && shift; }
	start "${flags[@]}" "$1" 200 "$checker" --tool memcheck "${@:2}"
}

# outside MODE: what it finds, with the preload and without
outside() {
	local plain ours
	checked "plain-$1" "$BIN/outside" "$1" && finish "plain-$1"
	checked -p "ours-$1" "$BIN/outside" "$1" && finish "ours-$1"
	plain=$(errors "plain-$1") ours=$(errors "ours-$1")
	want "no answer of the checker" test -n "$plain"
	if [[ $1 == right ]]; then
		want "plain: errors in a right program" test "$plain" = 0
	else
		want "plain: nothing found" test "${plain:-0}" -gt 0
	fi
	# memory that small blocks share is one mapping for the checker
	if [[ -z $PROBLEM && $1 == near && $ours == 0 ]]; then
		row "memcheck, $1" "$plain errors" "$ours errors" stated
		return
	fi
	want "preloaded: ${ours:-?} errors" test \
		"$((${ours:-9} > 0))" = "$((${plain:-9} > 0))"
	[[ -z $PROBLEM ]] || excerpt "ours-$1"
	note "memcheck, $1" "${plain:-?} errors" "${ours:-?} errors"
}

# A program that sleeps and wakes under the checker.
checked_cycle() {
	local name=checked
	WAYS_MIB=32 checked -p $name "$BIN/ways" plain
	within 120 marked $name filled || PROBLEM="it was never ready"
	[[ -n $PROBLEM ]] || cycle $name --tree
	tell $name go
	within 60 marked $name "step 1 " || PROBLEM=${PROBLEM:-"no step"}
	tell $name quit
	within 60 gone $name || end $name
	finish $name
	want "errors: $(errors $name)" test "$(errors $name)" = 0
	want "bytes differ" grep -qx equal "$WORK/$name.out"
	[[ -z $PROBLEM ]] || excerpt $name
	note "memcheck, a cycle" - "$(errors $name) errors"
}

memory_checker() {
	local mode
	if [[ -z $checker ]]; then
		row memcheck - - "skipped: no compute-sanitizer"
		return
	fi
	for mode in right far freed near; do
		outside "$mode"
	done
	checked_cycle
}

# ---- a profiler ------------------------------------------------------------

# profiled [-p] NAME: kernels and counts in NAME.kernels
profiled() {
	local flags=()
	[[ $1 != -p ]] || { flags=(-p) && shift; }
	start "${flags[@]}" "$1" 150 CUDA_INJECTION64_PATH="$BIN/profile.so" \
		PROFILE="$WORK/$1.kernels" STEPS=80 "$BIN/loop-static"
}

profiler() {
	local count name
	if [[ ! -e $BIN/profile.so ]]; then
		row profile - - "skipped: no CUPTI"
		return
	fi
	profiled profile-plain && finish profile-plain
	profiled -p profile-ours && finish profile-ours
	profiled -p profile-cycled
	within 60 stepping profile-cycled
	gone profile-cycled || cycle profile-cycled
	finish profile-cycled
	count=$(awk '{ n += $1 } END { print n + 0 }' \
		"$WORK/profile-plain.kernels")
	want "plain: no kernels" test "${count:-0}" -gt 0
	for name in profile-ours profile-cycled; do
		want "$name: other output" same profile-plain $name
		want "$name: other kernels or counts" cmp -s \
			"$WORK/profile-plain.kernels" "$WORK/$name.kernels"
	done
	[[ -z $PROBLEM ]] || diff "$WORK/profile-plain.kernels" \
		"$WORK/profile-cycled.kernels" | head -n 6
	note "a CUPTI profile" "$count kernels" "$(awk \
		'{ n += $1 } END { print n + 0 }' \
		"$WORK/profile-cycled.kernels") kernels"
}

# ---- other preloads --------------------------------------------------------

# preloads WHAT LIST: programs with these preloads
preloads() {
	local program name
	for program in loop-static loop-shared driver-getproc; do
		name=$1-$program
		[[ -e $WORK/$program-plain.out ]] || {
			start "$program-plain" 150 STEPS=60 "$BIN/$program"
			finish "$program-plain"
		}
		start "$name" 150 LD_PRELOAD="$2" STEPS=60 \
			VSLEEP_LOG="$WORK/$name.vsleep" "$BIN/$program"
		within 60 stepping "$name"
		gone "$name" && PROBLEM=${PROBLEM:-"$program: it ended"}
		[[ -n $PROBLEM ]] || cycle "$name"
		finish "$name"
		want "$program: other output" same "$program-plain" "$name"
		[[ -z $PROBLEM ]] || excerpt "$name"
	done
	note "$1" "3 programs" "the same, a cycle each"
}

other_preloads() {
	local jemalloc
	preloads "dlsym wrapped before" "$BIN/stacked.so:$LIB"
	preloads "dlsym wrapped after" "$LIB:$BIN/stacked.so"
	jemalloc=${JEMALLOC:-$(ldconfig -p | sed -n \
		's/.*libjemalloc\.so\.2.* => //p' | head -n 1)}
	if [[ ! -e $jemalloc ]]; then
		row jemalloc - - "skipped: no libjemalloc.so.2 (JEMALLOC)"
		return
	fi
	preloads "jemalloc before" "$jemalloc:$LIB"
	preloads "jemalloc after" "$LIB:$jemalloc"
}

# ---- other scopes ----------------------------------------------------------

ready() { grep -q '^ok ready' "$WORK/$1.out" || gone "$1"; }

# crossing [-p] NAME PLUGIN HOW
crossing() {
	local flags=(-i)
	[[ $1 != -p ]] || { flags+=(-p) && shift; }
	start "${flags[@]}" "$1" 60 "$BIN/crossing" "$BIN/$2.so" "$3"
	within 30 ready "$1"
}

# scope PLUGIN HOW: frees of what the other side has allocated
scope() {
	local plain=plain-$1-$2 ours=ours-$1-$2 live=0 found="all managed"
	crossing "$plain" "$1" "$2"
	gone "$plain" || tell "$plain" go
	finish "$plain"
	if [[ $STATUS -ne 0 ]]; then
		row "$1, $2" "exit status $STATUS" - "skipped: so without us"
		return
	fi
	crossing -p "$ours" "$1" "$2"
	ctl status "${PID[$ours]}"
	live=$(number live-bytes "$REPLY_TEXT")
	cycle "$ours"
	if [[ $2 == apart ]]; then
		ctl doctor "${PID[$ours]}"
		found="the doctor names it"
		want "the doctor does not name it" grep -q two-drivers \
			<<<"$REPLY_TEXT"
	else
		want "$(mib "$live") of 8 MiB are managed" at_least "$live" \
			$((8 << 20))
	fi
	gone "$ours" || tell "$ours" go
	finish "$ours"
	want "exit status $STATUS" test "$STATUS" -eq 0
	want "other answers" same "$plain" "$ours"
	[[ -z $PROBLEM ]] || diff "$WORK/$plain.out" "$WORK/$ours.out"
	[[ -z $PROBLEM ]] || excerpt "$ours"
	note "$1, $2" "$(grep -c . "$WORK/$plain.out") answers" "$found"
}

scopes() {
	local plugin
	for plugin in plugin-linked plugin-lazy plugin-dlsym plugin-runtime; do
		scope $plugin now
	done
	scope plugin-lazy lazy
	scope plugin-linked apart
}

# What each of the four starts it ends itself.
aside() {
	[[ -z ${ONLY-} || " $ONLY " == *" $1 "* ]] || return 0
	(trap sweep EXIT && "$1") &
}

PROBLEM=''
header what plain preloaded verdict
aside scopes
aside other_preloads
aside profiler
aside memory_checker
wait
