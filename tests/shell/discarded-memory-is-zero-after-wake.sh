#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Memory of a tag to discard is not copied and is zero after the wake, to its
# last byte, whatever other programs left on the device meanwhile.  Sleep, wake
# and status say which tags lost how much.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

export VSLEEP_SIM_SHARE=$WORK/share VSLEEP_SIM_MEMORY=64M
export VSLEEP_TAGS=kv=discard,weights=offload
sizes=(1 1000 70001 $((2 * M)) $((5 * M + 3)) $((17 * M + 5)))

puppet p VSLEEP_TAG=weights VSLEEP_RETAIN=no
ask p "alloc keep $((3 * M))"
ask p "fill keep 9"
ctl 0 tag "${PID[p]}" kv
for i in "${!sizes[@]}"; do
	ask p "alloc kv$i ${sizes[i]}"
	ask p "byte kv$i 165"
done
for _ in 1 2; do
	status p
	kv=$(of_tag kv resident-bytes)
	weights=$(of_tag weights resident-bytes)
	at_least "bytes of the tag" $((24 * M)) "$kv"
	sleeps p
	expect copied-bytes "$weights" backed-up-bytes "$weights" \
		lost-bytes "$kv"
	equal "lost of kv" "$kv" "$(of_tag kv lost-bytes)"
	equal "lost of weights" 0 "$(of_tag weights lost-bytes)"
	equal "kv" "asleep discard" "$(of_tag kv state) $(of_tag kv policy)"

	talk_plain other "$BUILDDIR/hold"
	ready other
	ask other "hog 2"
	ask other "byte 90"
	tell other quit
	answer other
	end other

	wakes p
	equal "lost of kv, said by wake" "$kv" "$(of_tag kv lost-bytes)"
	for i in "${!sizes[@]}"; do
		ask p "count kv$i 0" "ok bad=0"
		ask p "byte kv$i 165"
		ask p "count kv$i 165" "ok bad=0"
	done
	ask p "check keep" "ok bad=0"
done
# the next sleep of everything but kv loses nothing
sleeps p --tags weights
equal "kv is awake" awake "$(of_tag kv state)"
wakes p
ask p "count kv5 165" "ok bad=0"
leave p
