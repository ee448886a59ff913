#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Of programs that share memory one may end at any time.  What it borrowed is
# not kept for it any more; what it lent stays for those who have it mapped,
# and is lost to one that sleeps.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

export VSLEEP_SIM_SHARE=$WORK/share

sleeps_whole() {
	"$VSLEEPCTL" sleep --alone "${PID[$1]}" >"$WORK/whole.text" 2>&1
}

# a borrower is killed
lender a
ask a "alloc big $((24 * M))"
ask a "fill big 1"
big=$(asked handle a "handle big")
lender b
ask b "open big $big $((24 * M))"
kill -KILL "${PID[b]}"
within "the end of b" ended b
end b 137
within "a to sleep" sleeps_whole a
status a
expect state asleep kept-bytes 0 resident-bytes 0 ipc-peer ''
wakes a
ask a "check big 1" "ok bad=0"

# one that closes what it did not open is still known to map it, and finds the
# owner again
lender b
ask b "open big $big $((24 * M))"
ask b "cut"
ctl 5 sleep --alone "${PID[a]}"
expect kept-why "mapped by process ${PID[b]}"
ask b "check big 1" "ok bad=0"
wakes a --alone
ask b "close big"
within "a to know" is a ipc-peer ''
sleeps a
expect kept-bytes 0
wakes a
ask b "open big $big $((24 * M))"
ask b "check big 1" "ok bad=0"
ask b "close big"
tell b "leave"
end b

# the owner ends while its memory is mapped: it stays
lender b
ask b "alloc own $((30 * M))"
ask b "fill own 6"
ask b "open big $big $((24 * M))"
owner=${PID[a]}
kill -KILL "$owner"
within "the end of a" ended a
end a 137
ask b "check big 1" "ok bad=0"
ctl 5 sleep "${PID[b]}"
expect kept-why "process $owner, whose memory it is, has ended"
at_least "released" $((30 * M)) "$(value released-bytes)"
wakes b
ask b "check big 1" "ok bad=0"
ask b "check own 6" "ok bad=0"
ask b "spoil other $big" "error 1*"
ask b "close big"
status b
expect imported-bytes '' ipc-peer ''

# the owner ends while the borrower sleeps: that cannot wake, and says why
lender a
ask a "alloc big $((24 * M))"
big=$(asked handle a "handle big")
ask b "open big $big $((24 * M))"
sleeps b --alone
owner=${PID[a]}
kill -KILL "$owner"
within "the end of a" ended a
end a 137
ctl 1 wake "${PID[b]}"
matches "why" "*process $owner, whose memory it had mapped, has ended*" "$ERR"
status b
expect state asleep
at_least "asleep" $((30 * M)) "$(value evicted-bytes)"
kill -KILL "${PID[b]}"
within "the end of b" ended b
end b 137
