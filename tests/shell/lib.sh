# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# What the whole-behaviour tests share: programs under the preload that are
# told what to do, vsleepctl, waiting with a deadline, assertions.
#
# `make check` sets LIBVSLEEP, VSLEEPCTL, BUILDDIR, SRCDIR and LD_LIBRARY_PATH.
# Everything lies in $WORK, which goes at the end with whatever still runs.
# The first assertion that does not hold ends the test.

set -u
shopt -s extglob
export LC_ALL=C
unset VSLEEP_TAG VSLEEP_TAGS VSLEEP_LOG VSLEEP_TIMEOUT VSLEEP_HOST_LIMIT
unset XDG_RUNTIME_DIR

WORK=$(mktemp -d "${TMPDIR:-/tmp}/vs-XXXXXX")
export VSLEEP_DIR=$WORK/run
export VSLEEP_SIM_MEMORY=${VSLEEP_SIM_MEMORY:-512M}
# shellcheck disable=SC2034 # the tests read it
readonly M=1048576
PATIENCE=${PATIENCE:-40}	# seconds that anything may take

declare -A PID TO FROM		# by the name of a started program
ANSWER='' OUT='' ERR='' RC=0	# of the last question; of the last command

clean_up() {
	local status=$? name
	trap - EXIT
	for name in "${!PID[@]}"; do
		kill -KILL "${PID[$name]}" 2>/dev/null
	done
	wait
	rm -rf "$WORK"
	exit "$status"
}
trap "clean_up 2>/dev/null" EXIT
trap 'exit 1' INT TERM HUP

# ---- assertions ------------------------------------------------------------

fail() {
	local file where="${BASH_SOURCE[-1]##*/} line ${BASH_LINENO[-2]}"
	for file in "$WORK"/*.err "$WORK"/*.log; do
		[[ -s $file ]] || continue
		echo "--- ${file##*/}"
		tail -n 20 "$file"
	done >&2
	printf 'FAILED: %s\nat %s\n' "$*" "$where" >&2
	exit 1
}

skip() {
	echo "skipped: $*"
	exit 77
}

# equal WHAT EXPECTED GOT
equal() {
	[[ $3 == "$2" ]] || fail "$1: expected '$2', got '$3'"
}

# at_most WHAT LIMIT GOT, at_least WHAT LIMIT GOT: whole numbers
at_most() {
	[[ $3 =~ ^-?[0-9]+$ ]] || fail "$1: expected a number, got '$3'"
	(($3 <= $2)) || fail "$1: expected at most $2, got $3"
}
at_least() {
	[[ $3 =~ ^-?[0-9]+$ ]] || fail "$1: expected a number, got '$3'"
	(($3 >= $2)) || fail "$1: expected at least $2, got $3"
}

# matches WHAT PATTERN GOT: a shell pattern
matches() {
	# shellcheck disable=SC2053 # it is one
	[[ $3 == $2 ]] || fail "$1: expected '$2', got '$3'"
}

# within WHAT COMMAND...: until it succeeds
within() {
	local what=$1 end=$((${EPOCHREALTIME/./} + PATIENCE * 1000000))
	shift
	until "$@"; do
		((${EPOCHREALTIME/./} < end)) ||
			fail "$what: not within $PATIENCE s"
		sleep 0.01
	done
}

# ---- programs --------------------------------------------------------------

# start NAME [VAR=VALUE...] PROGRAM [ARG...]: preloaded, what it says is in
# NAME.text; start_plain: the same without the preload
start() { start_plain "$1" LD_PRELOAD="$LIBVSLEEP" "${@:2}"; }
start_plain() {
	local name=$1
	shift
	rm -f "$WORK/$name".*
	surround "$name" "$@" </dev/null >"$WORK/$name.text" \
		2>"$WORK/$name.err" &
	PID[$name]=$!
}
surround() {
	local name=$1
	shift
	exec env VSLEEP_SIM_LEDGER="$WORK/$name.ledger" \
		FLAG="$WORK/$name.flag" COUNT="$WORK/$name.count" \
		TICK="$WORK/$name.tick" PROGRESS="$WORK/$name.progress" "$@"
}

# talk, talk_plain: the same, but tell, answer and ask reach it
talk() { talk_plain "$1" LD_PRELOAD="$LIBVSLEEP" "${@:2}"; }
talk_plain() {
	local name=$1 to from
	shift
	rm -f "$WORK/$name".*
	mkfifo "$WORK/$name.in" "$WORK/$name.out"
	exec {to}<>"$WORK/$name.in" {from}<>"$WORK/$name.out"
	surround "$name" "$@" <"$WORK/$name.in" >"$WORK/$name.out" \
		2>"$WORK/$name.err" {to}>&- {from}<&- &
	PID[$name]=$! TO[$name]=$to FROM[$name]=$from
}

# puppet NAME [VAR=VALUE...]: one that is ready for commands
puppet() {
	talk "$@" "$BUILDDIR/puppet"
	ready "$1"
}
# lender NAME [VAR=VALUE...]: one that shares memory with others
lender() {
	talk "$@" "$BUILDDIR/lender"
	ready "$1"
}
ready() {
	answer "$1"
	equal "the start of $1" "ok ready" "$ANSWER"
}

gone() { ! kill -0 "${PID[$1]}" 2>/dev/null; }

# stop NAME: all of its threads
stop() {
	kill -STOP "${PID[$1]}"
	within "$1 to stop" stopped "$1"
}
stopped() {
	[[ -z $(grep -L '^State:.T' "/proc/${PID[$1]}/task/"*/status) ]]
}

