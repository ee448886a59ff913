# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# What the parts of the GPU check share: start and end programs, talk to them,
# vsleepctl with a limit, figures of the device, rows of the table.
#
# run.sh sets LIB, CTL, BIN, HERE, WORK (this part's folder), ROWS (the file of
# this part's rows) and VSLEEP_DIR.  Nothing waits without a limit.

set -u
export LC_ALL=C PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
export CUDA_DEVICE_ORDER=PCI_BUS_ID
# A machine whose memory grows as it is touched reports too little of it.
export VSLEEP_HOST_LIMIT=${VSLEEP_HOST_LIMIT:-100G}

declare -A JOB PID TO FROM	# by the name of a started program
RANDOM=${SEED:-4711}

# ---- small things ----------------------------------------------------------

now_us() { echo "${EPOCHREALTIME/./}"; }

# as_seconds US, seconds FROM_US: with two digits; the latter since then
as_seconds() { printf '%d.%02d' $(($1 / 1000000)) $(($1 % 1000000 / 10000)); }
seconds() { as_seconds $(($(now_us) - $1)); }

# calc EXPRESSION: real arithmetic, three digits
calc() { awk "BEGIN { printf \"%.3f\", $1 }" 2>/dev/null || echo '?'; }

# holds EXPRESSION: is it true, in real arithmetic
holds() { awk "BEGIN { exit !($1) }" 2>/dev/null; }

