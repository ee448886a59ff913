#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check.sh FOLDER CUDA [PART...]: everything that is checked without a GPU.
#
# Each part builds in a folder of its own under FOLDER, with the headers of the
# toolkit CUDA.  What fails is shown with the end of its log, and the last line
# is "N passed, N failed": tests and steps together.
#
#   gcc       build without a warning, make check
#   clang     build without a warning
#   lint      shell scripts, man pages
#   asan      build with the address and the undefined-behaviour sanitizer,
#             the unit tests and some behaviours
#   tsan      build with the thread sanitizer, unit tests of what has threads
#   dist      make distcheck, without the tests; nothing lacks in the archive
#   headers   build with the oldest headers that will do, some tests
#   packages  make tarball, make deb
#   aarch64   build for aarch64, unit tests under qemu, with AARCH64=all the
#             long ones too; only if it is named, since the compiler and qemu
#             are large
#
# OLDEST_CUDA is the folder of those headers.

set -u
here=$(cd "$(dirname "$0")" && pwd)
top=$(dirname "$here")
out=$1 cuda=$2
shift 2
all=(gcc clang lint asan tsan dist headers packages aarch64)
[[ $# -gt 0 ]] || set -- "${all[@]:0:8}"
for part; do
	[[ " ${all[*]} " == *" $part "* ]] ||
		{ echo "check.sh: no part $part" >&2 && exit 2; }
done
jobs=$(nproc)
passed=0 failed=0 skipped=0
failures=()	# "NAME<TAB>LOG"
mkdir -p "$out"

have() { command -v "$1" >/dev/null; }

# count FOLDER: the tests whose logs automake left there
count() {
	local trs
	while read -r trs; do
		case $(sed -n 's/^:test-result: \([A-Z]*\).*/\1/p' "$trs") in
		PASS | XFAIL) passed=$((passed + 1)) ;;
		SKIP) skipped=$((skipped + 1)) ;;
		*)
			failed=$((failed + 1))
			trs=${trs%.trs}
			failures+=("${trs##*/}	$trs.log")
			;;
		esac
	done < <(find "$1" -name '*.trs' | sort)
}

