#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A forked child gets from the driver what it gets without the preload, has the
# default signals, and neither answers for its parent nor keeps its socket.  A
# program that a child starts is a process of its own.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

export LEAF=$WORK/leaf

# alone NAME: it answers, and there is no other socket
alone() {
	status "$1"
	expect pid "${PID[$1]}"
	equal "sockets" "$(sock "${PID[$1]}")" "$(ls "$VSLEEP_DIR")"
}
# sockets PID: how many it has open; a child has none once it runs on its own
sockets() { find "/proc/$1/fd" -lname 'socket:*' | wc -l; }
on_its_own() { (($(sockets "$1") == 0)); }
is_gone() { ! kill -0 "$1" 2>/dev/null; }

talk_plain plain "$BUILDDIR/puppet"
ready plain
ask plain fork
plain=$ANSWER
matches "a child of a plain program" "ok alloc=[1-9]*status=7" "$plain"
tell plain "leave free"
end plain

puppet p
ask p "alloc a $((3 * M))"
ask p "fill a 1"
for state in awake asleep awake; do
	[[ $state != asleep ]] || sleeps p
	for n in 1 2 3; do
		ask p fork "$plain"
		alone p
		expect state "$state" held-now 0
	done
	[[ $state != asleep ]] || wakes p
	ask p "check a" "ok bad=0"
done
leave p

talk f "$BUILDDIR/family"
ready f
for state in awake asleep; do
	[[ $state == awake ]] || sleeps f
	before=$(now f sequence)
	ask f default "ok changed=0"
	ask f spawn "ok exit=9"
	for signal in USR1 USR2 TERM; do
		child=$(asked pid f fork)
		at_least "sockets of the parent" 1 "$(sockets "${PID[f]}")"
		within "a child without a socket" on_its_own "$child"
		ctl 6 status "$child"
		ctl 6 sleep "$child"
		kill -s $signal "$child"
		ask f "reap $child" "ok exit=-1 signal=$(kill -l $signal)"
	done
	alone f
	expect state $state sequence "$before"

	rm -f "$LEAF"
	child=$(asked pid f exec)
	within "the child's start" test -s "$LEAF"
	ctl 0 status "$child"
	expect pid "$child" state awake live-bytes $((4 * M + 8))
	ctl 0 sleep "$child"
	equal "its parent" $state "$(now f state)"
	kill -s USR2 "$child"
	ctl 0 wait --state awake --timeout "$PATIENCE" "$child"
	kill -s KILL "$child"
	ask f "reap $child" "ok exit=-1 signal=9"
	ctl 0 list
	alone f
done
wakes f
ask f check "ok bad=0"

# children that outlive their parent hold no socket of it
child=$(asked pid f fork)
PID[child]=$child	# ends with this test
parent=${PID[f]}
tell f leave
end f
lawful f
kill -0 "$child" || fail "the child has gone with its parent"
ctl 6 status "$parent"
ctl 6 status "$child"
equal "sockets" '' "$(ls "$VSLEEP_DIR")"

talk f "$BUILDDIR/family"
ready f
orphan=$(asked pid f fork)
PID[orphan]=$orphan
within "a child without a socket" on_its_own "$orphan"
parent=${PID[f]}
kill -s KILL "$parent"
end f 137
ctl 6 status "$parent"
ctl 0 list
equal "the list" '' "$OUT"
equal "sockets" '' "$(ls "$VSLEEP_DIR")"
kill -s USR1 "$child" "$orphan"
within "the end of the children" is_gone "$child"
within "the end of the children" is_gone "$orphan"
