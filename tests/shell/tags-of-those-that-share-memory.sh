#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Programs that lend memory to each other wake by their tags too: each has its
# own memory first, and then what it maps of the other.  Where the owner's tag
# stays asleep the borrower stays as it was, and is told at once whom to wake.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

export VSLEEP_SIM_SHARE=$WORK/share

for name in a b; do
	lender $name VSLEEP_TAG=lent
	ask $name "alloc own $((20 * M))"
	ask $name "fill own 1"
	ctl 0 tag "${PID[$name]}" rest
	ask $name "alloc more $((10 * M))"
	ask $name "fill more 2"
done
a=$(asked handle a "handle own")
b=$(asked handle b "handle own")
ask a "open theirs $b $((20 * M))"
ask b "open theirs $a $((20 * M))"
both=("${PID[a]}" "${PID[b]}")
# "theirs" was opened under the tag rest

# the_same NAME...: its bytes
the_same() {
	local name
	for name; do
		ask "$name" "check own 1" "ok bad=0"
		ask "$name" "check more 2" "ok bad=0"
		ask "$name" "check theirs 1" "ok bad=0"
	done
}

# soon STATUS ARGUMENT...: as ctl, and nobody waits for what does not come
soon() {
	local start=$SECONDS
	ctl "$@"
	at_most "seconds of ${*:2}" 8 $((SECONDS - start))
}

# by all their tags, by a tag after the other, and without a list
ctl 0 sleep "${both[@]}"
soon 0 wake --tags lent,rest "${both[@]}"
the_same a b
ctl 0 sleep --tags lent,rest "${both[@]}"
for name in a b; do
	status $name
	expect state asleep resident-bytes 0 kept-bytes 0 imported-bytes ''
done
soon 0 wake --tags lent "${both[@]}"
for name in a b; do
	status $name
	expect state partial holds asleep imported-bytes ''
done
soon 0 wake --tags rest "${both[@]}"
the_same a b
ctl 0 sleep "${both[@]}"
soon 0 wake --alone "${both[@]}"
the_same a b

# the owners' tag stays asleep: nothing changes, and at once
ctl 0 sleep "${both[@]}"
before="$(now a evicted-bytes) $(now b evicted-bytes)"
soon 4 wake --tags rest "${both[@]}"
matches "whom a waits for" "*process ${PID[a]}: no-memory: process \
${PID[b]}, whose memory it maps, is asleep*" "$ERR"
matches "whom b waits for" "*process ${PID[b]}: no-memory: process \
${PID[a]}, whose memory it maps, is asleep*" "$ERR"
for name in a b; do
	status $name
	expect state asleep holds asleep resident-bytes 0 imported-bytes ''
done
equal "what sleeps" "$before" "$(now a evicted-bytes) $(now b evicted-bytes)"
# so it is with one alone, and while it may be waited for
soon 4 wake --tags rest --wait 0.5 "${PID[a]}"
matches "whom it waits for" "*process ${PID[b]}, whose memory it maps*" "$ERR"
equal "state" asleep "$(now a state)"
soon 4 wake --tags rest --wait 0.5 "${both[@]}"
ctl 0 wake "${both[@]}"
the_same a b

# two clients, each for one of them, leave neither waiting for the other
ctl 0 sleep "${both[@]}"
clients=()
start=$SECONDS
for name in a b; do
	timeout 20 "$VSLEEPCTL" wake --alone --wait 1 "${PID[$name]}" \
		>"$WORK/$name.said" 2>&1 &
	clients+=($!)
done
for client in "${clients[@]}"; do
	wait "$client"
	equal "status of a client" 4 $?
done
at_most "seconds of the clients" 8 $((SECONDS - start))
ctl 0 wake "${both[@]}"
the_same a b

# one that would not be held runs no sooner than all is there
ctl 0 sleep "${both[@]}"
tell a "check theirs 1"
tell b "check theirs 1"
soon 0 wake --no-hold --tags lent,rest "${both[@]}"
for name in a b; do
	answer $name
	matches "$name after the wake" "ok bad=0*" "$ANSWER"
done
the_same a b

# one that fails in the end sleeps again, though its memory came for another
lender c VSLEEP_TAG=lent
ask c "alloc own $((20 * M))"
ask c "fill own 1"
ask a "open third $(asked handle c "handle own") $((20 * M))"
ctl 0 sleep "${both[@]}" "${PID[c]}"
soon 4 wake --tags lent,rest "${both[@]}"
matches "whom a waits for" "*process ${PID[a]}: no-memory: process \
${PID[c]}, whose memory it maps, is asleep*" "$ERR"
status a
expect state asleep holds asleep imported-bytes ''
at_least "asleep" $((10 * M)) "$(value evicted-bytes)"
status b
expect state awake
ask b "check theirs 1" "ok bad=0"
wakes c --alone
soon 0 wake --tags lent,rest "${both[@]}"
the_same a b
ask a "check third 1" "ok bad=0"

ask a "close theirs"
ask a "close third"
ask b "close theirs"
for name in a b c; do
	leave $name
done
