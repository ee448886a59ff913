#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A sleep of level 2 is refused unless someone has said what may be dropped, and
# then nothing changes.  It drops all but the tags to keep; zeros come back.  A
# sleep of level 1 can be deepened, the other way round it is refused.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

# block NAME: it and its tag of that name
block() {
	ctl 0 tag "${PID[p]}" "$1"
	ask p "alloc $1 $((2 * M + 77))"
	ask p "fill $1 3"
}

# zeroed NAME, whole NAME
zeroed() {
	ask p "count $1 0" "ok bad=0"
	ask p "fill $1 3"
}
whole() { ask p "check $1" "ok bad=0"; }

puppet p
block a
block b
status p
sequence=$(value sequence)
ctl 1 sleep --level 2 "${PID[p]}"
matches "the reason" "*refused: level 2*" "$ERR"
status p
expect state awake sequence "$sequence" evicted-bytes 0 holds ''
whole a
ctl 2 sleep --level 3 "${PID[p]}"
equal "the state" awake "$(now p state)"

sleeps p --level 2 --discard-all
expect state asleep copied-bytes 0 backed-up-bytes 0 resident-bytes 0
at_least "lost" $((2 * M + 77)) "$(of_tag a lost-bytes)"
wakes p
zeroed a
zeroed b

sleeps p --level 2 --tags a
expect state partial
wakes p
zeroed a
whole b

# deeper
sleeps p
at_least "backed up at level 1" $((4 * M)) "$(value backed-up-bytes)"
before=$(of_tag a evicted-bytes)
sleeps p --level 2 --tags a
equal "evicted" "$before" "$(of_tag a evicted-bytes)"
equal "backup of a" 0 "$(of_tag a backed-up-bytes)"
at_least "backup of b" $((2 * M)) "$(of_tag b backed-up-bytes)"
at_least "lost of a" $((2 * M)) "$(of_tag a lost-bytes)"

# not back
sequence=$(now p sequence)
ctl 1 sleep "${PID[p]}"
matches "the reason" "*refused: tag a sleeps at level 2*" "$ERR"
ctl 1 sleep --tags a,b "${PID[p]}"
status p
expect state asleep sequence "$sequence"
at_least "backup of b" $((2 * M)) "$(of_tag b backed-up-bytes)"
# the same again is no work
sleeps p --level 2 --tags a
expect sequence "$sequence"
wakes p
zeroed a
whole b
leave p

# policies are consent; keep stays
puppet p VSLEEP_TAGS=k=keep,o=offload
block k
block o
sleeps p --level 2
expect status ok backed-up-bytes 0 kept-why "policy keep"
equal "the tag to keep" "$(of_tag k resident-bytes)" "$(value kept-bytes)"
at_least "of that" $((2 * M)) "$(value kept-bytes)"
equal "lost of it" 0 "$(of_tag k lost-bytes)"
wakes p
whole k
zeroed o
leave p