# tell NAME COMMAND; answer NAME: its next line, in ANSWER
tell() { echo "$2" >&"${TO[$1]}"; }
answer() {
	local end=$((SECONDS + PATIENCE)) half=''
	# what came before the time was over is in ANSWER and nowhere else
	until IFS= read -r -t 1 -u "${FROM[$1]}" ANSWER; do
		half+=$ANSWER
		gone "$1" && fail "$1 ended instead of answering"
		((SECONDS < end)) || fail "$1 does not answer"
	done
	ANSWER=$half${ANSWER% }
}

# silent NAME: it has said nothing that was not read
silent() {
	! IFS= read -r -t 0 -u "${FROM[$1]}" || fail "$1 has answered already"
}

# ask NAME COMMAND [ANSWER]: "ok ..." is expected where no other answer is
ask() {
	tell "$1" "$2"
	answer "$1"
	matches "$1: $2" "${3:-ok*}" "$ANSWER"
}

# asked KEY NAME COMMAND: print the value of KEY in the answer
asked() {
	ask "$2" "$3"
	word "$1" "$ANSWER"
}

# word KEY TEXT: the value of "KEY=..." among the words of TEXT
word() {
	local item
	for item in $2; do
		[[ $item != "$1="* ]] || echo "${item#*=}"
	done
}

# end NAME [STATUS]: it is about to leave, with that status (0)
end() {
	local status to from
	within "the end of $1" ended "$1"
	wait "${PID[$1]}" && status=0 || status=$?
	equal "the exit status of $1" "${2:-0}" "$status"
	unset "PID[$1]"
	[[ -v TO[$1] ]] || return 0
	to=${TO[$1]} from=${FROM[$1]}
	exec {to}>&- {from}<&-
	unset "TO[$1]" "FROM[$1]"
}
# a zombie has ended; only wait may take its status
ended() {
	local stat=''
	{ read -r stat <"/proc/${PID[$1]}/stat"; } 2>/dev/null
	[[ -z $stat || ${stat##*) } == [ZX]* ]]
}

# leave NAME: it frees everything and ends, and nothing was wrong or is left.
# The sleep is what makes vsleep give its spare chunks back.
leave() {
	ask "$1" "free all"
	sleeps "$1"
	wakes "$1"
	tell "$1" "leave return"
	end "$1"
	clean "$1"
}

# ledger NAME KEY: what the simulated driver says of the ended program
ledger() { sed -n "s/^$2=//p" "$WORK/$1.ledger"; }
clean() {
	local key
	for key in live-handles live-mappings live-reservations \
		live-allocations registered; do
		equal "$1: $key at the end" 0 "$(ledger "$1" "$key")"
	done
	lawful "$1"
}
# lawful NAME: it made no call that a correct program does not make
lawful() {
	equal "$1: invalid calls" 0 "$(ledger "$1" invalid-calls)"
}

# count NAME FILE: the number in its file "count" or "tick"
number_in() {
	local n=0
	{ read -r n <"$WORK/$1.$2"; } 2>/dev/null
	echo $((10#${n:-0}))
}
# past NAME FILE NUMBER
past() { (($(number_in "$1" "$2") > $3)); }
# changed NAME TEXT: its progress file says something else
changed() { [[ $(<"$WORK/$1.progress") != "$2" ]]; }
# raise NAME: let its `hang` kernels end; lower NAME: let the next ones run
raise() { printf '\1' 1<>"$WORK/$1.flag"; }
lower() { printf '\0' 1<>"$WORK/$1.flag"; }

# ---- vsleep ----------------------------------------------------------------

# ctl STATUS ARGUMENT...: vsleepctl, which exits with that; fills OUT and ERR
ctl() {
	local expected=$1 said=$WORK/ctl.$BASHPID
	shift
	timeout -k 5 $((PATIENCE * 3)) "$VSLEEPCTL" "$@" \
		>"$said.out" 2>"$said.text" </dev/null
	RC=$?
	OUT=$(<"$said.out") ERR=$(<"$said.text")
	rm -f "$said".*
	[[ $RC == "$expected" ]] || fail "vsleepctl $*: expected status" \
		"$expected, got $RC"$'\n'"$OUT"$'\n'"$ERR"
}

# value KEY: of the line KEY=... in OUT
value() { sed -n "s/^$1=//p" <<<"$OUT"; }
# of_tag TAG KEY: of the line of that tag in OUT
of_tag() { word "$2" "$(grep "^tag=$1 " <<<"$OUT")"; }

sleeps() { ctl 0 sleep "${@:2}" "${PID[$1]}"; }
wakes() { ctl 0 wake "${@:2}" "${PID[$1]}"; }
status() { ctl 0 status "${PID[$1]}"; }

# now NAME KEY: ask for its status and print the value
now() {
	status "$1"
	value "$2"
}
# is NAME KEY VALUE, reached NAME KEY LEAST
is() { [[ $(now "$1" "$2") == "$3" ]]; }
reached() { (($(now "$1" "$2") >= $3)); }

# expect KEY VALUE...: these lines are in OUT
expect() {
	while (($#)); do
		equal "$1" "$2" "$(value "$1")"
		shift 2
	done
}

# held NAME NUMBER: so many calls of it wait
held() { within "$2 held calls of $1" is "$1" held-now "$2"; }

# device NAME: bytes that it holds, as the simulated driver counts them
device() { asked bytes "$1" device; }

# sock PID: the name of its socket, which tells PID namespaces apart
sock() {
	local space
	space=$(readlink /proc/self/ns/pid)
	space=${space//[^0-9]/}
	if [[ $space == 4026531836 ]]; then
		echo "$1.sock"
	else
		echo "$1-$space.sock"
	fi
}
