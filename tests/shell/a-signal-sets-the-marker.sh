#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The signal of VSLEEP_MARK_SIGNAL sets the tag of what is allocated from then
# on: value n the n-th of VSLEEP_TAGS, 0 or no value none.  A number that names
# no tag is said and changes nothing.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

# mark NUMBER: by sigqueue; marked TAG: the status shows it
mark() { env kill -s $((SIGRTMIN + 5)) -q "$1" "${PID[p]}"; }
marked() { [[ $(now p marker) == "$1" ]]; }
failed_by() { [[ $(now p last-error) == *"$1"* ]]; }

SIGRTMIN=$(kill -l RTMIN)
env kill --help 2>&1 | grep -q -e -q || skip "no kill that sends a value"

puppet p VSLEEP_MARK_SIGNAL=RTMIN+5 VSLEEP_LOG="$WORK/p.log" \
	VSLEEP_TAGS=weights=offload,cache=discard
mark 2
within "the second tag" marked cache
ask p "alloc c $((3 * M))"
mark 1
within "the first tag" marked weights
ask p "alloc w $((5 * M))"
mark 3
within "an error" failed_by "marker 3: VSLEEP_TAGS has 2 tags"
equal "the marker" weights "$(now p marker)"
equal "lines about it" 1 "$(grep -c 'warning: marker 3: ' "$WORK/p.log")"
mark 0
within "no tag" marked ''
ask p "alloc d $M"
mark 1
within "the first tag" marked weights
kill -s RTMIN+5 "${PID[p]}"
within "no tag" marked ''
status p
equal "bytes of cache" $((3 * M)) "$(of_tag cache live-bytes)"
equal "bytes of weights" $((5 * M)) "$(of_tag weights live-bytes)"
kill -s USR1 "${PID[p]}"
within "a sleep" is p state asleep
kill -s USR2 "${PID[p]}"
within "the wake" is p state awake
leave p

# it is only taken where the setting says so
puppet q
kill -s RTMIN+5 "${PID[q]}"
end q $((128 + $(kill -l RTMIN+5)))
