#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The first driver call of a thread that has no current context gives what it
# gives without vsleep, whatever call it is, before, between and after sleeps;
# the threads' contexts stay what they were.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

large=$((3 * M + 7))
calls=(
	"alloc n 100" "alloc n $large" "alloc n 0" "byte a 1" "count a 1"
	"free f" "range a" "type a" "context a" "type s" "sync" "info"
	"handle device $((2 * M))" "handle host $((2 * M))"
	"handle device 12345" "current" "use" "primary" "release" "use 1"
)

# all NAME: each as a thread's first call, in SAID
all() {
	local call
	ask "$1" "alloc f $large"
	for call in "${calls[@]}"; do
		tell "$1" "fresh $call"
		answer "$1"
		SAID+="$call: $ANSWER"$'\n'
		ask "$1" current "ok context=primary"
	done
}

# begin COMMAND NAME
begin() {
	"$1" "$2" "$BUILDDIR/contexts"
	ready "$2"
	SAID=
	# nothing has a context yet
	for call in "alloc n 100" "handle device $((2 * M))" info sync \
		current; do
		tell "$2" "fresh $call"
		answer "$2"
		SAID+="$call: $ANSWER"$'\n'
	done
	ask "$2" "create 1"
	ask "$2" primary
	ask "$2" "alloc a $large"
	ask "$2" "byte a 1"
	ask "$2" "alloc s 100"
	ask "$2" "byte s 2"
}

# finish NAME: a thread frees what another has made
finish() {
	local call
	for call in "use" "free a" "primary" "count s 2" "free s" \
		"destroy 1"; do
		tell "$1" "$call"
		answer "$1"
		SAID+="$call: $ANSWER"$'\n'
	done
}

begin talk_plain plain
for n in 1 2 3; do
	all plain
done
finish plain
plain=$SAID
tell plain leave
end plain

begin talk p
all p
sleeps p
wakes p
all p
ask p "count a 1" "ok bad=0"
ask p "count s 2" "ok bad=0"
sleeps p --tags default
wakes p
all p
finish p
equal "the driver's answers" "$plain" "$SAID"
status p
expect allocations 0 live-bytes 0 unmanaged-bytes 0
sleeps p
wakes p
tell p leave
end p
for key in invalid-calls live-handles live-mappings live-reservations \
	registered contexts; do
	equal "$key at the end" "$(ledger plain $key)" "$(ledger p $key)"
done
# queries are answered with the help of a byte from the driver
at_most "allocations at the end" 1 "$(ledger p live-allocations)"
equal "what it says" '' "$(<"$WORK/p.err")"
