#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# vsleepctl doctor says of a process whether vsleep is active in it, and else
# why not and what to do; the exit status tells the two apart.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"
export XDG_RUNTIME_DIR=$WORK/xdg TMPDIR=$WORK/tmp
mkdir "$WORK/xdg" "$WORK/tmp"

# doctor STATUS VERDICT FINDING ARGUMENT...: FINDING '' means none at all.
# What it says for people has the same finding.
doctor() {
	local status=$1 verdict=$2 finding=$3
	shift 3
	ctl "$status" doctor --json "$@"
	JSON=$OUT
	matches "doctor $*" "*\"verdict\": \"$verdict\"*" "$JSON"
	if [[ ! $finding ]]; then
		matches "doctor $*" '*"findings": \[\]*' "$JSON"
		return
	fi
	matches "doctor $*" "*\"finding\": \"$finding\"*" "$JSON"
	ctl "$status" doctor "$@"
	matches "doctor $*" "*  $finding: *" "$OUT"
}
# says TEXT: it is in the last answer
says() { matches "what the doctor says" "*$1*" "$OUT"; }

# stages NAME [VAR=VALUE...] -- STEP...: under the preload
stages() { stages_with "$1" LD_PRELOAD="$LIBVSLEEP" "${@:2}"; }
stages_with() {
	local name=$1 settings=()
	shift
	while [[ $1 != -- ]]; do
		settings+=("$1")
		shift
	done
	talk_plain "$name" "${settings[@]}" "$BUILDDIR/stages" "${@:2}"
	ready "$name"
}
leaves() {
	tell "$1" ""
	end "$1"
}
# examine STATUS VERDICT FINDING [VAR=VALUE...] -- STEP...: of such a program
examine() {
	stages x "${@:4}"
	doctor "$1" "$2" "$3" "${PID[x]}"
	leaves x
}

# ---- how far it has come ---------------------------------------------------

examine 3 no-cuda no-cuda --
examine 3 no-context no-context -- load init
examine 0 active '' -- load init context
doctor 6 no-process no-process "${PID[x]:-2147483647}"
ctl 2 doctor
ctl 2 doctor 1 2
ctl 2 doctor --timeout 0 -- true

# ---- why it is not active --------------------------------------------------

stages_with x LD_PRELOAD= -- load
doctor 1 not-loaded not-preloaded "${PID[x]}"
says "vsleepctl run"
leaves x
stages_with x LD_PRELOAD="$WORK/gone/libvsleep.so" -- load
doctor 1 not-loaded no-library "${PID[x]}"
says "$WORK/gone/libvsleep.so"
leaves x
examine 1 switched-off disabled VSLEEP_DISABLE=1 -- load init context
examine 1 switched-off not-listed VSLEEP_ONLY=stage,python3 -- load init context
says "add stages to VSLEEP_ONLY"

# build NAME OPTION...: a program that waits until its stdin ends
build() {
	local name=$1
	shift
	echo 'int main(void) { char c; return read(0, &c, 1) < 0; }' |
		$CC -w -include unistd.h -o "$WORK/$name" -x c - "$@" \
			2>"$WORK/build.log"
}
# waiting STATUS FINDING PROGRAM [AS...]: of a program that was built
waiting() {
	local fifo=$WORK/fifo hold
	[[ -p $fifo ]] || mkfifo "$fifo"
	LD_PRELOAD=$LIBVSLEEP "${@:4}" "$3" <"$fifo" 2>/dev/null &
	PID[waiting]=$!
	exec {hold}>"$fifo"
	within "the start of $3" runs "$3"
	doctor "$1" not-loaded "$2" "${PID[waiting]}"
	exec {hold}>&-
	wait "${PID[waiting]}"
	unset "PID[waiting]"
}
runs() { [[ $(readlink "/proc/${PID[waiting]}/exe") == "$1" ]]; }

if build static -static; then
	waiting 1 static "$WORK/static"
	doctor 1 not-loaded static -- "$WORK/static"
	doctor 3 no-cuda other-process --timeout 2 -- \
		sh -c "sleep 1000 | $WORK/static"
	says "linked statically"
else
	echo "not tried: no static C library"
