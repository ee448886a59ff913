#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Replies have every field, as lines and as JSON alike, and their figures are
# the driver's.  What cannot be done for a process is said by message and exit
# status, for several processes by the worst one, and no process is harmed.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

# ---- fields and figures ----------------------------------------------------

keys() { cut -d= -f1 <<<"$OUT" | tr '\n' ' '; }
tag_keys() { grep "^tag=$1 " <<<"$OUT" | sed 's/=[^ ]*//g'; }
always="status state sequence allocations live-bytes resident-bytes \
evicted-bytes backed-up-bytes host-bytes retained-bytes spilled-bytes \
unmanaged-bytes released-bytes restored-bytes kept-bytes copied-bytes \
unchanged-bytes zero-bytes pageable-bytes lost-bytes seconds drain-seconds \
gib-per-second held-calls held-now holds prepare paused unhooked marker pid \
name version tag tag tag device "
of_each_tag="tag policy state allocations live-bytes resident-bytes \
evicted-bytes backed-up-bytes lost-bytes"
of_each_device="device uuid bus vmm contexts resident-bytes evicted-bytes"

# whole VERB: every field is in OUT, and what must agree agrees
whole() {
	local key sum
	case $1 in
	status) equal "keys" "${always/gib-per-second /}used " "$(keys)" ;;
	sleep)
		equal "keys" "${always/kept-bytes/kept-bytes kept kept-why}" \
			"$(keys)"
		;;
	wake) equal "keys" "$always" "$(keys)" ;;
	esac
	if [[ $1 != status ]]; then
		matches "seconds" "+([0-9]).[0-9][0-9][0-9]" "$(value seconds)"
		matches "gib-per-second" "+([0-9]).[0-9]" \
			"$(value gib-per-second)"
	fi
	equal "keys of a tag" "$of_each_tag" "$(tag_keys k)"
	equal "keys of a device" "$of_each_device" \
		"$(grep ^device= <<<"$OUT" | sed 's/=[^ ]*//g')"
	equal "resident on the device" "$(value resident-bytes)" \
		"$(word resident-bytes "$(grep ^device= <<<"$OUT")")"
	for key in allocations live-bytes resident-bytes evicted-bytes \
		backed-up-bytes; do
		sum=$(grep ^tag= <<<"$OUT" | sed "s/.* $key=\([0-9]*\).*/\1/" |
			paste -sd+)
		equal "$key of all tags" "$(value $key)" $((sum))
	done
	expect status ok pid "${PID[p]}" name puppet marker '' unhooked 0 \
		version "$("$VSLEEPCTL" --version | sed 's/.* //')"
	equal "resident" "$(device p)" "$(value resident-bytes)"
}

puppet p VSLEEP_TAGS=k=discard,z=keep VSLEEP_RETAIN=no
for tag in k z; do
	ctl 0 tag "${PID[p]}" $tag
	ask p "alloc $tag $((5 * M))"
	ask p "fill $tag 1"
done
ctl 0 tag --clear "${PID[p]}"
ask p "alloc a $((21 * M + 12))"
ask p "fill a 2"
all=$(device p)
live=$((31 * M + 12 + 8))
status p
whole status
expect state awake sequence 0 allocations 4 live-bytes $live \
	evicted-bytes 0 backed-up-bytes 0 released-bytes 0 restored-bytes 0 \
	kept-bytes 0 copied-bytes 0 lost-bytes 0 holds ''
kept=$(of_tag z resident-bytes) dropped=$(of_tag k resident-bytes)

for n in 1 2; do
	sleeps p
	whole sleep
	expect state asleep sequence $((2 * n - 1)) live-bytes $live \
		evicted-bytes $((all - kept)) \
		backed-up-bytes $((all - kept - dropped)) \
		released-bytes $((all - kept)) restored-bytes 0 \
		kept-bytes "$kept" copied-bytes $((all - kept - dropped)) \
		pageable-bytes 0 lost-bytes "$dropped" holds asleep
	matches "what was kept and why" "$kept *" "$(value kept)"
	equal "lost of k" "$dropped" "$(of_tag k lost-bytes)"
	equal "states" "asleep asleep" \
		"$(of_tag k state) $(of_tag default state)"
	told=$OUT
	tell p "check a"
	held p 1
	status p
	expect held-calls "$n"
	equal "the state in status" "$(grep ^state= <<<"$told")" \
		"$(grep ^state= <<<"$OUT")"
	wakes p
	answer p
	equal "what was held" "ok bad=0" "$ANSWER"
	whole wake
	expect state awake sequence $((2 * n)) evicted-bytes 0 \
		backed-up-bytes 0 released-bytes 0 \
		restored-bytes $((all - kept)) \
		copied-bytes $((all - kept - dropped)) holds ''
	equal "lost of k" "$dropped" "$(of_tag k lost-bytes)"
	ask p "fill k 1"
