#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# include/vsleep.h is clean in every dialect that it promises, and a program
# that uses it needs no library: without the preload nothing is present.
. "$(dirname "$0")/lib.sh"

warnings="-Wall -Wextra -Wpedantic -Werror -Wshadow"
tried=0

cat > "$work/use.c" <<'EOF'
#include <vsleep.h>
#include <vsleep.h>

static void told(void *arg)
{
	(void)arg;
}

int main(void)
{
	struct vsleep_reply reply;
	int bad = 0;

	reply.size = sizeof(reply);
	bad += vsleep_present() != 0;
	bad += vsleep_version()[0] != '\0';
	bad += vsleep_tag_push("kv") != VSLEEP_NOT_PRESENT;
	bad += vsleep_tag_pop() != VSLEEP_NOT_PRESENT;
	bad += vsleep_tag_set(NULL) != VSLEEP_NOT_PRESENT;
	bad += vsleep_tag_of(4096) != NULL;
	bad += vsleep_policy_get("kv") != VSLEEP_NOT_PRESENT;
	bad += vsleep_policy_set("kv", VSLEEP_KEEP) != VSLEEP_NOT_PRESENT;
	bad += vsleep_sleep(1, NULL, VSLEEP_HOLD, -1, &reply) !=
	       VSLEEP_NOT_PRESENT;
	bad += vsleep_wake("kv", 0, 0, NULL) != VSLEEP_NOT_PRESENT;
	bad += vsleep_pause(1, NULL) != VSLEEP_NOT_PRESENT;
	bad += vsleep_resume(NULL) != VSLEEP_NOT_PRESENT;
	bad += vsleep_status(&reply) != VSLEEP_NOT_PRESENT;
	bad += vsleep_callback_add(told, NULL, NULL) != VSLEEP_NOT_PRESENT;
	bad += vsleep_callback_remove(told, NULL, NULL) != VSLEEP_NOT_PRESENT;
	return bad;
}
EOF
cp "$work/use.c" "$work/use.cc"

# compile COMPILER STANDARD SOURCE [OPTION...]
compile() {
	command -v "$1" > /dev/null || return 0
	tried=$((tried + 1))
	# shellcheck disable=SC2086 # a list of options
	"$1" -std="$2" $warnings "${@:4}" -I"$root/include" -o "$work/use" \
		"$work/$3" -ldl > "$work/said" 2>&1 || {
		cat "$work/said" >&2
		fail "vsleep.h: $1 -std=$2 ${*:4}"
		return
	}
	LD_PRELOAD='' "$work/use" ||
		fail "$1 -std=$2 ${*:4}: $? wrong calls without the library"
}

for compiler in gcc clang; do
	for standard in c99 gnu99 c11 c17; do
		compile "$compiler" "$standard" use.c
	done
done
for compiler in g++ clang++; do
	for standard in c++11 c++17 c++20; do
		compile "$compiler" "$standard" use.cc
	done
done
[ "$tried" -gt 0 ] || fail "no compiler"

# Every function is called above.
for name in $(sed -n 's/^VSLEEP_FUNCTION([^,]*, *\(vsleep_[a-z_]*\),.*/\1/p' \
	"$root/include/vsleep.h"); do
	grep -q "$name(" "$work/use.c" || fail "$name is not tried here"
done

finish
