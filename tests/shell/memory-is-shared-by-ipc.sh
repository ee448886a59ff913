#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Two programs share memory by CUDA IPC as they would without vsleep: the bytes
# are the same on both sides, whatever the size of the allocation and wherever
# the address lies in it; what is opened twice is there once, and what is closed
# is gone.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

export VSLEEP_SIM_SHARE=$WORK/share

lender a
lender b
bare_b=$(device b)
ask a "alloc big $((40 * M + 12))"
ask a "alloc small 5000"
ask a "alloc other 70000"
for block in big small other; do
	ask a "fill $block 7"
done
big=$(asked handle a "handle big")
small=$(asked handle a "handle small")
other=$(asked handle a "handle other 69999")

# the same memory, the same handle; the middle of it too
equal "a second handle" "$big" "$(asked handle a "handle big")"
equal "one of the middle" "$big" "$(asked handle a "handle big $((9 * M))")"
[[ $small != "$other" ]] || fail "two allocations, one handle"
ask a "tell big" \
	"ok begins=1 size=$((40 * M + 12)) type=2 device=0 capable=1"

held=$(device a)
ask b "open big $big $((40 * M + 12))"
at=$(word at "$ANSWER")
ask b "open small $small 5000"
ask b "open other $other 70000"
ask b "tell big" \
	"ok begins=1 size=$((40 * M + 12)) type=2 device=0 capable=1"
ask b "tell small" "ok begins=1 size=5000 type=2 *"
for block in big small other; do
	ask b "check $block 7" "ok bad=0"
	ask b "fill $block 9"
	ask a "check $block 9" "ok bad=0"
	ask a "fill $block 11"
	ask b "check $block 11" "ok bad=0"
done
equal "what b holds of the device" "$bare_b" "$(device b)"
equal "what a holds" "$held" "$(device a)"

status b
at_least "mapped" $((40 * M + 12)) "$(value imported-bytes)"
matches "whose it is" "${PID[a]} role=owner bytes=*" "$(value ipc-peer)"
status a
matches "who has it" "${PID[b]} role=borrower bytes=*" "$(value ipc-peer)"

# again: the same address, and it stays until it was closed as often
ask b "open again $big $((40 * M + 12))" "ok at=$at"
ask b "close big"
ask b "check again 11" "ok bad=0"
ask b "close again"
ask b "close small"
ask b "check other 11" "ok bad=0"
ask b "close other"
status b
expect imported-bytes '' ipc-peer ''
within "a to know" is a ipc-peer ''

# what is closed comes back when it is opened
ask b "open big $big $((40 * M + 12))"
ask b "check big 11" "ok bad=0"
ask b "close big"

# errors as without vsleep
ask a "open own $big 1" "error 201*"
ask b "flags $big 7" "error 1*"
ask b "spoil own $big" "error 1*"
ask a "vmm v $((2 * M))"
ask a "handle v" "error 1*"
ask a "free big"
ask b "open gone $big 1" "error 1*"

for name in a b; do
	ask $name "free all"
	sleeps $name
	wakes $name
done
tell b leave
end b
clean b
tell a leave
end a
clean a

# from another device: copied and changed there, asleep and awake
export VSLEEP_SIM_DEVICES=2
lender a
lender b DEVICE=1
ask a "alloc big $((20 * M))"
ask a "fill big 1"
big=$(asked handle a "handle big")
ask b "open big $big $((20 * M))"
ask b "tell big" "ok begins=1 size=$((20 * M)) type=2 device=0 capable=1"
ask b "check big 1" "ok bad=0"
ask b "fill big 2"
ask a "check big 2" "ok bad=0"
sleeps a
wakes a
ask b "check big 2" "ok bad=0"
ask b "fill big 3"
ask a "check big 3" "ok bad=0"
ask b "close big"
for name in b a; do
	leave $name
done