# median NUMBER...
median() {
	printf '%s\n' "$@" | sort -g | awk '
		{ v[NR] = $1 }
		END { print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'
}

# nap LEAST MOST: a random while, in milliseconds
nap() {
	local ms=$(($1 + RANDOM % ($2 - $1 + 1)))
	sleep "$((ms / 1000)).$(printf '%03d' $((ms % 1000)))"
}

# within SECONDS COMMAND...: until it succeeds; fails when the time is over
within() {
	local end=$((${EPOCHREALTIME/./} + $1 * 1000000))
	shift
	until "$@"; do
		((${EPOCHREALTIME/./} < end)) || return 1
		sleep 0.02
	done
}

# value KEY TEXT: the last "KEY=..." of the lines or words in TEXT
value() { tr ' ' '\n' <<<"$2" | sed -n "s/^$1=//p" | tail -n 1; }

# number KEY TEXT: the same, 0 where there is none
number() {
	local v
	v=$(value "$1" "$2")
	[[ $v =~ ^[0-9]+$ ]] && echo "$v" || echo 0
}

# at_most A B, at_least A B: whole numbers; false when one is missing
at_most() { [[ $1 =~ ^-?[0-9]+$ && $2 =~ ^-?[0-9]+$ ]] && (($1 <= $2)); }
at_least() { at_most "$2" "$1"; }

first_line() { tr '\n' ' ' <<<"$1" | cut -c 1-110; }

# mib BYTES: "?" when there is no number
mib() { [[ $1 =~ ^[0-9]+$ ]] && echo $(($1 / 1048576)) || echo '?'; }

# ---- the table -------------------------------------------------------------

# header CELL...: the columns of this part
header() { (IFS=$'\t' && echo "$*") >"$ROWS.head"; }

# row CELL...: the last cell is "ok", "stated", "skipped: ..." or what is wrong
row() { (IFS=$'\t' && echo "${*//$'\n'/ }") >>"$ROWS"; }

# verdict PROBLEM: "ok", or FAILED with the problem
verdict() { [[ -z $1 ]] && echo ok || echo "FAILED: $1"; }

# ---- programs --------------------------------------------------------------

# start [-p] [-i] [-t] NAME LIMIT COMMAND...: in the background, killed after
# LIMIT seconds; -p: preloaded, -i: tell reaches its stdin, -t: and what it says
# goes to answer instead of a file.  Sets PID[NAME].
start() {
	local preload=() talk='' name limit in out to from
	while [[ $1 == -[pit] ]]; do
		case $1 in
		-p) preload=(1) ;;
		*) talk+=${1#-} ;;
		esac
		shift
	done
	name=$1 limit=$2
	shift 2
	[[ ${#preload[@]} -eq 0 ]] ||
		preload=(LD_PRELOAD="$LIB" VSLEEP_LOG="$WORK/$name.vsleep")
	rm -f "$WORK/$name".{pid,in,out,err,progress}
	in=/dev/null out=$WORK/$name.out
	if [[ -n $talk ]]; then
		in=$WORK/$name.in
		mkfifo "$in"
		exec {to}<>"$in"
		TO[$name]=$to
	fi
	if [[ $talk == *t* ]]; then
		mkfifo "$out"
		exec {from}<>"$out"
		FROM[$name]=$from
	fi
	# shellcheck disable=SC2016 # the inner shell expands it
	PROGRESS=$WORK/$name.progress timeout -k 5 "$limit" sh -c \
		'echo $$ >"$0.new"; mv "$0.new" "$0"; exec env "$@"' \
		"$WORK/$name.pid" "${preload[@]}" "$@" \
		<"$in" >"$out" 2>"$WORK/$name.err" &
	JOB[$name]=$!
	within 10 test -s "$WORK/$name.pid" || return 1
	PID[$name]=$(cat "$WORK/$name.pid")
	echo "${PID[$name]}" >>"$WORK/../pids"
}

gone() { ! kill -0 "${JOB[$1]}" 2>/dev/null; }

# finish NAME: wait for its end (its own limit holds); STATUS is its exit status
# shellcheck disable=SC2034 # read by the parts
finish() {
	wait "${JOB[$1]}"
	STATUS=$?
}

# end NAME [SIGNAL]: kill it, and be sure that it is gone
end() {
	gone "$1" || kill "-${2:-KILL}" "${PID[$1]}" 2>/dev/null
	finish "$1"
}

# answer NAME SECONDS: the next line it says, in ANSWER
answer() {
	local end=$((${EPOCHREALTIME/./} + $2 * 1000000)) part=''
	ANSWER=''
	while ((${EPOCHREALTIME/./} < end)); do
		if IFS= read -r -t 1 -u "${FROM[$1]}" part; then
			ANSWER+=$part
			return 0
		fi
		ANSWER+=$part
		gone "$1" && return 1
	done
	return 1
}

# tell NAME COMMAND
tell() { echo "$2" >&"${TO[$1]}"; }

# ask NAME SECONDS COMMAND: true when the answer, in ANSWER, begins with "ok"
ask() {
	tell "$1" "$3"
	answer "$1" "$2" && [[ $ANSWER == ok* ]]
}

# hold_up [-p] NAME [VAR=VALUE...]: a `hold` that is ready for commands
hold_up() {
	local flags=(-t)
	[[ $1 != -p ]] || { flags+=(-p) && shift; }
	local name=$1
	shift
	start "${flags[@]}" "$name" "${HOLD_LIMIT:-300}" "$@" "$BIN/hold" &&
		answer "$name" 60 && [[ $ANSWER == "ok ready" ]]
}

# hold_down NAME
hold_down() {
	tell "$1" quit
	within 30 gone "$1"
	end "$1"
}

# ---- vsleep ----------------------------------------------------------------

# ctl ARGUMENT...: vsleepctl; REPLY_TEXT is what it says, TOOK_US how long it
# took, its exit status is CTL_STATUS and is returned
ctl() {
	local from limit=${CTL_LIMIT:-150}
	from=$(now_us)
	REPLY_TEXT=$(timeout -k 5 "$limit" "$CTL" "$@" 2>&1 </dev/null)
	CTL_STATUS=$?
	TOOK_US=$(($(now_us) - from))
	{
		echo "\$ vsleepctl $* (status $CTL_STATUS, $TOOK_US us)"
		echo "$REPLY_TEXT"
	} >>"$WORK/vsleepctl.log"
	return "$CTL_STATUS"
}

# refusal: the last ctl in words
refusal() { echo "status $CTL_STATUS: $(first_line "$REPLY_TEXT")"; }

# answers NAME: does vsleep in it answer
answers() { ctl status "${PID[$1]}"; }

# marked NAME WORD: is that what its progress file says
marked() { grep -q "^$2" "$WORK/$1.progress" 2>/dev/null; }

# state_is NAME STATE
state_is() {
	ctl status "${PID[$1]}" && [[ $(value state "$REPLY_TEXT") == "$2" ]]
}

# advanced NAME STATE SEQUENCE: in that state, and its sequence is past that
advanced() {
	state_is "$1" "$2" && (($(number sequence "$REPLY_TEXT") > $3))
}

# ---- the device ------------------------------------------------------------

# smi_used: MiB in use on device 0
smi_used() {
	timeout -k 5 30 nvidia-smi -i 0 --query-gpu=memory.used \
		--format=csv,noheader,nounits | tr -dc '0-9\n' | head -n 1
}

# info KEY NAME: free, total or used bytes of the device, as the hold NAME sees
info() { ask "$2" 20 info && value "$1" "$ANSWER"; }

# resident NAME: its host memory, in KiB
resident() { awk '/^VmRSS:/ { print $2 }' "/proc/${PID[$1]}/status"; }

# warm GIB: once a run, touch host memory before anything is timed
warm() {
	[[ -e $WORK/../warm ]] || timeout -k 5 200 "$BIN/warm" "$1"
	touch "$WORK/../warm"
}

# excerpt NAME: the end of what it said on stderr, for the reader of the log
excerpt() {
	local file text
	for file in "$WORK/$1.err" "$WORK/$1.vsleep"; do
		text=$(grep -v '^step ' "$file" 2>/dev/null | tail -n 4)
		[[ -z $text ]] || printf -- '--- %s\n%s\n' "${file##*/}" \
			"$text" | cut -c 1-160
	done
}

# Programs of this part that still run are ended with it, by their own pids.
sweep() {
	local name
	for name in "${!PID[@]}"; do
		gone "$name" || end "$name"
	done
}
