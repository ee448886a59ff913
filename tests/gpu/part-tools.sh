#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What the operator is told on a real driver: the doctor, what stays by cause,
# programs chosen by GPU and name, a pause, a dry run.

# shellcheck source=lib.sh
. "$HERE/lib.sh"

export VSLEEP_LIBRARY=$LIB

# note WHAT FOUND: a row, with PROBLEM
note() { row "$1" "$2" "$(verdict "$PROBLEM")"; PROBLEM=''; }

# want TEXT TEST...: PROBLEM is TEXT unless the test succeeds
want() {
	local text=$1
	shift
	"$@" || PROBLEM=${PROBLEM:-$text}
}

# said TEXT: is it in what vsleepctl said
said() { grep -q -- "$1" <<<"$REPLY_TEXT"; }

doctor() {
	local code='import torch; torch.ones(9).cuda()'
	python3 -c 'import torch' 2>/dev/null || {
		row "doctor of PyTorch" - "skipped: no torch"
		return
	}
	CTL_LIMIT=90 ctl doctor --timeout 60 -- python3 -c "$code"
	want "$(refusal)" test "$CTL_STATUS" -eq 0
	note "doctor of PyTorch" "status $CTL_STATUS"
}

doctor_of_plain() {
	start -i bare 120 "$BIN/kinds"
	want "it did not start" within 60 marked bare filled
	ctl doctor "${PID[bare]}"
	want "$(refusal)" test "$CTL_STATUS" -eq 1
	note "doctor of a bare program" "$(first_line "$REPLY_TEXT")"
	tell bare go
	finish bare
}

# churn: another process takes and gives device memory all the while
churn() {
	hold_up churn || return
	while [[ ! -e $WORK/churned ]]; do
		ask churn 60 "alloc 1073741824" && ask churn 60 free
	done
	hold_down churn
}

# Everything that nvidia-smi sees of the process has a name.
kinds() {
	local before after released kept unmanaged rest
	start -p -i kinds 150 "$BIN/kinds"
	want "it did not start" within 60 marked kinds filled
	churn &
	ctl status "${PID[kinds]}"
	before=$(number used-bytes "$REPLY_TEXT")
	ctl sleep "${PID[kinds]}"
	want "sleep, $(refusal)" test "$CTL_STATUS" -le 1
	released=$(number released-bytes "$REPLY_TEXT")
	kept=$(number kept-bytes "$REPLY_TEXT")
	unmanaged=$(number unmanaged-bytes "$REPLY_TEXT")
	ctl status "${PID[kinds]}"
	after=$(number used-bytes "$REPLY_TEXT")
	rest=$(number rest-bytes "$REPLY_TEXT")
	touch "$WORK/churned"
	want "before $before, after $after, released $released" \
		near $((before - after)) "$released"
	want "after $after, kept $kept, unmanaged $unmanaged, rest $rest" \
		near "$after" $((kept + unmanaged + rest))
	want "the rest is $(mib "$rest") MiB" \
		at_most "$rest" $((1536 << 20))
	ctl wake "${PID[kinds]}"
	tell kinds go
	finish kinds
	wait
	want "bytes differ" grep -q 'plain equal, managed equal' \
		"$WORK/kinds.out"
	note "bytes by cause" "used $(mib "$before"), then $(mib "$after")\
 MiB: unmanaged $(mib "$unmanaged"), rest $(mib "$rest")"
}

# near A B: within 64 MiB of each other; page tables of pinned memory are in it
near() {
	at_most $(($1 - $2)) $((64 << 20)) && at_most $(($2 - $1)) $((64 << 20))
}

# both STATE: are both holds in it
both() { state_is one "$1" && state_is two "$1"; }

chosen() {
	local how count
	hold_up -p one && hold_up -p two || PROBLEM="they did not start"
	ask one 60 "mix 1024"
	ask two 60 "mix 512"
	for how in "--gpu 0" "--name hold" "--all"; do
		# shellcheck disable=SC2086 # two words
		ctl sleep $how
		want "sleep $how: $(refusal)" test "$CTL_STATUS" -eq 0
		want "not both sleep by $how" both asleep
		# shellcheck disable=SC2086
		ctl wake $how
		want "wake $how: $(refusal)" test "$CTL_STATUS" -eq 0
		want "not both woke by $how" both awake
	done
	note "chosen by GPU, name, all" "two processes each"
	ctl sleep --dry-run "${PID[one]}"
	count=$(number would-release-bytes "$REPLY_TEXT")
	want "a dry run: $(refusal)" state_is one awake
	ctl sleep "${PID[one]}"
	want "$count foretold, $(number released-bytes "$REPLY_TEXT")" \
		test "$count" -eq "$(number released-bytes "$REPLY_TEXT")"
	ctl wake "${PID[one]}"
	note "dry run" "$(mib "$count") MiB foretold and released"
	ctl pause "${PID[one]}"
	want "pause, $(refusal)" test "$CTL_STATUS" -eq 0
	want "it is not held" said paused=yes
	tell one "alloc 4096"
	want "no call waits" within 10 advanced_calls one
	ctl resume "${PID[one]}"
	want "no answer after the resume" answer one 20
	note "pause and resume" "a call waited"
	hold_down one
	hold_down two
}

# advanced_calls NAME: does a call of it wait
advanced_calls() {
	answers "$1" && (($(number held-now "$REPLY_TEXT") > 0))
}

PROBLEM=''
header what found verdict
doctor
doctor_of_plain
kinds
chosen
