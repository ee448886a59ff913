#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Memory that is freed while it sleeps takes its backup along at once, touches
# no handle that has gone back already, and leaves the rest as it was.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

export VSLEEP_TAGS=scratch=discard
puppet p
for block in a b c; do
	ask p "alloc $block $((17 * M))"
	ask p "fill $block 4"
done
for block in x y z; do
	ask p "alloc $block 3000"
	ask p "fill $block 5"
done
ctl 0 tag "${PID[p]}" scratch
ask p "alloc d $((17 * M))"
ask p "fill d 6"

sleeps p
backed_up=$(value backed-up-bytes)
live=$(value live-bytes)
at_least "backed up" $((51 * M)) "$backed_up"
for block in b d y; do
	ask p "free $block"
done
status p
expect state asleep live-bytes $((live - 34 * M - 3000)) resident-bytes 0
at_most "backed up after the frees" $((backed_up - 17 * M)) \
	"$(value backed-up-bytes)"
equal "the discarded tag" 0 "$(of_tag scratch live-bytes)"
equal "its memory" 0 "$(of_tag scratch evicted-bytes)"
wakes p
for block in a c x z; do
	ask p "check $block" "ok bad=0"
done

# what sleeps and is freed does not come back, new memory is as good as any
sleeps p
ask p "free all"
status p
expect state asleep live-bytes 0 allocations 0 evicted-bytes 0 \
	backed-up-bytes 0
wakes p
expect state awake restored-bytes 0
tell p "leave return"
end p
clean p

# to the end without a wake
puppet q
ask q "alloc a $((17 * M))"
ask q "alloc b 5000"
sleeps q
ask q "free all"
tell q "leave return"
end q
clean q
