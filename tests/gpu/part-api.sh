#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The examples of the C API, with and without the preload.

# shellcheck source=cycles.sh
. "$HERE/cycles.sh"

python=(python3 "$HERE/../examples/vllm_uses.py" "${WEIGHTS_MIB:-2048}"
	"${CACHE_MIB:-1024}")

# example [-p] NAME STATUS SAYS COMMAND...: so it must end, and say that
example() {
	local flags=() name status says all run=plain problem=''
	[[ $1 != -p ]] || { flags=(-p) run=preloaded && shift; }
	name=$1-$run status=$2 says=$3
	aside_run "${flags[@]}" "$name" "${@:4}"
	result "$name"
	all=$(cat "$WORK/$name.out" "$WORK/$name.err")
	echo "--- $name"
	echo "$all"
	grep -q "$says" <<<"$all" || problem="it does not say '$says'"
	[[ $STATUS -eq $status ]] ||
		problem="exit status $STATUS, expected $status"
	row "$1" "$run" "$TOOK s" "$(tail -n 1 <<<"$all" | cut -c 1-60)" \
		"$(verdict "$problem")"
}

header example run took "said at the end" verdict
example sleeper 0 "vsleep is not here" "$BIN/sleeper"
example -p sleeper 0 "asleep" "$BIN/sleeper"
example vllm_uses.py 1 "vsleep is not here" "${python[@]}"
example -p vllm_uses.py 0 . "${python[@]}"