done

# ---- what would happen, and the settings -----------------------------------

before=$(now p sequence)
ctl 0 sleep --dry-run "${PID[p]}"
expect status ok state awake sequence "$before" holds '' obstacle '' \
	would-release-bytes $((all - kept)) would-keep-bytes "$kept" \
	host-needed-bytes $((all - kept - dropped))
at_least "host memory" $((all - kept - dropped)) "$(value host-available-bytes)"
ctl 0 sleep --dry-run --tags k "${PID[p]}"
expect would-release-bytes "$dropped" host-needed-bytes 0
ctl 1 sleep --dry-run --tags no "${PID[p]}"
matches "a refusal" '*refused: unknown tag "no"' "$ERR"
ask p begin
ctl 0 sleep --dry-run "${PID[p]}"
matches "what is in the way" "*captur*" "$(value obstacle)"
ask p end
equal "sequence" "$before" "$(now p sequence)"
ctl 0 config "${PID[p]}"
expect status ok pid "${PID[p]}"
matches "a setting" "*setting=VSLEEP_TAGS source=environment\
 value=k=discard,z=keep
*" "$OUT"
matches "another one" "*setting=VSLEEP_TIMEOUT source=default value=10
*" "$OUT"

# ---- the same as JSON ------------------------------------------------------

# json: OUT is valid JSON; the same lines of key=value as without
json() {
	python3 -c '
import json, sys
answer = json.load(sys.stdin)
tags = answer.pop("tags")
devices = answer.pop("devices")
kept = answer.pop("kept", [])
used = answer.pop("used", None)
for key, value in answer.items():
    if key.endswith("seconds"):
        value = "%.3f" % value
    print("%s=%s" % (key, value))
    if key == "kept-bytes":
        for line in kept:
            print("kept=%d %s" % (line["bytes"], line["why"]))
for item in tags + devices:
    print(" ".join("%s=%s" % pair for pair in item.items()))
if used:
    print("used=%s" % used)
'
}
if command -v python3 >/dev/null; then
	ctl 0 status --plain "${PID[p]}"
	plain=$OUT
	ctl 0 status --json "${PID[p]}"
	python3 -m json.tool >/dev/null <<<"$OUT" || fail "not JSON: $OUT"
	equal "the answer as JSON" "$plain" "$(json <<<"$OUT")"
	matches "numbers are numbers" '*"pid": '"${PID[p]},*" "$OUT"
	sleeps p --json
	equal "the sleep as JSON" "state=asleep sequence=5" \
		"$(json <<<"$OUT" | grep -e ^state -e ^sequence | paste -sd' ')"
	wakes p --json
	json <<<"$OUT" >/dev/null || fail "not JSON: $OUT"
	ctl 0 list --json
	python3 -m json.tool >/dev/null <<<"$OUT" || fail "not JSON: $OUT"
	ask p begin
	ctl 0 sleep --dry-run --json "${PID[p]}"
	ask p end
	equal "obstacles" True "$(python3 -c 'import json, sys
print(["captur" in text for text in json.load(sys.stdin)["obstacles"]][0])' \
		<<<"$OUT")"
	ctl 0 config --json "${PID[p]}"
	equal "settings as JSON" "environment k=discard,z=keep" \
		"$(python3 -c 'import json, sys
for row in json.load(sys.stdin)["settings"]:
    if row["setting"] == "VSLEEP_TAGS":
        print(row["source"], row["value"])' <<<"$OUT")"
	ctl 1 sleep --json --tags no "${PID[p]}"
	json <<<"$OUT" | grep -x 'message=unknown tag "no"' >/dev/null ||
		fail "$OUT"
	ctl 6 status --json $$
	python3 -m json.tool >/dev/null <<<"$OUT" || fail "not JSON: $OUT"
else
	echo "not tried: JSON, for want of python3"
fi

# ---- processes -------------------------------------------------------------

# a thread's number means its process
threads=("/proc/${PID[p]}/task"/*)
thread=${threads[-1]##*/}
[[ $thread != "${PID[p]}" ]] || fail "it has no other thread"
ctl 0 status "$thread"
expect pid "${PID[p]}"
matches "what it says of a thread" "*$thread is a thread of process\
 ${PID[p]}" "$ERR"

