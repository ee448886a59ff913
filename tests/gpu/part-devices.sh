#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Programs that use two devices, or only the second: plain, preloaded, cycles.

# shellcheck source=cycles.sh
. "$HERE/cycles.sh"

# note_used: MORE is how much more of device 0 was in use than BEFORE, at most
note_used() {
	local more=$(($(smi_used) - BEFORE))
	((more <= MORE)) || MORE=$more
}

# watch_plain NAME: MORE of a plain run; a driver's start may touch all devices
watch_plain() {
	MORE=0
	start "$1" 120 DEVICE=1 "$BIN/loop-static"
	until gone "$1"; do
		note_used
	done
	finish "$1"
	note_used
}

# hold_thrice NAME: three sleeps and wakes of a program on device 1; PROBLEM
hold_thrice() {
	local name=$1 n
	LAST='' PROBLEM='' RELEASED=0 MORE=0
	within 60 moved "$name" || PROBLEM="no progress"
	for ((n = 0; n < 3; n++)); do
		note_used
		of_all sleep "$name" || PROBLEM="sleep, $(refusal)"
		RELEASED=$(total released-bytes "$REPLY_TEXT")
		((RELEASED > 0)) || PROBLEM="nothing was released"
		note_used
		LAST=$(progress "$name")
		of_all wake "$name" || PROBLEM="wake, $(refusal)"
		within 20 moved "$name" || PROBLEM="no progress"
	done
	note_used
}

# A program on device 1 alone leaves device 0 as it was.
only_second() {
	local name=only-second plain
	TREE='' BEFORE=$(smi_used)
	watch_plain "$name-plain"
	plain=$MORE EXPECTED=$STATUS
	start -p "$name-cycled" 120 DEVICE=1 "$BIN/loop-static"
	hold_thrice "$name-cycled"
	finish "$name-cycled"
	PROBLEM=${PROBLEM:-$(differs "$name-cycled" "$EXPECTED")}
	((MORE <= plain)) ||
		PROBLEM=${PROBLEM:-"device 0: $MORE MiB, plain $plain MiB"}
	[[ -z $PROBLEM ]] || excerpt "$name-cycled"
	row "$name" "device 0: $plain MiB" "device 0: $MORE MiB" \
		"3 of $(mib "$RELEASED") MiB" "$(verdict "$PROBLEM")"
}

# rate NAME DEVICES: GiB/s of a wake of 8 GiB on each of them; RATE, PROBLEM
rate() {
	local name=$1 n
	PROBLEM='' RATE=0
	start -p "$name" 150 CUDA_VISIBLE_DEVICES="$2" GIB=8 \
		python3 "$HERE/programs/both.py"
	within 60 marked "$name" filled || PROBLEM="it did not start"
	for ((n = 0; n < 3; n++)); do
		ctl sleep "${PID[$name]}" || PROBLEM="sleep, $(refusal)"
		sleep 1		# the device cleans what it was given back
		ctl wake "${PID[$name]}" || PROBLEM="wake, $(refusal)"
		RATE=$(value gib-per-second "$REPLY_TEXT")
	done
	kill -TERM "${PID[$name]}"
	finish "$name"
	grep -q 'as they were$' "$WORK/$name.out" ||
		PROBLEM=${PROBLEM:-"the bytes differ"}
	[[ -z $PROBLEM ]] || excerpt "$name"
}

# Devices of one process are copied side by side, each over its own link.
side_by_side() {
	local one problem
	rate one 0
	one=$RATE problem=$PROBLEM
	rate two 0,1
	PROBLEM=${problem:-$PROBLEM}
	holds "$RATE > 1.5 * $one" ||
		PROBLEM=${PROBLEM:-"less than 1.5 times one device"}
	row side-by-side "one $one GiB/s" "two $RATE GiB/s" "3 of 16384 MiB" \
		"$(verdict "$PROBLEM")"
}

programs=("peers $BIN/peers" "crossed $BIN/crossed")
[[ ! -x $BIN/nccl ]] || programs+=("nccl $BIN/nccl")
if python3 -c 'import torch' 2>/dev/null; then
	programs+=("nccl-ranks --tree BACKEND=nccl STEPS=1200 python3 -m \
torch.distributed.run --standalone --local-addr 127.0.0.1 --nproc-per-node 2 \
$HERE/programs/ranks.py")
fi
run_programs "${programs[@]}"
[[ -x $BIN/nccl ]] || row nccl - - - "skipped: no NCCL"
[[ " ${ONLY:-only-second} " == *" only-second "* ]] || exit 0
if (($(nvidia-smi -L 2>/dev/null | wc -l) < 2)); then
	row only-second - - - "skipped: no second device"
	row side-by-side - - - "skipped: no second device"
else
	only_second
	side_by_side
fi
