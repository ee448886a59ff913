#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tags sleep and wake apart.  The program is held until nothing sleeps any more,
# or until a wake says that it may run with the rest asleep; what then is
# allocated in a tag that sleeps gets memory that is awake.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

# states A B C: of the tags a, b and c
states() {
	equal "the tags" "$1 $2 $3" "$(of_tag a state) $(of_tag b state)\
 $(of_tag c state)"
}

export VSLEEP_TAGS=a=offload,b=offload,c=offload
puppet p VSLEEP_TAG=a
for tag in a b c; do
	ctl 0 tag "${PID[p]}" "$tag"
	ask p "alloc $tag $((2 * M))"
	ask p "fill $tag 1"
done

sleeps p --tags b
expect state partial holds asleep
states awake asleep awake
sleeps p --tags c,a
expect state asleep
states asleep asleep asleep
wakes p --tags a
expect state partial holds asleep
states awake asleep asleep
equal "backup of a" 0 "$(of_tag a backed-up-bytes)"
at_least "memory of a" $((2 * M)) "$(of_tag a resident-bytes)"

# held until the last one is awake
tell p "check all"
held p 1
wakes p --tags b
expect state partial holds asleep held-now 1
silent p
wakes p --tags c
expect state awake holds ''
answer p
equal "what was held" "ok bad=0" "$ANSWER"

# staged: the program works on a while b and c sleep
sleeps p
wakes p --tags a --no-hold
expect state partial holds ''
states awake asleep asleep
ask p "check a" "ok bad=0"
ask p "byte a 7"
ask p "count a 7" "ok bad=0"
ask p "fill a 1"
ctl 0 tag "${PID[p]}" c
ask p "alloc new $((3 * M))"
ask p "alloc small 3000"
ask p "fill new 5"
ask p "fill small 6"
ask p "check new" "ok bad=0"
status p
equal "the tag with both" partial "$(of_tag c state)"
expect state partial
wakes p
expect state awake
states awake awake awake
ask p "check all" "ok bad=0"

# --no-hold when nothing is left to wake
sleeps p --tags b
wakes p --tags a --no-hold
expect state partial holds ''
ask p "check a" "ok bad=0"
sleeps p
expect state asleep holds asleep
wakes p
ask p "check all" "ok bad=0"
leave p
