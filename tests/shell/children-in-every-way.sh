#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# However a child comes to be, while other threads allocate and the process is
# awake, goes to sleep or sleeps: it ends as without the preload, answers for
# nobody, changes nothing of its parent, and that sleeps and wakes on.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

ulimit -c 0

# begun NAME: a sleep of it copies, or is done already
begun() { [[ $(now "$1" state) == @(sleeping|asleep) ]]; }

# children NAME: all ways; ANSWERS
children() {
	local way
	ANSWERS=''
	for way in fork exit raw raw-signal vfork spawn system popen \
		"many 100" "thread 20"; do
		ask "$1" "$way"
		ANSWERS+="$way: $ANSWER;"
	done
}

talk_plain plain "$BUILDDIR/kids"
ready plain
tell plain raw-signal
answer plain
matches "a child of a plain program" "ok exit=-1 signal=10" "$ANSWER"
children plain
plain=$ANSWERS
matches "what children do" "*many 100: ok good=100;thread 20: ok good=20;" \
	"$plain"
matches "what children do" "*vfork: ok exit=-1 signal=12;*" "$plain"
ask plain stop
tell plain leave
end plain

# copying takes a second, so that children come in the middle of it
talk k VSLEEP_SIM_COPY_MIBPS=12 VSLEEP_LOG="$WORK/k.log" "$BUILDDIR/kids"
ready k
before=0
for round in awake between asleep awake; do
	case $round in
	asleep) within "the sleep" is k state asleep ;;
	between)
		"$VSLEEPCTL" sleep "${PID[k]}" >/dev/null 2>&1 &
		within "the sleep to begin" begun k
		;;
	awake) before=$(now k sequence) ;;
	esac
	children k
	equal "children while $round" "$plain" "$ANSWERS"
	status k
	expect pid "${PID[k]}"
	equal "sockets" "$(sock "${PID[k]}")" "$(ls "$VSLEEP_DIR")"
	[[ $round != awake ]] || expect state awake sequence "$before"
	[[ $round != asleep ]] || wakes k
done
ask k check "ok bad=0"
sleeps k
wakes k
ask k check "ok bad=0"
ask k stop
at_least "allocations" 10 "$(word churned "$ANSWER")"
tell k leave
end k
lawful k
equal "sockets at the end" '' "$(ls "$VSLEEP_DIR")"
