#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Processes of a container know each other by other numbers than vsleepctl does
# outside: it finds those that share memory all the same, and nobody else.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

export VSLEEP_SIM_SHARE=$WORK/share
unshare -pf --kill-child --mount-proc true 2>/dev/null ||
	skip "no PID namespace to be had"

child_of() { CHILD=$(<"/proc/$1/task/$1/children") && [[ $CHILD ]]; }

mkfifo "$WORK/end"
exec {end}<>"$WORK/end"
unshare -pf --kill-child --mount-proc cat <&$end >/dev/null &
PID[container]=$!
within "the container" child_of $!
container=${CHILD% }
declare -A INNER
lender() {
	talk_plain "$1" nsenter -t "$container" -p -m \
		env LD_PRELOAD="$LIBVSLEEP" "$BUILDDIR/lender"
	ready "$1"
	child_of "${PID[$1]}" || fail "no child of nsenter"
	INNER[$1]=${CHILD% }
}

lender a
lender b
ask a "alloc big $((30 * M))"
ask a "fill big 1"
big=$(asked handle a "handle big")
ask b "open big $big $((30 * M))"
for named in a b; do
	ctl 0 sleep "${INNER[$named]}"
	matches "it is said" "*shares memory with process*" "$ERR"
	for name in a b; do
		ctl 0 status "${INNER[$name]}"
		expect state asleep kept-bytes 0 resident-bytes 0
	done
	ctl 0 wake "${INNER[$named]}"
	ask b "check big 1" "ok bad=0"
	ask a "check big 1" "ok bad=0"
done
ask b "close big"
for name in b a; do
	ask $name "free all"
	tell $name leave
	end $name
done