fi
build musl -Wl,--dynamic-linker=/lib/ld-musl-x.so.1 || fail "no program"
doctor 1 not-loaded other-loader -- "$WORK/musl"
printf '\177ELF\1\1\1%09d\2\0\3\0' 0 >"$WORK/i386"
chmod +x "$WORK/i386"
doctor 1 not-loaded foreign-architecture -- "$WORK/i386"
says "32-bit program for i386"

# a library that needs a newer C library than the program has
printf 'GLIBC_2.99 { global: newer; };' >"$WORK/map"
echo 'void newer(void) {}' | $CC -shared -o "$WORK/libc.so.6" \
	-Wl,-soname,libc.so.6 -Wl,--version-script="$WORK/map" -x c - ||
	fail "no C library of the future"
echo 'void newer(void); void f(void) { newer(); }' | $CC -shared -nostdlib \
	-o "$WORK/libvsleep.so" -x c - -x none "$WORK/libc.so.6" ||
	fail "no library"
rm "$WORK/libc.so.6"
VSLEEP_LIBRARY=$WORK/libvsleep.so doctor 1 not-loaded old-c-library -- true
says "needs 2.99"

if ((EUID == 0)); then
	build setuid || fail "no program"
	chmod 4755 "$WORK/setuid"
	chmod 755 "$WORK"
	waiting 1 secure "$WORK/setuid" setpriv --reuid 65534 --clear-groups
	chmod 700 "$WORK"
	LD_PRELOAD=$LIBVSLEEP stages_with x -- load init context
	chmod 711 "$WORK"
	OUT=$(setpriv --reuid 65534 --clear-groups "$VSLEEPCTL" doctor \
		"${PID[x]}" 2>&1)
	equal "the status for another user" 1 $?
	says "other-user: "
	chmod 700 "$WORK"
	leaves x
else
	echo "not tried: set-user-ID and other users, which needs root"
fi

# ---- it is active, and its socket? -----------------------------------------

stages x VSLEEP_DIR="$WORK/elsewhere" -- load init context
doctor 5 active socket-elsewhere "${PID[x]}"
says "VSLEEP_DIR=$WORK/elsewhere"
leaves x
stages x VSLEEP_DIR= -- load init context
doctor 5 active socket-elsewhere "${PID[x]}"
says "$WORK/xdg/vsleep"
leaves x

mkdir -m 755 "$WORK/open"
mkdir -m 700 "$WORK/there"
ln -s there "$WORK/link"
long=$WORK/$(printf '%0110d' 0)
for row in "$WORK/open:mode 0755" "$WORK/link:a symbolic link" \
	"$long:longer than" "relative:no absolute path"; do
	examine 1 no-socket no-socket VSLEEP_DIR="${row%%:*}" -- \
		load init context
	says "${row#*:}"
done

stages x -- load init context
stop x
doctor 1 no-answer no-answer "${PID[x]}"
says "stopped"
kill -CONT "${PID[x]}"
leaves x

# ---- what it does not see --------------------------------------------------

cp "$LD_LIBRARY_PATH/libcuda.so.1" "$WORK/libcuda.so.1"
examine 5 active two-drivers -- load init context copy="$WORK/libcuda.so.1"
says "$WORK/libcuda.so.1"
examine 5 active namespace -- load init context apart
matches "of the same one" '*"two-drivers"*' "$JSON"
cat >"$WORK/deep.c" <<'END'
#include <cuda.h>
static int used;
/* before its calls can be led to vsleep */
static void __attribute__((constructor)) use_early(void)
{
	CUcontext context;
	CUdeviceptr p;

	used = !cuInit(0) && !cuDevicePrimaryCtxRetain(&context, 0) &&
	       !cuCtxSetCurrent(context) && !cuMemAlloc(&p, 4 << 20);
}
int use_cuda(void)
{
	return used;
}
END
# shellcheck disable=SC2086 # two words
$CC $CUDA_CFLAGS -fPIC -shared -o "$WORK/deep.so" "$WORK/deep.c" \
	"$LD_LIBRARY_PATH/libcuda.so.1" || fail "no library"
VSLEEP_SIM_SHARE=$WORK/share stages x -- deep="$WORK/deep.so"
doctor 3 no-context no-context "${PID[x]}"
says "RTLD_DEEPBIND"
export VSLEEP_SIM_SHARE=$WORK/share
doctor 1 no-context past-vsleep "${PID[x]}"
says "4.0 MiB on a GPU"
unset VSLEEP_SIM_SHARE
leaves x

