#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A CUDA IPC handle is 64 bytes from somebody, and its owner a process that may
# answer anything: who opens it gets an error and goes on.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

command -v python3 >/dev/null || skip "no python3"

lender a
lender b
ask a "alloc big $((5 * M))"
ask a "fill big 1"
big=$(asked handle a "handle big")

# each byte of a true handle changed: magic, key, and who and what it is of
bad=0
for ((i = 0; i < 64; i++)); do
	byte=$((0x${big:2*i:2} ^ (i % 2 ? 0x80 : 1)))
	printf -v spoilt '%s%02x%s' "${big:0:2*i}" $byte "${big:2*i+2}"
	tell b "open x $spoilt 8"
	answer b
	case $ANSWER in
	# who it is of is known by the key, and 4 bytes mean nothing
	ok*) ask b "close x" && bad=$((bad + 1)) ;;
	"error 1"*) ;;
	*) fail "byte $i: $ANSWER" ;;
	esac
done
at_most "spoilt handles that open" 16 $bad

talk_plain liar python3 "$SRCDIR/programs/liar.py" "$VSLEEP_DIR"
answer liar
lie=$(word handle "$ANSWER")
count=$(word answers "$ANSWER")
ask b "open big $big $((5 * M))"
files=$(asked files b open-files)
for ((i = 0; i < count; i++)); do
	ask liar $i
	ask b "open x $lie 8" "error [12]*"
done
equal "open files" "$files" "$(asked files b open-files)"
kill -KILL "${PID[liar]}"
end liar 137
ask b "open x $lie 8" "error 1*"
ask b "check big 1" "ok bad=0"
ask b "close big"
for name in b a; do
	leave $name
done
