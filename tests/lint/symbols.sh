#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The built library exports what it should and needs the C library alone.
# $1, or LIBVSLEEP: the library.
. "$(dirname "$0")/lib.sh"

library=${1:-${LIBVSLEEP:-}}
[ -f "$library" ] || { fail "'$library' is not a file"; finish; }

{
	echo dlsym
	hook_rows | awk '{ print $2 }'
	[ -f "$root/include/vsleep.h" ] &&
		grep -oE '\bvsleep_[a-z0-9_]+ *\(' "$root/include/vsleep.h" |
		tr -d ' ('
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
readelf -VW "$library" | grep -o GLIBC_PRIVATE | sort -u |
	fail_each "is no interface to rely on"

finish
