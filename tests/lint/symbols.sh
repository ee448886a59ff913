#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The built library exports what it should and needs the C library alone.
# $1, or LIBVSLEEP: the library.
. "$(dirname "$0")/lib.sh"

library=${1:-${LIBVSLEEP:-}}
[ -f "$library" ] || { fail "'$library' is not a file"; finish; }

{
	printf '%s\n' dlsym dlopen exit quick_exit __cxa_thread_atexit_impl
	grep -oE 'X\([a-z_]+, vs_action_' "$root/src/base/action.h" |
		sed 's/X(\(.*\),.*/\1/'
	hook_rows | awk '{ print $2 }'
	sed -n 's/^VSLEEP_FUNCTION([^,]*, *\(vsleep_[a-z_]*\),.*/\1/p' \
		"$root/include/vsleep.h" > "$work/api"
	[ "$(wc -l < "$work/api")" -ge 10 ] ||
		fail "vsleep.h was not understood"
	cat "$work/api"
} | sort -u > "$work/wanted"
nm -D --defined-only "$library" | awk '{ print $3 }' | sort > "$work/exported"
[ "$(wc -l < "$work/wanted")" -ge 200 ] || fail "hooks.def was not understood"
comm -23 "$work/wanted" "$work/exported" | fail_each "is not exported"
comm -13 "$work/wanted" "$work/exported" | fail_each "must not be exported"

readelf -dW "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' > "$work/needed"
grep -q '^libc\.so' "$work/needed" || fail "no libc among what it needs"
grep -vE '^(libc|libdl|libpthread|ld-linux[-a-z0-9_]*)\.so' "$work/needed" |
	fail_each "is needed; the C library alone should be"
readelf -dW "$library" | grep -E '\((RPATH|RUNPATH|TEXTREL)\)' |
	fail_each "has no place in a preloaded library"
# A version that a machine's glibc lacks ends every process there.
nm -D --undefined-only "$library" |
	sed -n 's/.* \([A-Za-z0-9_]*\)@GLIBC_\([0-9.]*\)$/\2 \1/p' |
	awk '{ split($1, part, "."); if (part[1] > 2 || part[2] > 30) print }' |
	fail_each "is newer than glibc 2.30: see base/glibc.h"
readelf -VW "$library" | grep -o GLIBC_PRIVATE | sort -u |
	fail_each "is no interface to rely on"

finish
