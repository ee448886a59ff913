#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The two programs of the documentation put themselves to sleep, wake, and find
# their bytes; without vsleep the one in C works as well.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

examples=$SRCDIR/examples

# says NAME LINE...: it printed these lines; what a callback says may come
# before or after what the program itself does
says() {
	equal "what $1 says" "$(printf '%s\n' "${@:2}" | sort)" \
		"$(sort "$WORK/$1.text")"
}

start c "$BUILDDIR/sleeper"
end c
says c "about to sleep" "sleep: 0 MiB on the device, 64 MiB asleep" \
	"wake: 64 MiB on the device, 0 MiB asleep" "awake again" \
	"0 bytes are wrong"
lawful c

start_plain plain "$BUILDDIR/sleeper"
end plain
says plain "sleep: vsleep is not here" "wake: vsleep is not here" \
	"0 bytes are wrong"
clean plain

command -v python3 >/dev/null || skip "there is no python3"
start py python3 "$examples/vllm_uses.py" 24 8
end py
equal "the errors" '' "$(<"$WORK/py.err")"
for line in "32 MiB released" "24 MiB copied" "no byte was copied" \
	"the cache sleeps while they load" "the new weights are there" \
	"the program is held" "the weights stay on the device" \
	"it runs again"; do
	grep -qx "  $line" "$WORK/py.text" || fail "it does not say: $line"
done
equal "weights found right" 2 \
	"$(grep -c "the weights are as they were" "$WORK/py.text")"
equal "caches found zero" 3 "$(grep -c "the cache is zero" "$WORK/py.text")"
lawful py

start_plain alone python3 "$examples/vllm_uses.py"
end alone 1
matches "without vsleep" "vsleep is not here:*" "$(<"$WORK/alone.err")"