cp "$LIBVSLEEP" "$WORK/libvsleep.so.new"
mv "$WORK/libvsleep.so.new" "$WORK/libvsleep.so"
stages_with x LD_PRELOAD="$WORK/libvsleep.so" -- load init context
rm "$WORK/libvsleep.so"
doctor 0 active library-replaced "${PID[x]}"
leaves x
version=$("$VSLEEPCTL" --version)
sed "s/${version#* }\\x00/0.0.9\\x00/g" "$LIBVSLEEP" >"$WORK/libvsleep.so"
stages_with x LD_PRELOAD="$WORK/libvsleep.so" -- load init context
doctor 0 active other-version "${PID[x]}"
says "version 0.0.9"
leaves x
puppet p
ask p fault "error 700"
ctl 1 sleep "${PID[p]}"
doctor 5 active lost-context "${PID[p]}"
says "last-error: "
tell p "leave abort"
end p 134

# a driver that is newer than this vsleep, made of one under another name
mkdir "$WORK/newer"
sed 's/libcuda\.so\.1\x00/libcudo.so.1\x00/g' \
	"$LD_LIBRARY_PATH/libcuda.so.1" >"$WORK/newer/libcudo.so.1"
echo 'int cuFooCreate(unsigned zero) { return (int)zero; }' |
	$CC -shared -fPIC -o "$WORK/newer/libcuda.so.1" \
		-Wl,-soname,libcuda.so.1 -Wl,--no-as-needed -x c - -x none \
		-L"$WORK/newer" -l:libcudo.so.1 -Wl,-rpath,"$WORK/newer" ||
	fail "no driver"
stages x LD_LIBRARY_PATH="$WORK/newer" -- load init context call=cuFooCreate
doctor 5 active unhooked "${PID[x]}"
says "cuFooCreate"
leaves x
puppet p VSLEEP_SIM_FAIL=cuMemCreate:1+:801
for n in {1..20}; do
	ask p "alloc a$n 4096"
done
doctor 5 active no-vmm "${PID[p]}"
says "Device 0 (GPU-"
ask p "free all"
tell p "leave return"
end p

# without file descriptors of memory there are no handles for others
unshared=VSLEEP_SIM_FAIL=cuDeviceGetAttribute:3:1

puppet p "$unshared"
ask p "shared q $((2 * M))"
ask p "array a $M"
doctor 0 active pool-memory "${PID[p]}"
says "2.0 MiB of pool memory"
says "array-memory: 1.0 MiB"
ask p "ipc q" "*"
ask p "alloc plain $M"
ask p "ipc plain" "error *"
doctor 5 active refused "${PID[p]}"
says "VSLEEP_IPC=native"
ask p "free all"
tell p "leave return"
end p

# ---- a command -------------------------------------------------------------

(
	printf '%s\n' "alloc a $M" "ipc a"
	sleep 2
) | env "$unshared" "$VSLEEPCTL" doctor --json -- "$BUILDDIR/puppet" \
	>"$WORK/said" 2>"$WORK/said.err"
equal "the status" 5 $?
matches "the report" '*"verdict": "active"*' "$(<"$WORK/said")"
matches "the report" '*"finding": "refused"*' "$(<"$WORK/said")"
matches "the log" '*"log-warning"*"Its log says: CUDA IPC*' "$(<"$WORK/said")"
equal "lines on stdout" 1 "$(wc -l <"$WORK/said")"
matches "its output" "ok ready*" "$(<"$WORK/said.err")"

printf '#!/usr/bin/env %s\n' "$WORK/i386" >"$WORK/script"
chmod +x "$WORK/script"
doctor 1 not-loaded foreign-architecture -- "$WORK/script"
doctor 3 no-cuda command-failed -- sh -c 'exit 3'
says "status 3"
ctl 127 doctor -- "$WORK/nothing"
matches "what it says" "*No such file*" "$ERR"

# one that goes on is ended, with what it has started
doctor 3 no-cuda ended-by-us --timeout 1 -- \
	sh -c "trap '' TERM HUP; sleep 1000 & echo \$! >$WORK/child; wait"
within "the end of what it started" eval \
	"! kill -0 $(<"$WORK/child") 2>/dev/null"
equal "files left" '' "$(ls "$WORK/tmp")"
