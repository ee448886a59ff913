#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A server of someone else's making: llama-server of llama.cpp, a model of
# random weights.  What it answers is the same plain, preloaded and after
# sleeps; what it is asked while it sleeps it answers after the wake.
#
# SERVER is the folder that server/build.sh has filled.

# shellcheck source=lib.sh
. "$HERE/lib.sh"

cycles=5
server=${SERVER:-$HERE/server/built}
ask=$HERE/server/ask.py
# not among the details that are kept
model=$WORK/../../model.gguf
libraries=$(python3 -c 'import nvidia
print(*(p + "/cu13/lib:" + p + "/cublas/lib" for p in nvidia.__path__), sep=":")
' 2>/dev/null)
libraries=/usr/local/cuda/lib64:$libraries${LD_LIBRARY_PATH+:$LD_LIBRARY_PATH}

healthy() { python3 "$ask" "$1" health 2>/dev/null || gone "$2"; }

# serve [-p] NAME PORT: PROBLEM where it does not come up
serve() {
	local flags=()
	[[ $1 != -p ]] || { flags=(-p) && shift; }
	start "${flags[@]}" "$1" 400 LD_LIBRARY_PATH="$libraries" \
		"$server/llama-server" --model "$model" --n-gpu-layers 99 \
		--ctx-size 2048 --parallel 1 --fit off --cache-ram 0 \
		--host 127.0.0.1 --port "$2"
	within 90 healthy "$2" "$1"
	gone "$1" && PROBLEM=${PROBLEM:-"$1 ended: $(tail -n 1 \
		"$WORK/$1.err" | cut -c 1-100)"}
	return 0
}

# complete PORT SEED FILE: what it answers, at most 60 s later
complete() { timeout 60 python3 "$ask" "$1" "$2" >"$3" 2>"$3.err"; }

# same SEED WHEN
same() {
	cmp -s "$WORK/plain-$1" "$WORK/ours-$1" ||
		PROBLEM=${PROBLEM:-"another answer $2"}
}

# cycle NUMBER: asked while it sleeps
cycle() {
	local n=$1 job
	ctl sleep "${PID[ours]}" || PROBLEM=${PROBLEM:-"sleep, $(refusal)"}
	ASLEEP=$REPLY_TEXT
	complete "$port" "$n" "$WORK/ours-$n" &
	job=$!
	sleep 0.4
	kill -0 "$job" 2>/dev/null ||
		PROBLEM=${PROBLEM:-"it answered while asleep"}
	ctl wake "${PID[ours]}" || PROBLEM=${PROBLEM:-"wake, $(refusal)"}
	wait "$job" || PROBLEM=${PROBLEM:-"no answer after wake $n"}
	same "$n" "after wake $n"
}

header server "what it holds" slept "kept and unmanaged" cycles verdict
trap sweep EXIT
if [[ ! -x $server/llama-server ]]; then
	row llama-server - - - - "skipped: no llama-server in \
$server; server/build.sh makes it"
	exit 0
fi
PROBLEM='' ASLEEP=''
port=$((20000 + RANDOM % 20000))
python3 "$HERE/server/model.py" "$model" || PROBLEM="no model"
serve plain "$port"
for ((n = 0; n <= cycles; n++)); do
	[[ -n $PROBLEM ]] || complete "$port" "$n" "$WORK/plain-$n" ||
		PROBLEM="plain: no answer"
done
end plain TERM
port=$((port + 1))
[[ -n $PROBLEM ]] || serve -p ours "$port"
if [[ -z $PROBLEM ]]; then
	complete "$port" 0 "$WORK/ours-0" || PROBLEM="preloaded: no answer"
	same 0 "preloaded"
	for ((n = 1; n <= cycles && !${#PROBLEM}; n++)); do
		cycle "$n"
	done
	complete "$port" 0 "$WORK/ours-0" || PROBLEM="no answer at the end"
	same 0 "at the end"
	ctl status "${PID[ours]}"
	live=$(number live-bytes "$REPLY_TEXT")
	end ours TERM
fi
[[ -z $PROBLEM ]] || excerpt ours
slept=$(number released-bytes "$ASLEEP")
kept=$(($(number kept-bytes "$ASLEEP") +
	$(number unmanaged-bytes "$ASLEEP")))
at_least "$slept" $((400 << 20)) || PROBLEM=${PROBLEM:-"too little slept"}
[[ $kept -eq 0 ]] || PROBLEM=${PROBLEM:-"$(mib "$kept") MiB stay"}
rm -f "$model"
row llama-server "$(mib "${live:-0}") MiB" "$(mib "$slept") MiB" \
	"$(mib "$kept") MiB" "$((n - 1))" "$(verdict "$PROBLEM")"
