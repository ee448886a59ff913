#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A process that sleeps with big backups has a core as small as one without
# vsleep, and its children have none of the backups.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

export VSLEEP_SIM_MEMORY=384M
size=$((256 * M))
cd "$WORK" || exit

# marked PID: "START SIZE" of each mapping that is neither dumped nor inherited
marked() {
	local line start='' kb=0
	while read -r line; do
		case $line in
		+([0-9a-f])-+([0-9a-f])\ *) start=${line%%-*} ;;
		Size:*) kb=${line//[^0-9]/} ;;
		VmFlags:*\ dc\ *)
			[[ $line != *" dd"* ]] || echo "$start $((kb * 1024))"
			;;
		esac
	done <"/proc/$1/smaps"
}

sum() {
	local start size total=0
	while read -r start size; do
		total=$((total + size))
	done
	echo $total
}

# core NAME: abort it; the bytes of its core, without what is shared with the
# simulated device
core() {
	echo 0x31 >"/proc/${PID[$1]}/coredump_filter"
	tell "$1" "leave abort"
	{ end "$1" 134; } 2>/dev/null
	local file
	file=$(find "$WORK" -maxdepth 1 -name 'core*' -print -quit)
	CORE=0
	[[ -z $file ]] || CORE=$(stat -c %s "$file")
	rm -f "$file"
}

big() {
	"$1" "$2" "$BUILDDIR/puppet"
	ready "$2"
	ask "$2" "alloc a $size"
	ask "$2" "fill a 1"
}

ulimit -c unlimited 2>/dev/null || ulimit -c 0
big talk p
before=$(marked "${PID[p]}" | sum)
sleeps p
at_least "bytes left out" $size $(($(marked "${PID[p]}" | sum) - before))
core p
asleep=$CORE
big talk_plain plain
core plain
if ((CORE)); then
	at_most "bytes more in the core" $((64 * M)) $((asleep - CORE))
else
	echo "not tried: no core here, core_pattern is" \
		"$(</proc/sys/kernel/core_pattern)"
fi

ulimit -c 0
talk f "$BUILDDIR/family"
ready f
sleeps f
blocks=$(marked "${PID[f]}")
at_least "bytes of backups" $((4 * M)) "$(sum <<<"$blocks")"
child=$(asked pid f fork)
PID[child]=$child
while read -r start _; do
	! grep -q "^$start-" "/proc/$child/maps" ||
		fail "the child has the backup at $start"
done <<<"$blocks"
kill -s KILL "$child"
unset "PID[child]"
wakes f
ask f check "ok bad=0"
tell f leave
end f
