#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A wake leaves the backups where they are, and the next sleep copies what has
# changed, until a trim, a program that frees its memory or scarce host memory
# takes them; where VSLEEP_RETAIN says no nothing stays.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

export VSLEEP_RETAIN=yes

# payload: 96 MiB in two segments of their own
payload() {
	ask p "alloc a $((64 * M))"
	ask p "alloc b $((32 * M))"
	ask p "fill a 1"
	ask p "fill b 2"
}

# moved COPIED UNCHANGED ZERO: what the last sleep did, MiB
moved() {
	expect state asleep resident-bytes 0 copied-bytes $(($1 * M)) \
		unchanged-bytes $(($2 * M)) zero-bytes $(($3 * M))
	equal "on the device" 0 "$(device p)"
}

# right: awake, and every byte is there
right() {
	expect status ok state awake evicted-bytes 0 backed-up-bytes 0
	ask p "check all" "ok bad=0"
}

# resident: what the program has in memory, KiB; that of its device with it
resident() {
	sed -n 's/^VmRSS:\s*\([0-9]*\) kB$/\1/p' "/proc/${PID[p]}/status"
}
resident_at_most() { (($(resident) <= $1)); }

# The puppet's own allocation is a page of its tag's arena.
puppet p
payload
sleeps p
all=$(value copied-bytes)
at_least "all memory" $((96 * M)) "$all"
expect released-bytes "$all" unchanged-bytes 0 zero-bytes 0 \
	host-bytes "$all" retained-bytes 0
own=$(((all - 96 * M) / M))
wakes p
right
expect host-bytes "$all" retained-bytes "$all" spilled-bytes 0

for _ in 1 2; do
	sleeps p
	moved 0 $((96 + own)) 0
	expect host-bytes "$all" retained-bytes 0 backed-up-bytes "$all"
	wakes p
	right
	expect host-bytes "$all" retained-bytes "$all"
done

# new bytes, none, and some again
ask p "fill b 3"
sleeps p
moved 32 $((64 + own)) 0
wakes p
right
ask p "byte b 0"
sleeps p
moved 0 $((64 + own)) 32
expect host-bytes $((all - 32 * M)) backed-up-bytes "$all"
wakes p
ask p "count b 0" "ok bad=0"
ask p "fill b 4"
sleeps p
moved 32 $((64 + own)) 0
wakes p
right

# a dry run asks for what there is no backup of
ctl 0 sleep --dry-run "${PID[p]}"
expect host-needed-bytes 0 would-release-bytes "$all"

# trim: nothing while asleep, all of it while awake
sleeps p
ctl 0 trim "${PID[p]}"
expect status ok state asleep trimmed-bytes 0 host-bytes "$all"
wakes p
right
ctl 0 trim "${PID[p]}"
expect status ok state awake trimmed-bytes "$all" retained-bytes 0 host-bytes 0
ctl 0 trim "${PID[p]}"
expect status ok trimmed-bytes 0
ctl 0 trim --json "${PID[p]}"
matches "the answer as JSON" '*"trimmed-bytes": 0*' "$OUT"
ask p "check all" "ok bad=0"
sleeps p
moved $((96 + own)) 0 0
wakes p
right

# what is freed goes back with its backup
ask p "free b"
within "the backup of what was freed to go" is p host-bytes $((all - 32 * M))
ask p "check all" "ok bad=0"

# level 2 leaves none
sleeps p --level 2 --discard-all
expect host-bytes 0 retained-bytes 0 copied-bytes 0
wakes p
expect host-bytes 0 retained-bytes 0
ask p "count a 0" "ok bad=0"
leave p

# with tags: what sleeps is not trimmed
puppet p VSLEEP_TAGS=a=offload,b=offload
for tag in a b; do
	ctl 0 tag "${PID[p]}" "$tag"
	ask p "alloc $tag $((32 * M))"
	ask p "fill $tag 1"
done
sleeps p
wakes p --tags a
expect state partial
tell p "check all"
ctl 0 trim "${PID[p]}"
expect state partial trimmed-bytes $((32 * M)) retained-bytes 0
equal "backed up of b" $((32 * M)) "$(of_tag b backed-up-bytes)"
wakes p
answer p
equal "what was held" "ok bad=0" "$ANSWER"
leave p

# Nothing stays where nothing shall: memory that is back is back.  What stays
# can be seen by the same measure.  The first wake touches all of the device's
# memory.
for mode in yes no; do
	puppet p VSLEEP_RETAIN=$mode
	payload
	sleeps p
	wakes p
	ctl 0 trim "${PID[p]}"
	before=$(resident)
	for _ in 1 2; do
		sleeps p
		[[ $mode == yes ]] || moved $((96 + own)) 0 0
		wakes p
		right
		if [[ $mode == yes ]]; then
			at_least "memory with backups, KiB" \
				$((before + 90 * 1024)) "$(resident)"
			continue
		fi
		within "the memory of the backups to go back" \
			resident_at_most $((before + 2048))
		status p
		expect host-bytes 0 retained-bytes 0
	done
	leave p
done

# auto: as long as a cgroup has room, where one can be made
case $(stat -fc %T /sys/fs/cgroup 2>/dev/null) in
cgroup2fs) root=/sys/fs/cgroup limit=memory.max usage=memory.current ;;
*)
	root=/sys/fs/cgroup/memory limit=memory.limit_in_bytes
	usage=memory.usage_in_bytes
	;;
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
puppet p VSLEEP_RETAIN=auto
echo "${PID[p]}" >"$group/cgroup.procs" || fail "no process can be moved"
payload
sleeps p
wakes p
expect retained-bytes "$all"
right
used=$(<"$group/$usage")
if ((used < 96 * M)); then
	echo "not tried: this machine does not count a cgroup's memory"
	exit 0
fi
echo $((used + used / 20)) >"$group/$limit" || fail "no limit can be set"
within "what is retained to go back" is p retained-bytes 0
ask p "check all" "ok bad=0"
echo $((used * 4)) >"$group/$limit"
leave p
