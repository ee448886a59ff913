#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A call at the gate costs at most 60 instructions more than without vsleep, for
# a launch and for a copy.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

command -v valgrind >/dev/null || skip "no valgrind"
! grep -qE '__(asan|tsan|ubsan)_' "$LIBVSLEEP" ||
	skip "the sanitizers' instructions would be counted"

# instructions PRELOAD CALL NUMBER: of that many calls alone
instructions() {
	env ${1:+LD_PRELOAD="$1"} valgrind --tool=callgrind \
		--callgrind-out-file=/dev/null --collect-atstart=no \
		--toggle-collect=measured "$BUILDDIR/launches" "$2" "$3" \
		>"$WORK/calls.text" 2>"$WORK/calls.err" ||
		fail "$3 times $2 under valgrind"
	sed -n 's/.*Collected : \([0-9]*\)$/\1/p' "$WORK/calls.err"
}

# hundredths PRELOAD CALL: of an instruction, by one call
hundredths() {
	local once twice
	once=$(instructions "$1" "$2" 2048)
	twice=$(instructions "$1" "$2" 4096)
	at_least "instructions of 2048 times $2" 2048 "$once"
	echo $(((twice - once) * 100 / 2048))
}

for call in launch copy; do
	plain=$(hundredths '' $call) || fail "$plain"
	gated=$(hundredths "$LIBVSLEEP" $call) || fail "$gated"
	more=$((gated - plain))
	echo "$call: $more hundredths of an instruction more than $plain"
	at_most "hundredths of an instruction for a $call" 6000 $more
	# less than that and it was not at the gate
	at_least "hundredths of an instruction for a $call" 500 $more
done
