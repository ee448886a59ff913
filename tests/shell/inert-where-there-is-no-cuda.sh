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

# there NAME...: all of these programs are; it is said where one is not
there() {
	local name
	for name; do
		command -v "$name" >/dev/null && continue
		echo "not tried: $name"
		return 1
	done
}

# What people run all day, and what that starts; work is done in $WORK/tree,
# which is made anew for each run.
tree() {
	same 0 sh -c "rm -rf '$WORK/tree' && mkdir '$WORK/tree' &&
		cd '$WORK/tree' && $1"
}
printf '#include <iostream>\nint main() { std::cout << "built\\n"; }\n' \
	>"$WORK/a.cc"
printf '#include <stdio.h>\nint main(void) { return puts("built") < 0; }\n' \
	>"$WORK/a.c"
printf 'all: 1 2 3\n1 2 3:\n\techo made $@ | tee $@\n' >"$WORK/Makefile"
cat >"$WORK/many.py" <<'END'
import multiprocessing, os, subprocess, threading, time

def square(n):
    return n * n

if __name__ == "__main__":
    with multiprocessing.Pool(3) as pool:
        print(pool.map(square, range(50)))
    threads = [threading.Thread(target=square, args=(n,)) for n in range(8)]
    for t in threads: t.start()
    for t in threads: t.join()
    print(subprocess.check_output(["sh", "-c", "echo from $0", "below"]))
    # one that was joined may be on its way out
    for _ in range(1000):
        tasks = len(os.listdir("/proc/self/task"))
        if tasks == 1: break
        time.sleep(0.01)
    print(tasks)
END
export HOME=$WORK GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a \
	GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b \
	GIT_AUTHOR_DATE="1000000000 +0000" GIT_COMMITTER_DATE="1000000000 +0000"
! there git || tree "git init -q . 2>&1 && seq 1 9999 >f && git add f &&
	git commit -q -m one && seq 2 9999 >f && git diff --stat &&
	git log -p && git fsck 2>&1 && git gc -q && git rev-parse HEAD"
! there gcc || tree "gcc -O1 -g -o a ../a.c && md5sum a && ./a"
! there g++ || tree "g++ -O1 -o a ../a.cc && md5sum a && ./a"
! there clang || tree "clang -O1 -o a ../a.c && md5sum a && ./a"
! there make || tree "make -s -j3 --output-sync=target -f ../Makefile | sort"
! there tar gzip || tree "seq 1 99999 >f && tar -czf t.gz --mtime=@0 f &&
	rm f && tar -xvzf t.gz && md5sum f"
# shellcheck disable=SC2016 # for perl
! there perl || tree 'perl -e '\''
	print join(" ", sort map { $_ * 7 % 13 } 1..12), "\n";
	print `echo from a shell`; exit 0'\'
! there find xargs || tree "mkdir -p a/b/c && touch a/1 a/b/2 a/b/c/3 &&
	find . -type f | sort | xargs -n 1 -P 1 md5sum"
! there python3 || same 0 python3 "$WORK/many.py"
if gcc -static -o "$WORK/static" "$WORK/a.c" 2>/dev/null; then
	same 0 "$WORK/static"
else
	echo "not tried: a static program"
fi
untouched

# The loader says that it does not take it into programs of another kind, and
# into those that gain rights.
refused() {
	"$@" >"$WORK/plain.out" 2>&1 </dev/null
	local plain=$?
	LD_PRELOAD=$LIBVSLEEP "$@" 2>&1 </dev/null |
		grep -v '^ERROR: ld.so: object' >"$WORK/with.out"
	equal "status of $*" "$plain" "${PIPESTATUS[0]}"
	cmp "$WORK/plain.out" "$WORK/with.out" || fail "output of $*"
}
as=()
((EUID)) || as=(setpriv --reuid 65534 --clear-groups)
tried=0
for program in /usr/bin/{mount,passwd,su,chsh,gpasswd,newgrp,sudo,ping}; do
	[[ -u $program || $program == */ping && -x $program ]] || continue
	refused "${as[@]}" "$program" --help
	tried=$((tried + 1))
done
((tried)) || echo "not tried: no program with the setuid bit"
if gcc -m32 -o "$WORK/narrow" "$WORK/a.c" 2>/dev/null; then
	refused "$WORK/narrow"
else
	echo "not tried: a 32-bit program"
fi
untouched

# many at once
for n in {1..300}; do
	LD_PRELOAD=$LIBVSLEEP sh -c "echo $n" >"$WORK/many.$n" 2>&1 &
done
wait
for n in {1..300}; do
	equal "start $n of 300" "$n" "$(<"$WORK/many.$n")"
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
