#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A block carries the tag that was current when it was made: the one set by
# vsleepctl tag, else that of VSLEEP_TAG, else "default".  VSLEEP_TAGS gives
# tags their policies, and names them before they have a byte.  `vsleepctl run`
# sets both.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

# tags: "NAME POLICY ALLOCATIONS BYTES;" of each, as status has them
tags() {
	local line
	status "$1"
	grep '^tag=' <<<"$OUT" | while read -r line; do
		echo -n "$(word tag "$line") $(word policy "$line")" \
			"$(word allocations "$line")" \
			"$(word live-bytes "$line");"
	done
}

puppet p
equal "without settings" "default offload 1 8;" "$(tags p)"
ctl 0 tag "${PID[p]}" kv-1.x_Y
expect marker kv-1.x_Y status ok
ask p "alloc a 1000"
ask p "alloc b 2000"
ctl 0 tag --clear "${PID[p]}"
expect marker ''
ask p "alloc c 4000"
equal "with a marker" "default offload 2 4008;kv-1.x_Y offload 2 3000;" \
	"$(tags p)"
ask p "free a"
equal "after a free" "default offload 2 4008;kv-1.x_Y offload 1 2000;" \
	"$(tags p)"
leave p

puppet p VSLEEP_TAG=weights VSLEEP_TAGS=kv=discard,tmp=keep,weights=offload
equal "with settings" "kv discard 0 0;tmp keep 0 0;weights offload 1 8;" \
	"$(tags p)"
ctl 0 tag "${PID[p]}" kv
ask p "alloc a 1000"
ctl 0 tag "${PID[p]}" tmp
ask p "alloc b 2000"
ctl 0 tag --clear "${PID[p]}"
ask p "alloc c 4000"
equal "with settings and a marker" \
	"kv discard 1 1000;tmp keep 1 2000;weights offload 2 4008;" "$(tags p)"
# tags share no memory: each can sleep alone
for tag in weights kv; do
	sleeps p --tags "$tag"
	equal "$tag" 0 "$(of_tag "$tag" resident-bytes)"
	equal "$tag" asleep "$(of_tag "$tag" state)"
	at_least "tmp" 2000 "$(of_tag tmp resident-bytes)"
	wakes p --tags "$tag"
done
sleeps p
expect state asleep
at_least "tmp, which stays" 2000 "$(of_tag tmp resident-bytes)"
equal "tmp, which stays" 0 "$(of_tag tmp evicted-bytes)"
wakes p
leave p

talk_plain p VSLEEP_LIBRARY="$LIBVSLEEP" "$VSLEEPCTL" run --tag w \
	--tags k=discard "$BUILDDIR/puppet"
ready p
equal "by vsleepctl run" "k discard 0 0;w offload 1 8;" "$(tags p)"
leave p
