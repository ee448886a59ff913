#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What HACKING says under "Form": 80 columns, functions of 60 lines, files of
# 500, the SPDX line first.
. "$(dirname "$0")/lib.sh"

# A row each for the driver's names: lists, not something to read.
is_list() {
	case $1 in
	src/base/driver.def | tests/lint/entry-points.txt) ;;
	*) return 1 ;;
	esac
}

cd "$root" || exit 1
find bootstrap include src tools tests -type f \( -name bootstrap -o \
	-name '*.[chS]' -o -name '*.cu' -o -name '*.def' -o -name '*.py' -o \
	-name '*.sh' -o -name '*.txt' \) -print | sort > "$work/files"

# A row each for the driver's names: lists, not something to read.
# In C a body begins with a brace of its own, in the shell with "name() {".
xargs awk '
function over(what) { print FILENAME ":" FNR ": " what }
function width(line,	at, n) {
	for (; (at = index(line, "\t")) > 0; line = substr(line, at + 1))
		n += at + 7 - (n + at - 1) % 8
	return n + length(line)
}
FNR == 1 {
	list = FILENAME ~ /driver\.def$|entry-points\.txt$/
	from = spdx = 0
}
FNR <= 3 && /SPDX-License-Identifier: Apache-2.0/ { spdx = 1 }
FNR == 3 && !spdx { over("no SPDX line above") }
FNR == 501 && !list { over("a file of more than 500 lines") }
!list && width($0) > 80 { over("more than 80 columns") }
/^\{/ || /^[a-z_]+\(\) *[{(]$/ { from = FNR }
/^[})]/ {
	if (from && FNR - from > 61)
		over("the end of a function of more than 60 lines")
	from = 0
}' < "$work/files" > "$work/found" || fail "the files were not read"
fail_each "see HACKING, Form" < "$work/found"
[ "$(wc -l < "$work/files")" -gt 100 ] || fail "the files were not found"

finish
