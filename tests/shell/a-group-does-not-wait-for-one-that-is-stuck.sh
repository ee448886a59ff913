#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One of a group that never answers whether it is at rest does not keep the
# others held: when the time is over they run on, and it is named.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

command -v python3 >/dev/null || skip "needs Python"
puppet p
ask p "alloc a $M"
ask p "work a"
talk_plain mute python3 "$SRCDIR/programs/other.py" mute \
	"$VSLEEP_DIR/$(sock %d)"
answer mute
equal "the start" ready "$ANSWER"
from=$SECONDS
ctl 3 sleep --timeout 1 "${PID[p]}" "${PID[mute]}"
at_most "seconds that it took" 15 $((SECONDS - from))
matches "what is said" "*process ${PID[mute]}: busy: no answer in time*" "$ERR"
matches "what is said" "*process ${PID[p]}: runs on*" "$ERR"
within "the end of its holds" is p holds ''
n=$(number_in p count)
within "progress of p" past p count $((n + 1))
kill "${PID[mute]}"
end mute 143
ask p rest "ok rounds=+([0-9]) bad=0"
leave p
