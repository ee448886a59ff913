#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A client that is killed while its sleep or wake goes on takes nothing with it:
# the operation ends, status is answered at once all along, the bytes are right.
# Nor does one that asks half a question, or fifty that ask at once.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

# prompt: status does not wait for the operation; fills OUT
prompt() {
	local begin=${EPOCHREALTIME/./}
	status p
	at_most "microseconds for status" 5000000 \
		$((${EPOCHREALTIME/./} - begin))
}

# kill_client VERB MILLISECONDS: after so long, or once it is done
kill_client() {
	local client
	"$VSLEEPCTL" "$1" "${PID[p]}" >/dev/null 2>&1 &
	client=$!
	sleep "0.$(printf '%03d' "$2")"
	kill -KILL "$client" 2>/dev/null
	{ wait "$client"; } 2>/dev/null
}

puppet p VSLEEP_SIM_COPY_MIBPS=500
ask p "alloc a $((40 * M))"
ask p "alloc b $((9 * M))"
ask p "fill a 1"
ask p "fill b 2"
where=$(asked hash p where)

RANDOM=20240229
midway=0 settled=0
state=awake
for round in {1..100}; do
	# on a machine that is busy a client takes longer to begin
	((round <= 20 || midway < 10 || $(now p sequence) < 5)) || break
	verb=wake
	[[ $state != awake ]] || verb="sleep"
	kill_client "$verb" $((RANDOM % (round <= 20 ? 150 : 900)))
	for n in 1 2 3; do
		prompt
		[[ $(value state) != @(draining|sleeping|waking) ]] ||
			((++midway))
	done
	ctl 0 wait --timeout "$PATIENCE" "${PID[p]}"
	state=$(value state)
	matches "the state after round $round" "@(awake|asleep)" "$state"
	settled=$((settled + 1))
	if [[ $state == awake ]]; then
		expect holds '' evicted-bytes 0
		ask p "check all" "ok bad=0"
	else
		expect holds asleep resident-bytes 0
		equal "on the device" 0 "$(device p)"
	fi
	at_most "sequence" $settled "$(value sequence)"
done
at_least "looks at an operation without its client" 10 "$midway"
at_least "operations that ended without their client" 5 "$(now p sequence)"
wakes p

# fifty at once, and one sleep among them
clients=()
for n in {1..50}; do
	"$VSLEEPCTL" status "${PID[p]}" >"$WORK/status.$n" 2>&1 &
	clients+=($!)
	[[ $n != 25 ]] || {
		"$VSLEEPCTL" sleep "${PID[p]}" >"$WORK/sleep" 2>&1 &
		clients+=($!)
	}
done
for client in "${clients[@]}"; do
	wait "$client" || fail "a client of many ended with status $?"
done
for n in {1..50}; do
	grep -q '^state=[a-z]*$' "$WORK/status.$n" ||
		fail "client $n of 50 got: $(<"$WORK/status.$n")"
done
grep -qx state=asleep "$WORK/sleep" || fail "$(<"$WORK/sleep")"

# more silent ones than there is room for
silent=()
for n in {1..70}; do
	printf 'vsleep 1 wa' | "$BUILDDIR/raw" \
		"$VSLEEP_DIR/$(sock "${PID[p]}")" >"$WORK/half.$n" 2>&1 &
	silent+=($!)
done
all_sent() { (($(grep -lx sent "$WORK"/half.* | wc -l) == 70)); }
within "70 halves of a request" all_sent
prompt
expect state asleep
wakes p
prompt
expect state awake evicted-bytes 0
ask p "check all" "ok bad=0"
equal addresses "$where" "$(asked hash p where)"
sleeps p
wakes p
leave p
for client in "${silent[@]}"; do
	wait "$client" || fail "a silent client ended with status $?"
done
