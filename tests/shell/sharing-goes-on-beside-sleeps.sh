#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Two programs open and close memory of each other for ever, while both are put
# to sleep and woken again and again: every sleep takes all of it along, with
# whatever they have mapped at that moment, and every byte is right.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

export VSLEEP_SIM_SHARE=$WORK/share

cycles() {
	local i name verb
	for ((i = 0; i < 10; i++)); do
		for name in a b; do
			for verb in sleep wake; do
				"$VSLEEPCTL" $verb --wait 10 "${PID[$name]}" \
					>"$WORK/cycles.text" 2>&1 ||
					{ echo "$verb: $?" && return; }
			done
		done
	done >"$WORK/cycles.said"
	: >"$WORK/over"
}

lender a
lender b
ask a "alloc big $((24 * M))"
ask a "alloc small 5000"
ask b "alloc own 300000"
ask a "fill big 1"
ask a "fill small 2"
ask b "fill own 3"
big=$(asked handle a "handle big")
small=$(asked handle a "handle small")
own=$(asked handle b "handle own")
cycles &
cycles=$!
rounds=0
while kill -0 $cycles 2>/dev/null; do
	rounds=$((rounds + 1))
	ask b "open big $big $((24 * M))"
	ask a "open own $own 300000"
	ask b "open small $small 5000"
	ask b "check big 1" "ok bad=0"
	ask a "check own 3" "ok bad=0"
	ask b "check small 2" "ok bad=0"
	ask b "close big"
	ask b "close small"
	ask a "close own"
done
wait $cycles
[[ -e $WORK/over ]] ||
	fail "$(<"$WORK/cycles.said"): $(<"$WORK/cycles.text")"
at_least "rounds" 2 $rounds
for name in a b; do
	equal "what $name says" '' "$(<"$WORK/$name.err")"
	leave $name
done
