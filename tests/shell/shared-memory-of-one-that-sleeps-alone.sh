#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Of two programs that share memory one may sleep alone: what the other maps
# stays and is said to, what it maps itself is unmapped and comes back, and not
# before its owner is awake.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

export VSLEEP_SIM_SHARE=$WORK/share

lender a
lender b
ask a "alloc big $((24 * M))"
ask a "alloc own $((20 * M))"
ask a "alloc small 5000"
for block in big own small; do
	ask a "fill $block 1"
done
big=$(asked handle a "handle big")
small=$(asked handle a "handle small")
ask b "alloc own $((20 * M))"
ask b "fill own 4"
ask b "open big $big $((24 * M))"

# the owner alone: what is mapped elsewhere stays, the rest goes
why="mapped by process ${PID[b]}"
before=$(device a)
ctl 5 sleep --alone "${PID[a]}"
expect state asleep kept-bytes $((24 * M)) kept-why "$why"
at_least "released" $((20 * M)) "$(value released-bytes)"
equal "on the device" "$((before - $(value released-bytes)))" "$(device a)"
ask b "check big 1" "ok bad=0"
ask b "fill big 2"
# what sleeps cannot be opened: who tries waits
tell b "open small $small 5000"
silent b
wakes a --alone
answer b
matches "opened at the wake" "ok*" "$ANSWER"
ask b "check small 1" "ok bad=0"
ask a "check big 2" "ok bad=0"
ask a "check own 1" "ok bad=0"

# so it is by a signal
kill -USR1 "${PID[a]}"
within "a to sleep" is a state asleep
status a
expect kept-why "$why"
kill -USR2 "${PID[a]}"
within "a to wake" is a state awake

# the borrower alone
ctl 0 sleep --alone "${PID[b]}"
expect state asleep kept-bytes 0 imported-bytes ''
at_least "to be mapped" $((24 * M)) "$(value imported-asleep-bytes)"
status a
expect state awake
ask a "fill big 5"
ctl 0 sleep --alone "${PID[a]}"
expect state asleep kept-bytes 0 resident-bytes 0

# it wakes after its owner; nothing has changed until then
ctl 4 wake --alone "${PID[b]}"
matches "why" "*process ${PID[a]}, whose memory it maps, is asleep*" "$ERR"
status b
expect state asleep imported-bytes ''
tell b "check big 5"
"$VSLEEPCTL" wake --alone --wait 20 "${PID[b]}" >"$WORK/wake.text" 2>&1 &
waiter=$!
wakes a --alone
wait $waiter || fail "the wake: $(<"$WORK/wake.text")"
answer b
matches "after the wake" "ok bad=0*" "$ANSWER"
ask b "check own 4" "ok bad=0"

# only what is mapped under some tag
ctl 0 sleep --tags default "${PID[b]}"
wakes b --alone
ask b "check big 5" "ok bad=0"

for block in big small; do
	ask b "close $block"
done
for name in b a; do
	leave $name
done
