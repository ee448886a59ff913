#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# vsleepctl run starts nothing when the loader would not take the library, be it
# no library or one that wants a newer C library, and says why.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

# refused LIBRARY PATTERN: run says so and ends with 127
refused() {
	rm -f "$WORK/started"
	VSLEEP_LIBRARY=$1 ctl 127 run touch "$WORK/started"
	matches "what is said of $1" "$2" "$ERR"
	equal "lines" 1 "$(wc -l <<<"$ERR")"
	[[ ! -e $WORK/started ]] || fail "the program was started"
}

echo "no library" >"$WORK/text.so"
refused "$WORK/text.so" "vsleepctl: $WORK/text.so cannot be preloaded *"
refused "$WORK/none.so" "*none.so: No such file or directory"

# newer.so is what the library was linked with, and then an older one
cc=${CC:-cc}
echo 'GLIBC_2.99 { newer; };' >"$WORK/new.map"
echo 'GLIBC_2.1 { newer; };' >"$WORK/old.map"
echo 'int newer(void); int newer(void) { return 0; }' >"$WORK/newer.c"
echo 'int newer(void); int wants(void); int wants(void) { return newer(); }' \
	>"$WORK/wants.c"
make_newer() {
	$cc -shared -fPIC -Wl,-soname,newer.so \
		-Wl,--version-script="$WORK/$1.map" \
		-o "$WORK/newer.so" "$WORK/newer.c"
}
if make_newer new && $cc -shared -fPIC -Wl,-rpath,"$WORK" \
	-o "$WORK/wants.so" "$WORK/wants.c" "$WORK/newer.so"; then
	VSLEEP_LIBRARY=$WORK/wants.so ctl 0 run touch "$WORK/started"
	[[ -e $WORK/started ]] || fail "the program was not started"
	make_newer old
	refused "$WORK/wants.so" "*wants.so cannot be preloaded*GLIBC_2.99*"
else
	echo "not tried: another version, for want of a compiler"
fi

# what the program says and how it ends is its own
VSLEEP_LIBRARY=$LIBVSLEEP ctl 5 run sh -c 'echo out; echo err >&2; exit 5'
equal "its output" out "$OUT"
equal "its errors" err "$ERR"
