# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# What the rows of the benchmark share: the programs, figures of several rounds,
# lines of results.  run.sh sets what gpu/lib.sh wants, and RESULTS (the file of
# the machine's lines), TABLE (that of the table) and ENDS (when the time is
# up, in seconds of this shell).

# shellcheck source=../gpu/lib.sh
. "$HERE/../gpu/lib.sh"

declare -A FIGURE		# "what who" -> the numbers of all rounds
CTL_LIMIT=60			# seconds, for one call of vsleepctl
WRONG=''			# what went wrong in this row, empty: nothing

# ---- figures ---------------------------------------------------------------

# note WHAT NUMBER
note() {
	[[ -n $2 ]] || wrong "$1: no figure" || return
	FIGURE["$1"]+="$2 "
}

# middle WHAT: the median of its rounds, empty when there is none
middle() {
	local numbers
	read -ra numbers <<<"${FIGURE[$1]-}"
	[[ ${#numbers[@]} -eq 0 ]] || median "${numbers[@]}"
}

# rate MIB SECONDS, in GiB/s; empty without seconds.  over A B: their ratio
rate() { [[ -z $2 ]] || calc "$1 / 1024 / $2"; }
over() { if [[ -n $1 && -n $2 ]]; then calc "$1 / $2"; else echo -; fi; }

# size_name MIB
size_name() {
	if (($1 % 1024)); then echo "$1MiB"; else echo "$(($1 / 1024))GiB"; fi
}

# ---- results ---------------------------------------------------------------

cells() { printf '%-30s %12s %-6s %8s  %-22s %s\n' "$@" >>"$TABLE"; }

# result NAME VALUE UNIT RATIO [BAR [PROBE]]: a line and a row; none without a
# value, as what failed or was skipped has been said.  BAR is an
# expression of v and r, value and ratio; PROBE is the value of the bare probe:
# what is missed is out of reach where that is at most 1.03 times better.
result() {
	local verdict=stated bar=${5-} probe=${6-} judged
	[[ -n $2 ]] || return 0
	if [[ -n $bar ]]; then
		judged=${bar//v/$2}
		judged=${judged//r/$4}
		verdict=ok
		holds "$judged" || verdict=MISSED
		[[ $bar != *r* || $4 != - ]] || verdict="not compared"
	fi
	if [[ $verdict == MISSED && -n $probe ]]; then
		[[ $bar == v\ \>=* ]] && judged="$probe <= 1.03 * $2" ||
			judged="$2 <= 1.03 * $probe"
		! holds "$judged" || verdict="out of reach"
	fi
	echo "bench $1 $2 $3 $4" >>"$RESULTS"
	cells "$1" "$2" "$3" "$4" "${bar:--}" \
		"$verdict${probe:+ (bare $probe)}"
}

failed() {
	echo "bench $1 FAILED - -" >>"$RESULTS"
	cells "$1" - - - - "FAILED: ${2//$'\n'/ }"
	echo "$1 FAILED: $2"
}

skipped() {
	cells "$1" - - - - "skipped: $2"
	echo "$1 skipped: $2"
}

# room NAME SECONDS: is so much time left; says so if not
room() {
	((SECONDS + $2 <= ENDS)) && return
	skipped "$1" "it may take $2 s, $((ENDS - SECONDS)) are left"
	return 1
}

# has VERB NAME: does vsleepctl have it; says so if not
has() {
	"$CTL" --help | grep -q "^  $1 " && return
	skipped "$2" "vsleepctl has no $1"
	return 1
}

# wrong TEXT: the row fails; the first cause is kept
wrong() {
	WRONG=${WRONG:-$1}
	return 1
}

# ended NAME PROGRAM...: report what went wrong, and end the programs
ended() {
	local name=$1 program
	shift
	for program; do
		[[ -z $WRONG ]] || excerpt "$program"
		[[ -z ${PID[$program]-} ]] || down "$program"
	done
	[[ -z $WRONG ]] || failed "$name" "$WRONG"
	WRONG=''
}

# ---- programs --------------------------------------------------------------

# touch_host MIB: host memory that is touched or pinned for the first time is
# slow where a virtual machine has to get it; who is timed next finds it ready
touch_host() {
	local mib=$(($1 * 9 / 8 + 1024)) most
	most=$(awk '/^MemAvailable:/ { print int($2 / 1024) - 4096 }' \
		/proc/meminfo)
	((mib <= most)) || mib=$most
	timeout -k 5 100 "$BIN/touch" "$mib" >>"$WORK/touched" ||
		wrong "host memory could not be touched"
}

# up [-p] NAME LIMIT COMMAND...: started, and ready for commands
up() {
	local flags=(-t)
	[[ $1 != -p ]] || { flags+=(-p) && shift; }
	start "${flags[@]}" "$@" && answer "$1" 90 && [[ $ANSWER == ok* ]] &&
		return
	wrong "$1 did not start: ${ANSWER-}"
}

down() {
	tell "$1" quit
	within 40 gone "$1"
	end "$1"
	unset "PID[$1]"
}

# told NAME COMMAND: it answers with ok, in time
told() { ask "$1" 60 "$2" || wrong "$1: $2: ${ANSWER:-no answer}"; }

# checked NAME: its memory is what it should be
checked() {
	told "$1" check || return
	[[ $(value bad "$ANSWER") == 0 ]] ||
		wrong "$1: wrong bytes: $ANSWER"
}

# timed WHAT NAME COMMAND: a peer's command, its seconds noted
timed() {
	told "$2" "$3" && note "$1" "$(value seconds "$ANSWER")"
}

# filled NAME COMMAND [SETTING...]: `blocks` under vsleep, with a pattern
filled() {
	local name=$1 command=$2
	shift 2
	up -p "$name" 400 "$@" "$BIN/blocks" && told "$name" "$command" &&
		told "$name" fill
}

# step WHAT VERB NAME: by vsleepctl; what the operation took, and its caller
step() {
	ctl "$2" "${PID[$3]}" || wrong "$1: $(refusal)" || return
	note "$1" "$(value seconds "$REPLY_TEXT")"
	note "$1 caller" "$(calc "$TOOK_US / 1000000")"
}
