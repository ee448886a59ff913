#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every question about memory of every kind is answered as without vsleep:
# awake, asleep in whole and in part, and after cycles.  Only the values of ids
# differ, and they stay what they are.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"
export VSLEEP_SIM_MEMORY=1G

questions() {
	talk "$@" "$BUILDDIR/questions"
	ready "$1"
}

# same WHAT FILE: it says what the plain program's says
same() {
	local plain=$WORK/plain.${2##*.} differ
	at_least "$1: lines" "${3:-1}" "$(wc -l <"$2")"
	differ=$(diff "$plain" "$2" | head -n 20)
	[[ -z $differ ]] || fail "$1 is answered otherwise:"$'\n'"$differ"
}
# asks NAME WHEN: all questions
asks() {
	ask "$1" "ask $WORK/$1.all"
	same "$1, $2" "$WORK/$1.all" 8000
}

# without vsleep, and what it shares with another process
ask_plain() {
	local handle name
	talk_plain owner "$BUILDDIR/questions"
	ready owner
	ask owner make
	ask owner lend
	handle=${ANSWER#ok }
	talk_plain plain "$BUILDDIR/questions"
	ready plain
	ask plain make
	ask plain make
	ask plain "open $handle"
	ask plain drop
	ask plain "ask $WORK/plain.all"
	ask plain "ask $WORK/again.all"
	same "the driver, a second time" "$WORK/again.all" 8000
	ask plain "info $WORK/plain.info"
	ask plain "transport $WORK/plain.transport"
	for name in plain owner; do
		tell "$name" leave
		end "$name"
	done
}
ask_plain
equal "ids that change" "" "$(grep changed "$WORK/plain.all")"

# the first set sleeps with its tag, the second with all
questions owner
ask owner make
ask owner lend
handle=${ANSWER#ok }
questions p
ctl 0 tag "${PID[p]}" one
ask p make
ctl 0 tag "${PID[p]}" two
ask p make
ask p "open $handle"
# a first sleep may take addresses for good, which must not be freed ones
ctl 5 sleep --alone "${PID[p]}"
wakes p --alone
ask p drop
asks p "awake"
ask p "info $WORK/p.info"
same "memory info" "$WORK/p.info"
for _ in 1 2; do
	ctl 5 sleep --alone --tags one "${PID[p]}"
	asks p "one tag asleep"
	ctl 5 sleep --alone "${PID[p]}"
	at_least "asleep" $((100 * M)) "$(now p evicted-bytes)"
	asks p "asleep"
	wakes p --alone
	asks p "after a cycle"
done

# asked without rest while its memory goes and comes
ask p race
for _ in 1 2 3 4 5; do
	ctl 5 sleep --alone "${PID[p]}"
	wakes p --alone
done
ask p end
matches "answers to questions without rest" "ok rounds=*changed=0" "$ANSWER"
at_least "rounds" 5 "$(word rounds "$ANSWER")"
asks p "after more cycles"
# what another process has lent stays mapped too, once that was granted
ctl 5 sleep --alone "${PID[p]}"
kept=$(value kept-bytes)
wakes p --alone
ask p "sync opened 1"
ctl 5 sleep --alone "${PID[p]}"
at_least "kept of what was opened" $((kept + 4 * M)) "$(value kept-bytes)"
wakes p --alone

# what asks for physical pages; where it was granted the memory stays
questions q
ask q "transport $WORK/q.transport"
same "what transports ask for" "$WORK/q.transport"
ctl 5 sleep "${PID[q]}"
matches "what was kept" "*SYNC_MEMOPS was set*" "$OUT$ERR"
wakes q
# also where it was granted while the memory slept
questions r
ask r make
ctl 5 sleep "${PID[r]}"
kept=$(value kept-bytes)
for name in 4MiB 40MiB+3 pool own-pool; do
	ask r "sync $name 1"
	ask r "sync $name 0"
	ask r "sync $name 1"
done
ask r "sync mapped 1" "error 801"
wakes r
ask r "ask $WORK/r.all"
matches "it is set" "*single sync-memops: 0 1" \
	"$(grep '0 own-pool last: single sync' "$WORK/r.all")"
ctl 5 sleep "${PID[r]}"
at_least "kept from then on" $((kept + 67 * M)) "$(value kept-bytes)"
wakes r

# tokens are of pages that a sleeping block has not
ask owner tokens
plain=$ANSWER
ctl 5 sleep --alone "${PID[owner]}"
tell owner tokens
held owner 1
silent owner
wakes owner --alone
answer owner
equal "tokens, once awake" "$plain" "$ANSWER"

for name in p q r owner; do
	tell "$name" leave
	end "$name"
	lawful "$name"
done
