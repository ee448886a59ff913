#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every entry point of the driver is classified, and as hooks.def has it.
# CUDA_CFLAGS: how to find cuda.h.  CUDA_HOME: where the toolkit's stub is.
. "$(dirname "$0")/lib.sh"

rows() { grep -v '^#' "$list"; }

# Every name is in both lists, and has one of the classes and a reason.
sed -n 's/^X(\(cu[A-Za-z0-9_]*\))$/\1/p' "$root/src/base/driver.def" |
	sort > "$work/driver"
rows | awk '{ print $1 }' | sort > "$work/listed"
[ -s "$work/driver" ] || fail "driver.def has no rows"
comm -23 "$work/driver" "$work/listed" |
	fail_each "is in driver.def but not in $list"
comm -13 "$work/driver" "$work/listed" |
	fail_each "is in $list but not in driver.def"
uniq -d "$work/listed" | fail_each "is listed twice"
rows | awk '$2 !~ /^(own|gated|pass)$/ || NF < 3 { print $1 }' |
	fail_each "needs a class (own, gated or pass) and a reason"

# What is own or gated has a row in hooks.def, and nothing else has.
hook_rows | sort > "$work/hooks"
rows | awk '$2 != "pass" { print $2, $1 }' | sort > "$work/wrapped"
comm -23 "$work/wrapped" "$work/hooks" |
	fail_each "is listed so but not in hooks.def"
comm -13 "$work/wrapped" "$work/hooks" |
	fail_each "is in hooks.def but not listed so"

# A name that takes a stream or an address may only pass as an exception.
printf '#include "base/cuda.h"\n' |
	${CC:-cc} -E -P -I"$root/src" ${CUDA_CFLAGS:-} \
		${CUDA_HOME:+-I"$CUDA_HOME/include"} -x c - > "$work/cuda.i" ||
	fail "cuda.h: set CUDA_CFLAGS"
tr '\n' ' ' < "$work/cuda.i" | tr ';' '\n' |
	sed -n 's/.*CUresult *\(cu[A-Z][A-Za-z0-9_]*\) *(\(.*\)) *$/\1 \2/p' |
	grep -wE 'CUstream|CUdeviceptr|CUdeviceptr_v1' |
	awk '{ print $1 }' | sort -u > "$work/touching"
[ "$(wc -l < "$work/touching")" -ge 200 ] ||
	fail "only $(wc -l < "$work/touching") prototypes take a stream" \
		"or an address: cuda.h was not understood"
rows | awk '$2 == "pass" && $3 != "exception:" { print $1 }' | sort |
	comm -12 - "$work/touching" |
	fail_each "takes a stream or an address: gate it, or say" \
		"\"exception: ...\""

# The toolkit's stub knows no name that we do not.
stub=
nvcc=$(command -v nvcc) && nvcc=$(dirname "$(readlink -f "$nvcc")")/..
for home in "${CUDA_HOME:-}" "$nvcc"; do
	for dir in lib64 lib targets/x86_64-linux/lib targets/sbsa-linux/lib; do
		[ -n "$home" ] && [ -f "$home/$dir/stubs/libcuda.so" ] &&
			stub=${stub:-$home/$dir/stubs/libcuda.so}
	done
done
if [ -n "$stub" ]; then
	nm -D --defined-only "$stub" | awk '$3 ~ /^cu[A-Z]/ { print $3 }' |
		sort | comm -23 - "$work/listed" |
		fail_each "is in $stub but not in $list"
else
	echo "entry-points.sh: no toolkit stub here; its names are not compared"
fi

finish
