#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# demo.sh BUILD: a program sleeps and wakes before your eyes.
#
# On the GPU if there is one, else on the simulated driver.  BUILD is the build
# folder.

set -u
build=$(cd "$1" && pwd) || exit 2
work=$(mktemp -d) || exit 2
cd "$work" || exit 2
pid=''
simulated=no
export LC_ALL=C VSLEEP_DIR=$work CUDA_DEVICE_ORDER=PCI_BUS_ID
export PATH=$build/tools:$build/tests/demo:$PATH
unset VSLEEP_DISABLE VSLEEP_ONLY VSLEEP_TAG VSLEEP_TAGS VSLEEP_SIGNALS
unset VSLEEP_LIBRARY

clean_up() {
	[[ -z $pid ]] || kill -KILL "$pid" 2>/dev/null
	rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

note() { echo; echo "# $*"; }

die() {
	echo "error: $*" >&2
	[[ ! -s $work/errors ]] || tail -n 20 errors >&2
	exit 1
}

# value KEY: of the "KEY=..." lines on standard input
value() { sed -n "s/^$1=//p" | head -n 1; }

# within SECONDS COMMAND...: until it succeeds
within() {
	local end=$((SECONDS + $1))
	shift
	until "$@"; do
		((SECONDS < end)) || return 1
		sleep 0.05
	done
}

# Where this is no terminal vsleepctl gets one, so that it speaks to people.
if [[ -t 1 ]]; then
	terminal() { timeout --foreground 60 "$@"; }
elif script -qec true /dev/null </dev/null >/dev/null 2>&1; then
	terminal() {
		timeout 60 script -qec "$* 2>>errors" /dev/null </dev/null |
			tr -d '\r'
		return "${PIPESTATUS[0]}"
	}
else
	terminal() {
		timeout 60 "$@" |
			grep -E '^(state|.*-bytes|seconds|gib.*)='
	}
fi

# run COMMAND...: print it as it would be typed, then do it
run() {
	echo "\$ $*"
	terminal "$@" || die "$* failed"
}

last_line() {
	echo "\$ tail -n 1 out"
	tail -n 1 out
}

# ---- the device ------------------------------------------------------------

simulate() {
	local reason
	reason=$(head -n 1 errors)
	simulated=yes
	LD_LIBRARY_PATH=$build/tests/sim
	export LD_LIBRARY_PATH
	export VSLEEP_SIM_SHARE=$work/device VSLEEP_SIM_MEMORY=2G
	demo probe >/dev/null 2>errors || die "no simulated driver"
	echo "Driver: simulated, since no GPU was found ($reason)."
}

if gpu=$(demo probe 2>errors); then
	bus=$(value bus <<<"$gpu") version=$(value version <<<"$gpu")
	echo "GPU: $(value name <<<"$gpu"), driver of CUDA" \
		"$((version / 1000)).$((version % 1000 / 10))."
else
	simulate
fi

# used: device memory in use, as others see it
used() {
	if [[ $simulated == no ]] && smi >/dev/null 2>&1; then
		echo "\$ nvidia-smi ${smi_options[*]}"
		smi
	else
		echo "\$ demo memory"
		demo memory
	fi
}

smi_options=(--query-gpu=memory.used "--format=csv,noheader")
smi() { timeout 20 nvidia-smi -i "$bus" "${smi_options[@]}"; }

mib_of() { sed -n 's/^\([0-9]*\) MiB.*/\1/p' | head -n 1; }

# A quarter of what is free, on the device and on the host.
choose_size() {
	local host limit
	host=$(($(sed -n 's/^MemAvailable: *\([0-9]*\).*/\1/p' \
		/proc/meminfo) / 1024))
	limit=$(cat /sys/fs/cgroup/memory.max 2>/dev/null)
	if [[ ${VSLEEP_HOST_LIMIT-} =~ ^([0-9]+)G$ ]]; then
		host=$((BASH_REMATCH[1] * 1024))
	fi
	if [[ $limit =~ ^[0-9]+$ ]] && ((limit / 1048576 < host)); then
		host=$((limit / 1048576))
	fi
	if [[ $simulated == yes ]]; then
		mib=512
	else
		mib=$(demo memory | sed -n \
			's/^\([0-9]*\) MiB of \([0-9]*\) MiB.*/\2 \1/p')
		mib=$(((${mib% *} - ${mib#* }) / 4))
		((mib < 16384)) || mib=16384
	fi
	((mib < host / 4)) || mib=$((host / 4))
	((mib >= 32)) || die "only $((mib * 4)) MiB of memory are free"
}

# ---- the program -----------------------------------------------------------

steps() { sed -n 's/^step //p' out | tail -n 1; }
stepped() { [[ $(steps) -ge $1 ]] || ! kill -0 "$pid" 2>/dev/null; }

# moves: it computes at least two steps more
moves() {
	local from
	from=$(steps)
	within 20 stepped $((${from:-0} + 2))
	[[ $(steps) -ge $((${from:-0} + 2)) ]] ||
		die "the program does not get on: $(tail -n 1 out)"
}

# state WORD: is that the state
state() {
	[[ $(vsleepctl status --plain "$pid" | value state) == "$1" ]] ||
		die "process $pid is not $1"
}

choose_size
note "A program computes on $mib MiB of device memory."
echo "\$ vsleepctl run demo work $mib > out &"
vsleepctl run demo work "$mib" >out 2>errors &
pid=$!
within 30 stepped 1 || die "the program does not start"
moves
echo "[1] $pid"
last_line
before=$(used)
echo "$before"

note "It goes to sleep."
run vsleepctl sleep "$pid"
state asleep

note "Its memory is free for others."
after=$(used)
echo "$after"
gone=$(($(mib_of <<<"$before") - $(mib_of <<<"$after")))
if ((gone < mib - 16 - mib / 512)); then
	[[ $simulated == no ]] || die "only $gone of $mib MiB are free"
	echo "(Other programs use this GPU, too.)"
fi

note "The program is held at its next CUDA call; nothing is lost."
run vsleepctl status "$pid"
at=$(steps)
last_line
sleep 1
last_line
[[ $(steps) == "$at" ]] || die "the program went on while it slept"

note "It wakes and computes on, at the same addresses."
run vsleepctl wake "$pid"
state awake
moves
last_line

note "At its end it verifies every word."
echo "\$ kill -TERM $pid"
kill -TERM "$pid"
wait "$pid"
rc=$?
pid=''
last_line
[[ $rc -eq 0 ]] || die "the program ended with exit status $rc"
echo
echo "OK"
