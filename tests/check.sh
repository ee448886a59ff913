#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check.sh FOLDER CUDA [PART...]: everything that is checked without a GPU.
#
# Each part builds in a folder of its own under FOLDER, with the headers of the
# toolkit CUDA.  What fails is shown with the end of its log, and the last line
# is "N passed, N failed": tests and steps together.
#
#   gcc    build without a warning, make check
#   clang  build without a warning
#   lint   shell scripts, man pages
#   asan   build with the address and the undefined-behaviour sanitizer, check
#   tsan   build with the thread sanitizer, unit tests
#   dist   make distcheck

set -u
here=$(cd "$(dirname "$0")" && pwd)
top=$(dirname "$here")
out=$1 cuda=$2
shift 2
[[ $# -gt 0 ]] || set -- gcc clang lint asan tsan dist
for part; do
	[[ $part =~ ^(gcc|clang|lint|asan|tsan|dist)$ ]] ||
		{ echo "check.sh: no part $part" >&2 && exit 2; }
done
jobs=$(nproc)
passed=0 failed=0 skipped=0
failures=()	# "NAME<TAB>LOG"
mkdir -p "$out"

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

# suite NAME FOLDER MAKE-ARGUMENT...: make there, counted test by test
suite() {
	local name=$1 folder=$2 from=$SECONDS before=$failed ran rc
	local log=$out/${name// /-}.log
	shift 2
	find "$folder" -name '*.trs' -delete
	make -k -C "$folder" -j"$jobs" "$@" >"$log" 2>&1 </dev/null
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
		xargs shellcheck -x -P SCRIPTDIR -S warning
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
			base/driver.lo intercept/dlsym.lo &&
		step "build $1" make -C "$out/$1" -j"$jobs"
}

# tests_of NAME WITHOUT VARIABLE...: tests by variables of tests/Makefile
tests_of() {
	local folder=$out/$1/tests without=$2 names
	shift 2
	names=$(make -s --no-print-directory -C "$folder" \
		--eval "print: ; @echo ${*/#/\$}" print)
	echo " $names " | sed "s, $without , ,"
}

# All is slower with a sanitizer.
patient=LOG_COMPILER='timeout -k 5 600'

# A preloaded library comes before the sanitizer in the order of libraries.  A
# small quarantine, since tests look for memory that grows.  The sanitizer is
# not inert, and the lints know nothing of it.
part_asan() {
	export ASAN_OPTIONS=verify_asan_link_order=0
	ASAN_OPTIONS+=:quarantine_size_mb=4:thread_local_quarantine_size_kb=64
	sanitized asan "-fsanitize=address,undefined \
		-fno-sanitize-recover=undefined -fno-omit-frame-pointer" &&
		suite "check asan sim" "$out/asan/tests/sim" "$patient" check &&
		suite "check asan" "$out/asan/tests" "$patient" check-am \
			TESTS="$(tests_of asan \
				shell/inert-where-there-is-no-cuda.sh \
				'(UNIT)' '(SHELL_TESTS)')"
	unset ASAN_OPTIONS
}

# check_failures is left out: hundreds of short lives, each with few threads.
part_tsan() {
	sanitized tsan -fsanitize=thread &&
		suite "check tsan" "$out/tsan/tests" "$patient" check-am \
			TESTS="$(tests_of tsan check_failures '(UNIT)')"
}

part_dist() {
	step "configure dist" configured dist &&
		step "distcheck" make -C "$out/dist" -j"$jobs" distcheck \
			DISTCHECK_CONFIGURE_FLAGS=--with-cuda="$cuda"
}

for part; do
	"part_$part"
done

for failure in "${failures[@]}"; do
	echo
	echo "== ${failure%%	*}"
	tail -n 30 "${failure#*	}"
done
echo
[[ $skipped -eq 0 ]] || echo "$skipped skipped"
echo "$passed passed, $failed failed"
[[ $failed -eq 0 && $passed -gt 0 ]]
