#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A dry run says what the same sleep would do, to the byte, and what stands in
# its way right now, and the program runs on as if nobody had asked: nothing is
# held, waited for, copied or released, and a capture stays whole.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

# foretold STATUS ARGUMENT...: of a dry run on p
foretold() { ctl "$1" sleep --plain --dry-run "${@:2}" "${PID[p]}"; }
# ledger_of NAME: what must not change; the number of calls grows by itself
ledger_of() {
	status "$1"
	grep -v '^held-' <<<"$OUT"
}
# true_for ARGUMENT...: the sleep does what its dry run says; awake after it
true_for() {
	local before foretold key
	before=$(ledger_of p)
	foretold 0 "$@"
	foretold=$OUT
	equal "obstacles" '' "$(grep ^obstacle= <<<"$OUT")"
	equal "the ledger after sleep --dry-run $*" "$before" "$(ledger_of p)"
	equal "bytes on the device" "$used" "$(device p)"
	sleeps p "$@"
	for key in would-release:released would-keep:kept host-needed:copied; do
		equal "$key of sleep $*" "$(sed -n "s/^${key%:*}-bytes=//p" \
			<<<"$foretold")" "$(value "${key#*:}-bytes")"
	done
	wakes p
}

puppet p VSLEEP_TAGS=kv=discard,scratch=keep
for tag in weights kv scratch; do
	ctl 0 tag "${PID[p]}" $tag
	ask p "alloc $tag-small 70000"
	ask p "alloc $tag-large $((17 * M + 5))"
	ask p "alloc $tag-gone $((3 * M))"
	ask p "free $tag-gone"
done
ask p "fill weights-large 3"
sleeps p
wakes p
used=$(device p)
true_for
true_for --tags weights
true_for --tags kv,scratch
true_for --level 2 --tags kv
true_for --level 2
ask p "fill weights-large 3"

# it works on, and the dry run does not hold it
ask p "alloc w $M"
ask p "work w"
within "progress" past p count 2
calls=$(now p held-calls)
for n in {1..20}; do
	foretold 0
done
equal "calls that were held" "$calls" "$(now p held-calls)"
within "progress" past p count $(($(number_in p count) + 2))
ask p rest "ok rounds=* bad=0"

# what stands in the way, and a sleep would wait for
lower p
ask p hang
foretold 0
matches "queued work" '*obstacle=device 0 has queued work*' "$OUT"
expect state awake holds ''
raise p
ask p sync
ask p begin
ask p "add w 1"
foretold 0
matches "a capture" '*obstacle=*captur*' "$OUT"
ask p end
ask p "fill w 5"
ask p launch
ask p sync
foretold 0
equal "obstacles" '' "$(grep ^obstacle= <<<"$OUT")"

# what a sleep would be refused for
puppet q VSLEEP_HOST_LIMIT=$M
ask q "alloc a $((5 * M))"
before=$(ledger_of q)
ctl 1 sleep --plain --dry-run --level 2 "${PID[q]}"
matches "the reason" '*level 2 drops the content*' "$OUT$ERR"
ctl 1 sleep --plain --dry-run "${PID[q]}"
matches "the reason" '*host memory: need * MiB, may take 1 MiB*' "$OUT$ERR"
equal "the ledger of q" "$before" "$(ledger_of q)"
ask p "check weights-large" "ok bad=0"
leave p
ask q "free all"
leave q
