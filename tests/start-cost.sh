#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What the preload adds to the start of a program that does not use CUDA:
#
#   tests/start-cost.sh LIBRARY [RUNS [PROGRAM [ARG...]]]
#
# Plain and preloaded runs, 1000 of each if no number is given, take turns;
# the program is /bin/true if none is given.  Times are of fork, exec, the
# loader and the end, in microseconds.
set -u
export LC_ALL=C
library=$(readlink -f "${1:-${LIBVSLEEP:-}}")
if [[ ! -f $library ]]; then
	echo "usage: ${0##*/} LIBRARY [RUNS [PROGRAM [ARG...]]]" >&2
	exit 2
fi
runs=${2:-1000}
program=("${@:3}")
[[ ${#program[@]} != 0 ]] || program=(/bin/true)

# took: microseconds of one run
took() {
	local from=${EPOCHREALTIME/./}
	"${program[@]}" >/dev/null 2>&1
	TOOK=$((${EPOCHREALTIME/./} - from))
}
# median FILE
median() {
	sort -n "$1" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for ((n = 0; n < runs; n++)); do
	took
	echo "$TOOK" >&3
	LD_PRELOAD=$library took
	echo "$TOOK" >&4
done 3>"$work/plain" 4>"$work/preloaded"
plain=$(median "$work/plain") preloaded=$(median "$work/preloaded")
echo "start cost: median $((preloaded - plain)) us" \
	"(plain $plain, preloaded $preloaded)"
