#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# After an error that ends the context a sleep is refused, the CUDA error is
# named in the reply and in status, and the program goes on and ends as it would
# without vsleep.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

# after NAME: what the driver says from then on; SAID
after() {
	local command
	SAID=
	for command in sync "peek a" "byte a 1" "add a 1" "alloc b 4096" \
		"alloc c $((3 * M))" "free a" info begin; do
		tell "$1" "$command"
		answer "$1"
		SAID+="$command: ${ANSWER%% free=*}; "
	done
}

# begin COMMAND NAME
begin() {
	"$1" "$2" "$BUILDDIR/puppet"
	ready "$2"
	ask "$2" "alloc a $((3 * M))"
	ask "$2" "fill a 1"
}

begin talk_plain plain
ask plain fault "error 700"
after plain
plain=$SAID
matches "plain" "sync: error 700; peek a: error 700; *" "$plain"
tell plain "leave exit"
end plain 4

begin talk p
sleeps p
wakes p
ask p "check a" "ok bad=0"
ask p fault "error 700"
for n in 1 2; do
	ctl 1 sleep "${PID[p]}"
	matches "the message" "*: @(cuda-error|failed): *lost: an illegal\
 memory access was encountered (700)" "$ERR"
	status p
	matches "last-error" "*illegal memory access* (700)" \
		"$(value last-error)"
	matches "the state" "@(awake|failed)" "$(value state)"
	expect sequence 2 evicted-bytes 0 backed-up-bytes 0 holds '' held-now 0
done
kill -s USR1 "${PID[p]}"
after p
equal "the driver's answers" "$plain" "$SAID"
ctl 1 sleep "${PID[p]}"
status p
expect sequence 2 evicted-bytes 0 holds '' held-now 0
pid=${PID[p]}
tell p "leave exit"
end p 4
[[ ! -e $VSLEEP_DIR/$(sock "$pid") ]] || fail "a socket is left"
equal "what it says" '' "$(<"$WORK/p.err")"

# the next one is not touched by it
begin talk q
sleeps q
wakes q
ask q "check a" "ok bad=0"
leave q
