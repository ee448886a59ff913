#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Memory of each way of allocating: either all of it sleeps, or the answer says
# how many bytes are kept and why.  After three cycles, with memory given back
# and taken in between, no byte is another.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

export WAYS_MIB=16

# total KEY: the sum over the answers in OUT
total() {
	awk -F= -v key="$1" '$1 == key { sum += $2 } END { printf "%d", sum }' \
		<<<"$OUT"
}

bytes() { sed -n 's/^bytes=//p' "$WORK/$1.said"; }
filled() { grep -sq "^$2 " "$WORK/$1.progress"; }

# begin NAME: the program, filled; what it says goes to a file
begin() {
	local to
	mkfifo "$WORK/$1.in"
	exec {to}<>"$WORK/$1.in"
	surround "$1" LD_PRELOAD="$LIBVSLEEP" "$BUILDDIR/ways" "$1" \
		<"$WORK/$1.in" >"$WORK/$1.said" 2>"$WORK/$1.err" {to}>&- &
	PID[$1]=$! TO[$1]=$to
	within "memory by $1" filled "$1" filled
}

# way STATUS NAME [--tree]: three cycles, vsleepctl sleep exits with that
way() {
	local name=$2 n
	begin "$name"
	for n in 1 2 3; do
		ctl "$1" sleep ${3:+"$3"} "${PID[$name]}"
		STAYS=$(($(total kept-bytes) + $(total unmanaged-bytes)))
		SLEPT=$(total released-bytes)
		SAID=$OUT
		ctl 0 wake ${3:+"$3"} "${PID[$name]}"
		tell "$name" go
		within "step $n of $name" filled "$name" "step $n"
	done
	tell "$name" quit
	within "the end of $name" ended "$name"
	wait "${PID[$name]}" ||
		fail "$name: exit status $?: $(<"$WORK/$name.said")"
	unset "PID[$name]"
	matches "$name" "*equal" "$(<"$WORK/$name.said")"
	# of both processes, where there are two
	equal "$name: invalid calls" '' \
		"$(grep 'invalid-calls=[1-9]' "$WORK/$name.ledger")"
}

all_sleeps() {
	way 0 "$@"
	equal "$1: what stays" 0 "$STAYS"
	at_least "$1: what slept" "$(bytes "$1")" "$SLEPT"
}

# is_told STATUS NAME WORDS [--tree]: its bytes stay, in the answer with WORDS
is_told() {
	way "$1" "$2" "${@:4}"
	at_least "$2: what stays" "$(bytes "$2")" "$STAYS"
	matches "$2: why" "*$3*" "$SAID"
}

for name in plain pitched async async-pool async-rmm graph-idle \
	vmm-segments vmm-growing vmm-aliases; do
	all_sleeps "$name"
done
# where managed memory is when it is asked for is the driver's affair
for name in managed vmm-host; do
	way 0 "$name"
	equal "$name: what stays" 0 "$STAYS"
done
all_sleeps ipc --tree
is_told 5 exported "kept=* exported"
is_told 5 imported "kept=* exported" --tree
VSLEEP_IPC=native is_told 5 ipc-lent "unmanaged-native-bytes="
is_told 5 graph-held "unmanaged-graph-bytes="
is_told 0 array "unmanaged-array-bytes="
