#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A plugin opened with RTLD_DEEPBIND finds the driver's functions before ours.
# What it allocates is managed all the same, and memory goes from one side to
# the other: however it finds the driver, whenever the loader binds it.  One in
# a namespace of its own has a driver of its own: it gets that one's answers,
# and the doctor names it.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

# plugin NAME OPTION...: crossing.c as a library
plugin() {
	# shellcheck disable=SC2086 # words
	$CC $CUDA_CFLAGS -D_GNU_SOURCE -DPLUGIN -fPIC -shared \
		-o "$WORK/$1.so" "$SRCDIR/programs/crossing.c" "${@:2}" -ldl ||
		fail "$1.so is not built"
}
linked=("$LD_LIBRARY_PATH/libcuda.so.1")
plugin sealed -Wl,-z,relro,-z,now "${linked[@]}"
plugin part -DPART -Wl,-z,relro,-z,now "${linked[@]}"
plugin lazy -Wl,-z,lazy "${linked[@]}"
plugin searching -DBY_DLSYM

# shorten FILE: what is sealed ends before the end of its last page, which the
# loader therefore leaves open
shorten() {
	local place size
	read -r place size < <(readelf -lW "$1" |
		awk '/^  [A-Z_]+ +0x/ {
			if ($1 == "GNU_RELRO") print 64 + n * 56 + 40, $6
			n++ }')
	size=$((size - 16))
	# shellcheck disable=SC2059 # two bytes of it
	printf "$(printf '\\x%02x' $((size & 255)) $((size >> 8 & 255)))" |
		dd of="$1" bs=1 seek="$place" conv=notrunc status=none
}
shorten "$WORK/part.so"

# said NAME NUMBER: so many lines
said() {
	local n
	for ((n = 0; n < $2; n++)); do
		answer "$1"
		SAID+="$ANSWER"$'\n'
	done
}

# plainly ROW: PLAIN is what it says without the preload
plainly() {
	SAID=''
	talk_plain q "$BUILDDIR/crossing" "$WORK/${1%:*}.so" "${1#*:}"
	tell q ""
	said q 9
	end q
	PLAIN=$SAID SAID=''
	matches "$1, plain" "*ok ready*differ 0 0*" "$PLAIN"
	talk p "$BUILDDIR/crossing" "$WORK/${1%:*}.so" "${1#*:}"
	said p 6
}

for row in sealed:now part:now lazy:lazy lazy:now searching:now \
	searching:lazy; do
	plainly "$row"
	sleeps p
	expect state asleep unmanaged-bytes 0 resident-bytes 0 unhooked 0
	equal "$row: what sleeps" $((8 * M)) "$(value live-bytes)"
	at_least "$row: released" $((8 * M)) "$(value released-bytes)"
	wakes p
	ctl 0 doctor --json "${PID[p]}"
	matches "the doctor of $row" '*"verdict": "active"*' "$OUT"
	tell p ""
	said p 3
	equal "what $row says" "$PLAIN" "$SAID"
	end p
done

export VSLEEP_SIM_SHARE=$WORK/share
plainly sealed:apart
sleeps p
equal "what sleeps beside a driver apart" $((4 * M)) "$(value live-bytes)"
wakes p
ctl 5 doctor --json "${PID[p]}"
for finding in two-drivers namespace; do
	matches "the doctor" "*\"finding\": \"$finding\"*" "$OUT"
done
tell p ""
said p 3
equal "what it says beside a driver apart" "$PLAIN" "$SAID"
end p
