# SPDX-License-Identifier: Apache-2.0
# Sourced by the other scripts here: where things are, and what went wrong.

export LC_ALL=C
root=$(cd "$(dirname "$0")/../.." && pwd)
list=$root/tests/lint/entry-points.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
	echo "$(basename "$0"): $*" >&2
	: > "$work/failed"
}

finish() {
	[ ! -e "$work/failed" ]
	exit
}

# Complain about each line of standard input.
fail_each() {
	while read -r line; do
		fail "$line: $*"
	done
}

# "own NAME" or "gated NAME" for each row of hooks.def, twins included.
hook_rows() {
	printf '%s\n' \
		'#define VS_OWN(s) own s' \
		'#define VS_GATED(s, p, a) gated s' \
		'#define VS_OWN2(s, t) own s@own s##t' \
		'#define VS_GATED2(s, t, p, a) gated s@gated s##t' \
		'#include "intercept/hooks.def"' |
	${CC:-cc} -E -P -I"$root/src" -x c - | tr '@' '\n' |
	sed 's/^ *//; s/ *$//; s/  */ /g; /^$/d'
}
