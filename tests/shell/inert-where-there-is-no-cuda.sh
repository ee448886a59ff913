#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# In programs without CUDA the preload does nothing that shows: output, exit
# status, threads, descriptors, signals and files are those of a plain run.
# VSLEEP_DISABLE and VSLEEP_ONLY make it so in programs with CUDA.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

simulation=$LD_LIBRARY_PATH
unset LD_LIBRARY_PATH
export XDG_RUNTIME_DIR=$WORK/xdg
mkdir "$WORK/xdg" "$WORK/here"
cd "$WORK/here" || exit

# same STATUS COMMAND...: it ends so and says the same, with the preload and
# without
same() {
	local run status expected=$1
	shift
	for run in plain with; do
		(
			[[ $run == plain ]] || export LD_PRELOAD=$LIBVSLEEP
			exec "$@"
		) >"$WORK/$run.out" 2>"$WORK/$run.said" </dev/null
		status=$?
		equal "status of the $run run of $*" "$expected" "$status"
	done 2>/dev/null
	cmp "$WORK/plain.out" "$WORK/with.out" || fail "output of $*"
	cmp "$WORK/plain.said" "$WORK/with.said" || fail "stderr of $*"
	[[ -s $WORK/with.out ]] || fail "$* says nothing"
}

# untouched: there is no file that was not there
untouched() {
	equal "files where it runs" '' "$(ls -A "$WORK/here")"
	equal "files in XDG_RUNTIME_DIR" '' "$(ls -A "$WORK/xdg")"
	[[ ! -e $VSLEEP_DIR ]] || fail "a directory for sockets"
}

# shellcheck disable=SC2016 # they are for the shell that is started
commands() {
	seq 1 3000000 >"$WORK/big"
	same 0 cat "$WORK/big"
	same 0 sh -c 'ls -l /usr/bin | sort -r'
	same 3 sh -c 'echo out; echo err >&2; exit 3'
	same 143 sh -c 'echo out; kill -TERM $$'
	same 0 sh -c 'env -i /bin/echo bare; /bin/echo full'
	# from within: threads, descriptors, signals
	same 0 bash -c 'set -- /proc/self/task/*; echo $#'
	same 0 ls /proc/self/fd
	same 0 grep "^Sig[^Q]" /proc/self/status
	if command -v python3 >/dev/null; then
		same 4 python3 -c 'import os, sys
print(len(os.listdir("/proc/self/task")), sum(range(100000)))
sys.exit(4)'
	fi
}
for setting in VSLEEP_TAG=a VSLEEP_LOG="$WORK/log"; do
	export "${setting?}"
	commands
	unset "${setting%%=*}"
	untouched
	[[ ! -e $WORK/log ]] || fail "a log file"
done

# the loader does not take it into programs that gain rights
for program in /usr/bin/mount /bin/su /usr/bin/passwd ''; do
	[[ ! -u $program ]] || break
done
if [[ $program ]]; then
	as=()
	((EUID)) || as=(setpriv --reuid 65534 --clear-groups)
	"${as[@]}" "$program" --help >"$WORK/plain.out" 2>&1
	plain=$?
	LD_PRELOAD=$LIBVSLEEP "${as[@]}" "$program" --help 2>&1 |
		grep -v '^ERROR: ld.so: object' >"$WORK/with.out"
	equal "status of $program" "$plain" "${PIPESTATUS[0]}"
	cmp "$WORK/plain.out" "$WORK/with.out" || fail "output of $program"
else
	echo "not tried: no program with the setuid bit"
fi

# many at once
for n in {1..100}; do
	LD_PRELOAD=$LIBVSLEEP sh -c "echo $n" >"$WORK/many.$n" 2>&1 &
done
wait
for n in {1..100}; do
	equal "start $n of 100" "$n" "$(<"$WORK/many.$n")"
done
untouched

# with CUDA, but switched off
export LD_LIBRARY_PATH=$simulation

# life NAME: what it answers, its threads, its calls to the driver; SIGUSR1
# ends it in the end
life() {
	local name=$1 said='' n threads
	ask "$name" "alloc a $((3 * M))"
	ask "$name" "fill a 1"
	for n in "check a" device fork; do
		ask "$name" "$n"
		said+="$ANSWER;"
	done
	threads=("/proc/${PID[$name]}/task"/*)
	LIFE="$said threads=${#threads[@]}"
}
talk_plain plain "$BUILDDIR/puppet"
ready plain
life plain
plain=$LIFE
tell plain "leave return"
end plain
for setting in VSLEEP_DISABLE=1 VSLEEP_ONLY=pupp,puppets,sh; do
	for how in signal return; do
		puppet off "$setting"
		life off
		equal "$setting" "$plain" "$LIFE"
		ctl 6 status "${PID[off]}"
		ctl 6 sleep "${PID[off]}"
		untouched
		if [[ $how == signal ]]; then
			kill -s USR1 "${PID[off]}"
			end off $((128 + $(kill -l USR1)))
			continue
		fi
		tell off "leave return"
		end off
		equal "$setting: calls of the driver" \
			"$(grep ^calls "$WORK/plain.ledger")" \
			"$(grep ^calls "$WORK/off.ledger")"
	done
	equal "what it says with $setting" '' "$(<"$WORK/off.err")"
done
puppet on VSLEEP_DISABLE=0 VSLEEP_ONLY=sh,puppet
equal "the state" awake "$(now on state)"
leave on
