#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A sleep that the host has no memory for is refused with both figures before
# anything is touched, be it by VSLEEP_HOST_LIMIT or by the cgroup.  Memory that
# cannot be pinned serves all the same.  A copy that fails changes nothing.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

export VSLEEP_RETAIN=no		# so that what is registered is not kept

# payload NAME: 40 MiB in two blocks
payload() {
	ask "$1" "alloc a $((32 * M))"
	ask "$1" "alloc b $((8 * M - 4096))"
	ask "$1" "fill a 1"
	ask "$1" "fill b 2"
}

# untouched NAME: awake, nothing released, every byte there
untouched() {
	status "$1"
	expect state awake sequence "$sequence" evicted-bytes 0 \
		backed-up-bytes 0 holds '' held-now 0
	equal "on the device" "$resident" "$(device "$1")"
	ask "$1" "check all" "ok bad=0"
}

# cycle NAME
cycle() {
	sleeps "$1"
	equal "on the device" 0 "$(device "$1")"
	wakes "$1"
	ask "$1" "check all" "ok bad=0"
}

# go NAME: it leaves without another sleep
go() {
	ask "$1" "free all"
	tell "$1" "leave return"
	end "$1"
	lawful "$1"
	equal "registered host memory" 0 "$(ledger "$1" registered)"
}

sequence=0
puppet p VSLEEP_HOST_LIMIT=20M
payload p
resident=$(device p)
for n in 1 2; do
	ctl 1 sleep "${PID[p]}"
	equal "the message" "vsleepctl: process ${PID[p]}: no-host-memory: host\
 memory: need $((resident / M)) MiB, may take 20 MiB" "$ERR"
	untouched p
	expect last-error "no-host-memory: host memory: need\
 $((resident / M)) MiB, may take 20 MiB"
done
# what fits may sleep
ask p "free a"
ask p "alloc c $((4 * M))"
ask p "fill c 3"
cycle p
go p

# Memory that cannot be pinned.  The first registration is the puppet's own; the
# backup takes two blocks.
for which in 2 2+ 3+; do
	puppet p VSLEEP_SIM_FAIL="cuMemHostRegister_v2:$which:2"
	payload p
	ask p "alloc c $((60 * M))"
	ask p "fill c 3"
	sleeps p
	pageable=$(value pageable-bytes) copied=$(value copied-bytes)
	at_least "copied" $((100 * M - 4096)) "$copied"
	case $which in
	2+) equal "pageable" "$copied" "$pageable" ;;
	*)
		at_least "pageable" 1 "$pageable"
		at_most "pageable" $((copied - 1)) "$pageable"
		;;
	esac
	wakes p
	ask p "check all" "ok bad=0"
	go p
	at_least "failures that struck" 1 "$(ledger p injected)"
done

# the k-th copy
for k in 1 2; do
	sequence=0
	puppet p VSLEEP_SIM_FAIL="cuMemcpyDtoHAsync_v2:$k:999" \
		VSLEEP_LOG="$WORK/p.log"
	payload p
	resident=$(device p)
	ctl 1 sleep "${PID[p]}"
	matches "the message" "*: cuda-error: *999*" "$ERR"
	untouched p
	cycle p
	go p
	equal "failures that struck" 1 "$(ledger p injected)"
done

# a cgroup of either version, where one can be made
case $(stat -fc %T /sys/fs/cgroup 2>/dev/null) in
cgroup2fs) root=/sys/fs/cgroup limit=memory.max ;;
*) root=/sys/fs/cgroup/memory limit=memory.limit_in_bytes ;;
esac
own=$(sed -n -e 's/^0:://p' -e 's/^[0-9]*:memory://p' /proc/self/cgroup |
	if [[ $limit == memory.max ]]; then tail -n 1; else head -n 1; fi)
group=
for parent in "$root$own" "$root"; do
	mkdir "$parent/vsleep-$$" 2>/dev/null || continue
	group=$parent/vsleep-$$
	[[ ! -w $group/$limit ]] || break
	rmdir "$group"
	group=
done
if [[ ! $group ]]; then
	echo "not tried: no cgroup with a limit of memory can be made"
	exit 0
fi
trap "clean_up_group 2>/dev/null" EXIT
clean_up_group() {
	local status=$? name
	for name in "${!PID[@]}"; do
		kill -KILL "${PID[$name]}"
		wait "${PID[$name]}"
	done
	rmdir "$group"
	(exit "$status")
	clean_up
}
sequence=0
puppet p
payload p
resident=$(device p)
echo $((20 * M)) >"$group/$limit" || fail "no limit can be set"
echo "${PID[p]}" >"$group/cgroup.procs" || fail "no process can be moved"
ctl 1 sleep "${PID[p]}"
matches "the message" "*: no-host-memory: host memory: need\
 $((resident / M)) MiB, may take @(1[0-9]|20) MiB" "$ERR"
untouched p
echo $((400 * M)) >"$group/$limit"
cycle p
go p
