#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What killed processes left, and a file for a number that another process has
# now, are in nobody's way.  Another preloaded library that wraps the same
# functions works beside this one, before it and after it; so does an allocator,
# where jemalloc is installed (JEMALLOC names another file).

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

works() {
	ask "$1" "alloc x $((3 * M))"
	ask "$1" "fill x 1"
	sleeps "$1"
	wakes "$1"
	ask "$1" "check x" "ok bad=0"
}

for _ in {1..20}; do
	for n in {1..5}; do
		talk "k$n" "$BUILDDIR/puppet"
	done
	for n in {1..5}; do
		ready "k$n"
		kill -s KILL "${PID[k$n]}"
		{ end "k$n" 137; } 2>/dev/null
	done
done
sockets=("$VSLEEP_DIR"/*.sock)
at_least "sockets left" 90 "${#sockets[@]}"

left=${sockets[0]}

puppet p
sleep infinity &
PID[other]=$!
mv "$left" "$VSLEEP_DIR/$(sock "${PID[other]}")"
ctl 6 status "${PID[other]}"
ctl 6 sleep "${PID[other]}"
ctl 0 list
equal "processes listed" 1 "$(grep -c . <<<"$OUT")"
matches "the list" "*${PID[p]}*" "$OUT"
equal "what is in the directory" "$(sock "${PID[p]}")" "$(ls "$VSLEEP_DIR")"
! gone other || fail "the process with the number has gone"
works p
leave p

"${CC:-cc}" -shared -fPIC -o "$WORK/stacked.so" -D_GNU_SOURCE \
	"$SRCDIR/programs/stacked.c" -ldl || fail "stacked.c is not compiled"
start_plain s "$BUILDDIR/signals" sigaction after
end s 6
plain=$(<"$WORK/s.text")
for order in "$WORK/stacked.so:$LIBVSLEEP" "$LIBVSLEEP:$WORK/stacked.so"; do
	start_plain s LD_PRELOAD="$order" "$BUILDDIR/signals" sigaction after
	end s 6
	equal "what it sees" "$plain" "$(<"$WORK/s.text")"
	talk_plain q LD_PRELOAD="$order" "$BUILDDIR/puppet"
	ready q
	works q
	kill -s USR1 "${PID[q]}"
	within "a sleep by signal" is q state asleep
	kill -s USR2 "${PID[q]}"
	within "a wake by signal" is q state awake
	leave q
	equal "what it says" '' "$(<"$WORK/q.err")"
done

jemalloc=${JEMALLOC:-$(ldconfig -p 2>/dev/null |
	sed -n 's/.*libjemalloc\.so\.2.* => //p' | head -n 1)}
if [[ -z $jemalloc ]]; then
	echo "not tried: no jemalloc"
	exit 0
fi
for order in "$jemalloc:$LIBVSLEEP" "$LIBVSLEEP:$jemalloc"; do
	talk_plain q LD_PRELOAD="$order" "$BUILDDIR/puppet"
	ready q
	for n in {1..50}; do
		ask q "alloc a$n $((n * 7000))"
	done
	works q
	leave q
	equal "what it says" '' "$(<"$WORK/q.err")"
done