# those that have no vsleep are told apart from what is no process
sleep 1000 &
PID[idle]=$!
( : ) &
dead=$!
wait $dead
for verb in status config sleep wake pause resume cancel; do
	for pid in 1 $$ "${PID[idle]}"; do
		ctl 6 $verb "$pid"
		matches "$verb $pid" "vsleepctl: no vsleep in process $pid: *" \
			"$ERR"
		equal "stdout of $verb $pid" '' "$OUT"
	done
	ctl 6 $verb $dead
	matches "$verb of a dead process" "*$dead: there is no such process" \
		"$ERR"
	for pid in 0 -1 abc 1x 99999999999 ''; do
		ctl 2 $verb -- "$pid"
		equal "$verb $pid" "vsleepctl: \"$pid\" is not the PID of a\
 process; see vsleepctl --help" "$ERR"
	done
	ctl 2 $verb
	matches "$verb without a process" "*no process is named*" "$ERR"
	# nothing is done when one of them is no number
	ctl 2 $verb "${PID[p]}" abc
	status p
	expect state awake
done
kill -0 "${PID[idle]}" || fail "a process was harmed"

# several: each is done, the worst counts
puppet q VSLEEP_TAG=
ask q "alloc a $M"
before=$(now p sequence)
ctl 5 sleep "${PID[p]}" "${PID[q]}"
equal "pids in the answer" "${PID[p]} ${PID[q]}" \
	"$(sed -n s/^pid=//p <<<"$OUT" | paste -sd' ')"
equal "states" "asleep asleep" "$(now p state) $(now q state)"
ctl 6 wake "${PID[q]}" "${PID[idle]}" "${PID[p]}"
equal "states" "awake awake" "$(now p state) $(now q state)"
equal "sequence" $((before + 2)) "$(now p sequence)"
ctl 0 status "${PID[p]}" "${PID[q]}"
ctl 6 status "${PID[q]}" $dead
ask p "check a" "ok bad=0"

# ---- wait and list ---------------------------------------------------------

ctl 0 wait "${PID[p]}"
ctl 0 wait --state awake --timeout 5 "${PID[p]}"
ctl 3 wait --state asleep --timeout 0.1 "${PID[p]}"
matches "what wait says" "*busy: still awake" "$ERR"
ctl 0 wait --state asleep --timeout "$PATIENCE" "${PID[p]}" &
waiter=$!
sleeps p --tags k
kill -0 $waiter || fail "wait ended while only one tag slept"
sleeps p
wait $waiter || exit 1
wakes p
ctl 6 wait --timeout 0.1 $$
ctl 2 wait --state dozing "${PID[p]}"
matches "wait --state dozing" "*awake, asleep or partial*" "$ERR"
ctl 2 wait --timeout 0 "${PID[p]}"

ctl 0 list
equal "processes" "$(printf '%s\n' "${PID[p]}" "${PID[q]}" | sort -n |
	paste -sd' ')" \
	"$(grep -o '^pid=[0-9]*' <<<"$OUT" | sort -t= -nk2 | cut -d= -f2 |
		paste -sd' ')"
matches "a line of the list" "*pid=${PID[p]} state=awake\
 resident-bytes=$(device p) evicted-bytes=0 paused=no name=puppet*" "$OUT"
kill -KILL "${PID[q]}"
end q 137
touch "$VSLEEP_DIR/other"
files() { (cd "$VSLEEP_DIR" && echo *); }
matches "files before" "*.sock *.sock other" "$(files)"
ctl 0 list
equal "lines" 1 "$(wc -l <<<"$OUT")"
equal "files that stay" "$(sock "${PID[p]}") other" "$(files)"

# ---- the command line ------------------------------------------------------

ctl 0 --version
matches "--version" "vsleepctl [0-9]*.[0-9]*" "$OUT"
ctl 0 --help
for verb in run list status config sleep wake pause resume cancel tag wait; do
	grep -q "^  $verb " <<<"$OUT" || fail "--help does not name $verb"
	"$VSLEEPCTL" $verb --help | grep -q "^usage: vsleepctl $verb" ||
		fail "no help for $verb"
done
equal "stderr of --help" '' "$ERR"
ctl 2 slumber
matches "an unknown verb" '*there is no verb "slumber"*' "$ERR"
equal "stdout" '' "$OUT"
ctl 2 --gently
for verb in run list status config sleep wake pause resume cancel tag wait; do
	ctl 2 $verb --gently
	matches "$verb --gently" "*--gently*" "$ERR"
done
for wrong in "--level 3" "--timeout 0" "--timeout soon" "--wait -1"; do
	# shellcheck disable=SC2086 # two words
	ctl 2 sleep $wrong "${PID[p]}"
	matches "sleep $wrong" "*${wrong% *}*" "$ERR"
done
status p
expect state awake sequence $((before + 5))
leave p