# step NAME COMMAND...: one thing that passes or fails
step() {
	local name=$1 log from=$SECONDS verdict=ok
	log=$out/${name// /-}.log
	shift
	"$@" >"$log" 2>&1 </dev/null || verdict=FAILED
	if [[ $verdict == ok ]]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		failures+=("$name	$log")
	fi
	echo "$verdict: $name, $((SECONDS - from)) s"
	[[ $verdict == ok ]]
}

# suite NAME FOLDER MAKE-ARGUMENT...: make there, counted test by test.  Many
# tests wait, so there may be more of them than processors.
suite() {
	local name=$1 folder=$2 from=$SECONDS before=$failed ran rc
	local log=$out/${name// /-}.log
	shift 2
	find "$folder" -name '*.trs' -delete
	make -k -C "$folder" -j$((jobs + 1)) "$@" >"$log" 2>&1 </dev/null
	rc=$?
	ran=$((passed + failed))
	count "$folder"
	[[ $((passed + failed)) -gt $ran ]] || rc=1
	if [[ $rc -ne 0 && $failed -eq $before ]]; then
		failed=$((failed + 1))
		failures+=("$name	$log")
	fi
	echo "$([[ $rc -eq 0 ]] && echo ok || echo FAILED): $name," \
		"$((SECONDS - from)) s"
}

# not_here WHY: a part that this machine cannot do
not_here() {
	skipped=$((skipped + 1))
	echo "skipped: $part, $*"
}

# configured NAME ARGUMENT...: configure in $out/NAME unless that is done
configured() {
	local folder=$out/$1
	shift
	[[ ! -f $folder/Makefile ]] || return 0
	mkdir -p "$folder" && cd "$folder" &&
		"$top/configure" -q --with-cuda="$cuda" "$@"
}

part_gcc() {
	step "configure gcc" configured gcc CC=gcc --enable-debug &&
		step "build gcc" make -C "$out/gcc" -j"$jobs" \
			CFLAGS='-O2 -g -Werror' &&
		suite "check gcc" "$out/gcc" CFLAGS='-O2 -g -Werror' check
}

# The programs of make check too, though they are not run.
part_clang() {
	step "configure clang" configured clang CC=clang &&
		step "build clang" make -C "$out/clang" -j"$jobs" \
			CFLAGS='-O2 -g -Werror' check TESTS=
}

# What is sourced is looked at where it is sourced.
lint_scripts() {
	cd "$top" || return 1
	grep -rlIE '^#!.*\b(bash|sh)$' bootstrap .ci tests |
		xargs -n 10 -P "$jobs" shellcheck -x -P SCRIPTDIR -S warning
}

part_lint() {
	step "lint scripts" lint_scripts
	step "lint man pages" mandoc -T lint -W warning "$top"/man/*.[17]
}

# sanitized NAME FLAGS: configure and build.  The sanitizer calls dlsym while it
# starts, so what that runs into is built without it.
sanitized() {
	step "configure $1" configured "$1" CC=gcc --enable-debug \
		CFLAGS="-O1 -g $2" &&
		step "build $1 early" make -C "$out/$1/src" CFLAGS='-O1 -g' \
			base/driver.lo intercept/deepbind.lo \
			intercept/dlsym.lo &&
		step "build $1" make -C "$out/$1" -j"$jobs"
}

# tests_of NAME VARIABLE WITHOUT...: tests by a variable of tests/Makefile
tests_of() {
	local names test
	names=$(make -s --no-print-directory -C "$out/$1/tests" \
		--eval "print: ; @echo \$($2)" print)
	for test in $names; do
		[[ " ${*:3} " == *" $test "* ]] || echo -n "$test "
	done
}

# All is slower with a sanitizer, and some kernels put a program where it wants
# its shadow.
patient=LOG_COMPILER='timeout -k 5 600'
! setarch -R true 2>/dev/null || patient+=' setarch -R'

# Behaviours that go through most of src/ and tools/, and through little that a
# sanitizer does itself: it has signal handlers, and looks for leaks in
# children too.
asan_shell() {
	printf 'shell/%s.sh ' \
		a-group-is-let-go-with-its-client a-lost-context-is-said \
		a-program-puts-itself-to-sleep an-older-driver-is-enough \
		busy-names-what-it-waits-for \
		cancel-takes-back-what-has-not-begun \
		devices-sleep-side-by-side \
		discarded-memory-is-zero-after-wake \
		every-order-of-sleeps-and-wakes \
		every-route-to-the-driver-is-managed free-while-asleep \
		graphs-give-the-same-after-cycles \
		host-memory-is-checked-first \
		managed-memory-sleeps-on-the-host memory-is-shared-by-ipc \
		memory-that-cannot-be-managed-is-native \
		memory-that-the-program-maps-sleeps \
		pause-holds-and-resume-lets-go replies-say-what-happened \
		reset-and-destroy-leave-no-records \
		several-sleep-together-or-none signals-sleep-and-wake \
		sleep-waits-for-a-capture small-allocations-share-segments \
		stream-ordered-memory-sleeps the-end-of-one-that-shares-memory \
		tags-sleep-and-wake-one-by-one the-socket-takes-no-nonsense \
		threads-have-their-own-tags unmanaged-memory-is-stated \
		wake-without-memory-stays-asleep
}

# A preloaded library comes before the sanitizer in the order of libraries.
# Of the faults that are tried elsewhere every eighth is enough, and of those of
# one module none.
part_asan() {
	export ASAN_OPTIONS=verify_asan_link_order=0 TRIALS_EVERY=8
	sanitized asan "-fsanitize=address,undefined \
		-fno-sanitize-recover=undefined -fno-omit-frame-pointer" &&
		suite "check asan sim" "$out/asan/tests/sim" "$patient" check &&
		suite "check asan" "$out/asan/tests" "$patient" check-am \
			TESTS="$(tests_of asan UNIT check_spare_faults \
				check_prepare_faults check_foreign_faults) \
				$(asan_shell)"
	unset ASAN_OPTIONS TRIALS_EVERY
}

# Without faults, hundreds of short lives that have few threads each, without
# what has none but the library's own in their turn, and without writers that
# keep the simulated device busy for longer than a sleep waits.  At the end of
# each case of a test it would wait a second for other threads.
part_tsan() {
	local unit
	export TSAN_OPTIONS=atexit_sleep_ms=20
	sanitized tsan -fsanitize=thread &&
		unit=$(tests_of tsan UNIT check_failures \
			check_faults_system check_foreign_faults \
			check_pool_memory check_spare_faults \
			check_prepare_faults check_page_hash \
			check_page_trouble check_store_pages \
			check_store_spill check_retain check_verify \
			check_prepare_beside) &&
		suite "check tsan" "$out/tsan/tests" "$patient" check-am \
			check_PROGRAMS="$unit" TESTS="$unit"
	unset TSAN_OPTIONS
}

# archived: what git has is in the archive, and only what autoconf makes
# besides.
archived() {
	local made='^(.*/)?Makefile\.in$|^(build-aux|m4)/|^aclocal\.m4$'
	made+='|^config(ure|\.h\.in)$'
	git -C "$top" ls-files --cached --others --exclude-standard |
		grep -v '^\.git' | sort >"$out/dist/tracked"
	tar -tzf "$out"/dist/vsleep-*.tar.gz |
		sed 's,^[^/]*/,,; /\/$/d; /^$/d' |
		grep -vE "$made" | sort >"$out/dist/archived"
	diff "$out/dist/tracked" "$out/dist/archived"
}

part_dist() {
	step "configure dist" configured dist &&
		step "distcheck" make -C "$out/dist" -j"$jobs" distcheck \
			TESTS='' check_PROGRAMS='' \
			DISTCHECK_CONFIGURE_FLAGS="--with-cuda=$cuda \
				CFLAGS=-O0" || return
	if git -C "$top" ls-files >/dev/null 2>&1; then
		step "the archive has all files" archived
	else
		not_here "no git: the files of the archive are not compared"
	fi
}

# build_some NAME ARGUMENT...: what is installed, and the simulated driver
build_some() {
	local folder=$out/$1
	shift
	make -C "$folder" -j"$jobs" SUBDIRS="src tools tests/sim" "$@"
}

# some NAME FOLDER PROGRAMS TESTS MAKE-ARGUMENT...: build and run only these
some() {
	suite "check $1 ${2/\// }" "$out/$1/$2" check-am check_PROGRAMS="$3" \
		TESTS="$4" "${@:5}"
}

part_headers() {
	local flags=CFLAGS='-O1 -g -Werror'
	[[ -f ${OLDEST_CUDA:-}/include/cuda.h ]] ||
		{ not_here "no headers of CUDA 12.4" && return; }
	cuda=$OLDEST_CUDA step "configure headers" configured headers CC=gcc &&
		step "build headers" build_some headers "$flags" &&
		CUDA_HOME='' some headers tests \
			"puppet driver_dlopen driver_getproc" \
			"lint/symbols.sh lint/entry-points.sh \
			shell/an-older-driver-is-enough.sh" "$flags"
}

# Jansson and Check for aarch64: unpacked, not installed.  Their archives
# alone, so that nothing has to be found at run time.
aarch64_libraries() {
	local at=$out/aarch64-root source options
	[[ ! -f $at/done ]] || return 0
	mkdir -p "$at"/lists/partial "$at"/cache/archives/partial &&
		cd "$at" || return 1
	# shellcheck source=/dev/null
	. /etc/os-release
	source=/usr/share/keyrings/$ID-archive-keyring.gpg
	case $ID in
	debian) source+="] http://deb.debian.org/debian $VERSION_CODENAME"
		source+=" main" ;;
	*) source+="] http://ports.ubuntu.com/ubuntu-ports $VERSION_CODENAME"
		source+=" main universe" ;;
	esac
	echo "deb [signed-by=$source" >sources
	options=(-o Dir::State="$at" -o Dir::State::status=/dev/null
		-o Dir::Cache="$at/cache" -o Dir::Etc::sourcelist="$at/sources"
		-o Dir::Etc::sourceparts=/dev/null -o APT::Architecture=arm64
		-o APT::Architectures::=arm64 -o APT::Sandbox::User=root)
	apt-get "${options[@]}" -q update &&
		apt-get "${options[@]}" -q download check libjansson-dev \
			libsubunit-dev uthash-dev || return 1
	for package in *.deb; do
		dpkg-deb -x "$package" . || return 1
	done
	rm -f usr/lib/aarch64-linux-gnu/*.so && touch "done"
}

# All unit tests but the long ones; with AARCH64=all these too.
# What qemu itself cannot do is in qemu.sh.
part_aarch64() {
	local at=$out/aarch64-root run flags=CFLAGS='-O1 -g -Werror'
	local qemu="qemu-aarch64-static -L /usr/aarch64-linux-gnu"
	local sim="check_sim check_simwork check_simcapture check_simproc"
	local long="check_allocator check_arena check_failures \
		check_faults_system" unit
	local shell="shell/an-older-driver-is-enough.sh \
		shell/sleep-gives-memory-back.sh"
	[[ $(uname -m) != aarch64 ]] ||
		{ not_here "this machine is one" && return; }
	have aarch64-linux-gnu-gcc && ${qemu%% *} --version \
		>/dev/null && (aarch64_libraries) >"$out/aarch64.log" 2>&1 ||
		{ not_here "no cross compiler, qemu or libraries" && return; }
	export PKG_CONFIG_LIBDIR=$at/usr/lib/aarch64-linux-gnu/pkgconfig
	export PKG_CONFIG_SYSROOT_DIR=$at
	run="$here/qemu.sh $out/aarch64/tests/sim"
	[[ ${AARCH64-} != all ]] ||
		{ long='' && run="env QEMU_LIMIT=1200 $run"; }
	step "configure aarch64" configured aarch64 \
		--build="$(uname -m)-linux" \
		--host=aarch64-linux-gnu CPPFLAGS="-I$at/usr/include" \
		LDFLAGS="-L$at/usr/lib/aarch64-linux-gnu" &&
		step "build aarch64" build_some aarch64 "$flags" &&
		unit=$(tests_of aarch64 UNIT $long) &&
		some aarch64 tests/sim "$sim" "$sim" "$flags" \
			LOG_COMPILER="$run" &&
		some aarch64 tests "$unit" "$unit" "$flags" \
			LOG_COMPILER="$run" &&
		step "symbols aarch64" "$here/lint/symbols.sh" \
			"$out/aarch64/src/.libs/libvsleep.so"
	if QEMU_LD_PREFIX=/usr/aarch64-linux-gnu \
		"$out/aarch64/tools/vsleepctl" --version >/dev/null 2>&1; then
		QEMU_LD_PREFIX=/usr/aarch64-linux-gnu some aarch64 tests \
			"puppet driver_dlopen driver_getproc" "$shell" "$flags"
	fi
	unset PKG_CONFIG_LIBDIR PKG_CONFIG_SYSROOT_DIR
}

# unpacked: what the tarball has finds its own library
unpacked() {
	local at=$out/unpacked
	rm -rf "$at" && mkdir -p "$at" &&
		tar -C "$at" --strip-components=1 -xzf \
			"$out"/packages/packages/vsleep-*-linux-*.tar.gz &&
		"$here/lint/symbols.sh" "$at/lib/libvsleep.so" &&
		! readelf -d "$at/bin/vsleepctl" | grep NEEDED &&
		"$at/bin/vsleepctl" run cat /proc/self/maps |
			grep -F "$at/lib/libvsleep.so"
}

part_packages() {
	step "configure packages" configured packages &&
		step "make tarball" make -C "$out/packages" -j"$jobs" tarball &&
		step "the tarball, unpacked" unpacked
	if have dpkg-buildpackage && have dh; then
		step "make deb" make -C "$out/packages" -j"$jobs" deb
	else
		not_here "no debhelper: no make deb"
	fi
}

# show LOG: its end, and of what comes before it the lines that give a reason
show() {
	local reason='^FAILED|^FAIL |:[FE]:|: after "|error:|died of|\*\*\*'
	head -n -30 "$1" | grep -nE "$reason" | tail -n 20
	tail -n 30 "$1"
}

for part; do
	"part_$part"
done

for failure in "${failures[@]}"; do
	echo
	echo "== ${failure%%	*}"
	show "${failure#*	}"
done
echo
[[ $skipped -eq 0 ]] || echo "$skipped skipped"
echo "$passed passed, $failed failed"
[[ $failed -eq 0 && $((passed + skipped)) -gt 0 ]]
