#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Sixty cycles with allocations that come and go between them leave nothing
# behind: the process and the device look as after the first ten.
#
# Limits, against the higher of the first two samples (after 10 and 20 cycles):
# resident host memory +64 MiB, descriptors +2, mappings +64, threads +2, device
# memory +64 MiB.

# shellcheck source=lib.sh
. "$HERE/lib.sh"

cycles=${CYCLES:-60}
names=(rss-mib descriptors mappings threads device-mib)
limits=(64 2 64 2 64)
declare -a BASE=(0 0 0 0 0) LAST=(0 0 0 0 0)

sample() {
	local proc=/proc/${PID[endure]}
	LAST=("$(awk '/^VmRSS/ { print int($2 / 1024) }' "$proc/status")"
		"$(find "$proc/fd" -mindepth 1 2>/dev/null | wc -l)"
		"$(wc -l <"$proc/maps")"
		"$(awk '/^Threads/ { print $2 }' "$proc/status")"
		"$(smi_used)")
}

# one N: a cycle; prints what is wrong
one() {
	ask endure 60 "churn $((SEED0 + $1)) 20" || echo "churn: $ANSWER"
	ctl sleep "${PID[endure]}" ||
		echo "sleep, $(refusal)"
	((RANDOM % 3)) || nap 1 60
	ctl wake "${PID[endure]}" ||
		echo "wake, $(refusal)"
	ask endure 60 check && [[ $(value bad "$ANSWER") == 0 ]] ||
		echo "contents: $ANSWER"
}

note_base() {
	local i
	for i in "${!names[@]}"; do
		((${LAST[i]:-0} <= BASE[i])) || BASE[i]=${LAST[i]}
	done
}

header what "after 20 cycles" "after $cycles" limit verdict
trap sweep EXIT
SEED0=$RANDOM
: >"$WORK/problems"
if ! { HOLD_LIMIT=450 hold_up -p endure && ask endure 30 "mix 1024" &&
	ask endure 30 "alloc 1000 70000 300000 1000000 5000000 20000000" &&
	ask endure 30 "fill 1"; }; then
	row cycles - - - "FAILED: not set up: ${ANSWER-}"
	excerpt endure
	exit 0
fi
for ((n = 1; n <= cycles; n++)); do
	one "$n" >>"$WORK/problems"
	(($(wc -l <"$WORK/problems") < 5)) || break
	if ((n % 10 == 0)); then
		sample
		echo "after $n: ${LAST[*]} (${names[*]})"
		((n > 20)) || note_base
	fi
done
row "cycles without fault" - "$((n - 1))" - \
	"$(verdict "$(head -n 2 "$WORK/problems" | paste -sd ';')")"
for i in "${!names[@]}"; do
	problem=''
	if ((BASE[i] == 0 || ${LAST[i]:-0} == 0)); then
		problem="no figures"
	elif ((LAST[i] > BASE[i] + limits[i])); then
		problem="grew"
	fi
	row "${names[i]}" "${BASE[i]}" "${LAST[i]}" "+${limits[i]}" \
		"$(verdict "$problem")"
done
[[ ! -s $WORK/problems ]] || excerpt endure
hold_down endure
