#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# packages.sh BUILD [SUITE...]: the packages of "make deb" and "make tarball",
# tried in clean roots of Debian or Ubuntu.
#
# In each root (bullseye and bookworm, where none is named) the tarball is
# unpacked, in one of this machine's own release the package is installed, and
# a program sleeps and wakes on the simulated driver.  Program and driver are
# built for the first root, so name the oldest first.  Needs root, debootstrap
# and the network.

set -eu
[[ $# -ge 1 ]] || { echo "usage: packages.sh BUILD [SUITE...]" >&2; exit 2; }
build=$(cd "$1" && pwd)
shift
[[ $# -gt 0 ]] || set -- bullseye bookworm
source=$(cd "$(dirname "$0")/.." && pwd)
[[ $(id -u) -eq 0 ]] || { echo "packages.sh: needs root" >&2; exit 77; }
command -v debootstrap >/dev/null ||
	{ echo "packages.sh: needs debootstrap" >&2; exit 77; }
roots=$(mktemp -d)
mounted=()

clean_up() {
	local root
	for root in "${mounted[@]}"; do
		umount -l "$root/proc" || true
	done
	rm -rf --one-file-system "$roots"
}
trap clean_up EXIT
trap 'exit 1' INT TERM HUP

die() { echo "packages.sh: $*" >&2; exit 1; }

make_root() {
	local mirror=http://deb.debian.org/debian root=$roots/$1
	case $1 in
	buster) mirror=http://archive.debian.org/debian ;;
	focal | jammy | noble) mirror=http://archive.ubuntu.com/ubuntu ;;
	esac
	debootstrap --variant=minbase "$1" "$root" \
		"$mirror" >"$roots/$1.log" 2>&1 ||
		{ tail "$roots/$1.log" >&2; die "no root of $1"; }
	mount -t proc proc "$root/proc"
	mounted+=("$root")
}

# make_program ROOT CUDA: the simulated driver and the demo, built in there
make_program() {
	local at=$1/build flags="-std=gnu11 -O1 -D_GNU_SOURCE -pthread -Isrc"
	chroot "$1" apt-get install -qq -y --no-install-recommends gcc \
		libc6-dev >"$roots/gcc.log" 2>&1 ||
		{ tail "$roots/gcc.log" >&2; die "no compiler in $1"; }
	mkdir -p "$at"
	tar -C "$source" -c src/base tests | tar -C "$at" -x
	cp -r "$2/include" "$at/cuda"
	flags+=" -Icuda -Itests -Itests/gpu/programs"
	chroot "$1" /bin/sh -euc "cd /build
		gcc $flags -DSIM_VERSION=13000 -fPIC -fvisibility=hidden \
			-shared -Wl,-soname,libcuda.so.1 -Wl,-Bsymbolic \
			-Wl,-z,nodelete -o libcuda.so.1 tests/sim/sim_*.c
		gcc $flags -o demo tests/demo/demo.c -ldl" ||
		die "no program in $1"
}

# inside ROOT VSLEEPCTL: a program sleeps and wakes there
inside() {
	chroot "$1" /usr/bin/env -i PATH=/usr/bin:/bin CTL="$2" \
		LD_LIBRARY_PATH=/try VSLEEP_DIR=/try/run \
		/bin/bash -euc '
		cd /try
		rm -f out
		$CTL run ./demo work 64 >out &
		trap "kill -KILL $! 2>/dev/null || true" EXIT
		until grep -q "^step" out; do kill -0 $!; sleep 0.1; done
		$CTL sleep $! >sleep.out
		$CTL status $! | grep -x state=asleep
		$CTL wake $! >wake.out
		kill -TERM $!
		wait $!
		tail -n 1 out | grep " 0 wrong$"'
}

make -s -C "$build" tarball deb >"$roots/make.log" 2>&1 ||
	{ tail -n 30 "$roots/make.log" >&2; die "make tarball deb failed"; }
tarball=$(ls "$build"/packages/vsleep-*-linux-*.tar.gz)
package=$(ls "$build"/packages/vsleep_*.deb)
release=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
cuda=$(sed -n 's/^cuda_home = //p' "$build/Makefile")
for suite; do
	make_root "$suite"
done
make_program "$roots/$1" "$cuda"

for suite; do
	root=$roots/$suite
	mkdir "$root/try"
	cp "$roots/$1/build/libcuda.so.1" "$roots/$1/build/demo" "$root/try"
	tar -C "$root/try" -xzf "$tarball"
	inside "$root" "$(echo /try/vsleep-*/bin/vsleepctl)" ||
		die "the tarball does not work in $suite"
	echo "packages.sh: $suite: the tarball works"
	[[ $suite == "$release" ]] || continue
	rm -rf "$root"/try/vsleep-* "$root/try/run"
	cp "$package" "$root/try"
	chroot "$root" apt-get install -qq -y --no-install-recommends \
		"/try/${package##*/}" >"$roots/apt.log" 2>&1 ||
		{ tail "$roots/apt.log" >&2; die "no package in $suite"; }
	inside "$root" vsleepctl || die "the package does not work in $suite"
	echo "packages.sh: $suite: the package works"
done
