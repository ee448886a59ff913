#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What a process uses by the driver's own count is, to the byte, what a sleep
# released, what it kept, what is unmanaged, and a rest that the context has;
# also while another process allocates and frees.  Where the driver does not
# know the process that is said once and nothing fails.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"
export VSLEEP_SIM_SHARE=$WORK/share VSLEEP_SIM_CONTEXT=64M

# on_device: the unmanaged bytes of OUT that are on the device for sure
on_device() {
	local all managed
	all=$(value unmanaged-bytes)
	managed=$(value unmanaged-managed-bytes)
	echo $((all - ${managed:-0}))
}

puppet p VSLEEP_TAGS=mine=keep
puppet other
ask p "alloc plain $((24 * M))"
ask p "alloc small 5000"
ctl 0 tag "${PID[p]}" mine
ask p "alloc kept $((8 * M))"
ctl 0 tag --clear "${PID[p]}"
ask p "vmm v $((4 * M))"
ask p "managed m $((3 * M))"
ask p "shared q $((2 * M))"
ask p "array a $((2 * M))"
for block in plain small kept v m q; do
	ask p "fill $block 7"
done

status p
used=$(value used-bytes) rest=$(value rest-bytes)
equal "what the driver counts" "$(device p)" "$used"
equal "its parts" "$used" \
	$(($(value resident-bytes) + $(on_device) + rest))
at_least "the rest" $((64 * M)) "$rest"
at_most "the rest" $((68 * M)) "$rest"
line=$(grep '^device=0 ' <<<"$OUT")
equal "used on the device" "$used" "$(word used-bytes "$line")"

# the other one is never at rest meanwhile
while :; do
	tell other "alloc x $((16 * M))"
	tell other "free x"
done 2>/dev/null &
PID[teller]=$!
answer other
sleeps p
released=$(value released-bytes) kept=$(value kept-bytes)
at_least "released" $((28 * M)) "$released"
equal "kept" $((8 * M)) "$kept"
answer other
kill "${PID[teller]}"
wait "${PID[teller]}" 2>/dev/null
unset "PID[teller]"

status p
equal "used after the sleep" $((used - released)) "$(value used-bytes)"
equal "the rest after the sleep" "$rest" "$(value rest-bytes)"
equal "released, kept, unmanaged and the rest" "$used" \
	$((released + kept + $(on_device) + $(value rest-bytes)))
ctl 0 status --json "${PID[p]}"
matches "as JSON" "*\"used-bytes\": $((used - released)),*" "$OUT"
matches "as JSON" "*\"rest-bytes\": $rest,*" "$OUT"
wakes p
ask p "check all" "ok bad=0"
equal "used after the wake" "$used" "$(now p used-bytes)"
leave p

# the driver's count of a process that it does not know
unset VSLEEP_SIM_SHARE
puppet n VSLEEP_SIM_SHARE=
status n
expect status ok used unknown used-bytes '' rest-bytes ''
equal "how often that is said" 1 "$(grep -c unknown <<<"$OUT")"
equal "what else it says" '' "$ERR"
leave n
