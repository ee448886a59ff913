#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A program that looks names up sees the same with the library preloaded.
# LIBVSLEEP: the built library.  LD_LIBRARY_PATH: has a libcuda.so.1.
programs=$(cd "$(dirname "$0")/../programs" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

build() {
	${CC:-cc} -std=gnu11 -O1 -fPIC -o "$work/$1" "$programs/$2" "${@:3}" ||
		exit 1
}

[ -f "${LIBVSLEEP:-}" ] || { echo "LIBVSLEEP='$LIBVSLEEP': no file"; exit 1; }
library=$(readlink -f "$LIBVSLEEP")
build libdlsym-lower.so dlsym-lower.c -shared
build libdlsym-upper.so dlsym-upper.c -shared -ldl
build dlsym-main dlsym-main.c -L"$work" -Wl,--no-as-needed \
	-ldlsym-upper -ldlsym-lower -lpthread -ldl

export LD_LIBRARY_PATH=$work${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
cd "$work" || exit 1
./dlsym-main > plain || { echo "the plain run failed"; cat plain; exit 1; }
grep -qx 'whose: upper over lower' plain && grep -qx 'cuFooCreate: 42' plain &&
	grep -qx '16 of 16 threads always found the same' plain ||
	{ echo "the plain run is not what it should be"; cat plain; exit 1; }
LD_PRELOAD=$library timeout 60 ./dlsym-main > preloaded ||
	{ echo "the preloaded run failed: $?"; exit 1; }
diff plain preloaded
