#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Ways of allocating: what of each sleeps, what is kept and why, and whether the
# bytes are equal after five cycles.  The rows are in $OUT/coverage.md too.

# shellcheck source=lib.sh
. "$HERE/lib.sh"

cycles=5
COVERAGE=$WORK/coverage
rm -rf "$COVERAGE" "$OUT/coverage.md"
mkdir -p "$COVERAGE"
index=100

# total KEY TEXT: the sum over the answers of all processes
total() {
	awk -F= -v key="$1" '$1 == key { sum += $2 } END { printf "%d", sum }' \
		<<<"$2"
}

# stays TEXT: the bytes that are still on the device
stays() { echo $(($(total kept-bytes "$1") + $(total unmanaged-bytes "$1"))); }

# reasons TEXT: "BYTES why" for each kind that is kept or unmanaged
reasons() {
	sed -n -e 's/^kept=\([0-9]* .*\)/\1/p' \
		-e 's/^unmanaged-\([a-z]*\)-bytes=\([0-9]*\)/\2 \1 memory/p' \
		<<<"$1" | sort -rn | uniq
}

# in_mib BYTES: with a digit where it is little
in_mib() {
	if (($1 % 1048576 && $1 < 10 << 20)); then
		awk "BEGIN { printf \"%.1f MiB\", $1 / 1048576 }"
	else
		echo "$(($1 / 1048576)) MiB"
	fi
}

# why_kept TEXT: the cell of the table
why_kept() {
	local bytes why text=''
	while read -r bytes why; do
		[[ -z $bytes ]] || text+="${text:+; }$(in_mib "$bytes"): $why"
	done < <(reasons "$1")
	echo "${text:-0}"
}

ready() { marked "$1" filled || gone "$1"; }
stepped() { marked "$1" "step $2 " || gone "$1"; }

# judge EXPECT BYTES TEXT: what is not as expected of the bytes that it holds
judge() {
	local released stay most=$(($2 * 97 / 100))
	released=$(total released-bytes "$3") stay=$(stays "$3")
	case $1 in
	sleeps)
		at_least "$released" "$most" ||
			echo "of $(mib "$2") MiB $(mib "$released") slept"
		[[ $stay -eq 0 ]] || echo "$(in_mib "$stay") stay" ;;
	kept)
		at_least "$stay" "$most" || echo "$(in_mib "$stay") are said"
		[[ $stay -eq 0 || -n $(reasons "$3") ]] || echo "no reason" ;;
	none)
		[[ $stay -eq 0 ]] || echo "$(in_mib "$stay") are said" ;;
	esac
}

# in_use VARIABLE NAME: the process's own bytes on the device, else all that are
# in use, where it matters
in_use() {
	local bytes
	[[ -n $LEAST ]] || return
	ctl status $TREE "${PID[$2]}"
	bytes=$(total used-bytes "$REPLY_TEXT")
	((bytes)) || bytes=$(($(smi_used) << 20))
	printf -v "$1" %s "$bytes"
}

# cycle NAME NUMBER: to sleep, awake, and a step; ASLEEP is the sleep's answer
cycle() {
	local name=$1
	in_use BEFORE "$name"
	ctl sleep $TREE "${PID[$name]}" ||
		[[ $EXPECT != sleeps && $CTL_STATUS -eq 5 ]] ||
		PROBLEM=${PROBLEM:-"sleep, $(refusal)"}
	ASLEEP=$REPLY_TEXT
	in_use AFTER "$name"
	ctl wake $TREE "${PID[$name]}" ||
		PROBLEM=${PROBLEM:-"wake, $(refusal)"}
	tell "$name" go
	within 60 stepped "$name" "$2" && ! gone "$name" ||
		PROBLEM=${PROBLEM:-"no step after wake $2"}
}

# cover TITLE SLEPT KEPT EQUAL VERDICT: a row of both tables
cover() {
	row "$1" "$2" "$3" "$4" "$5"
	[[ $5 != skipped* ]] || set -- "$1" - "not tried: ${5#skipped: }" -
	echo "| $1 | $2 | $3 | $4 |" >"$COVERAGE/$INDEX"
}

# way TITLE EXPECT NAME [--tree] [--least] COMMAND...: --least holds what is in
# use after the sleep against what was before
way() {
	local title=$1 EXPECT=$2 name=$3 TREE='' LEAST='' n bytes equal=no
	local PROBLEM='' ASLEEP='' BEFORE=0 AFTER=0 STATUS
	shift 3
	while [[ $1 == --* ]]; do
		[[ $1 == --tree ]] && TREE=--tree || LEAST=1
		shift
	done
	start -p -i "$name" 240 "$@" || PROBLEM="it did not start"
	within 150 ready "$name" || PROBLEM="it was never ready"
	for ((n = 1; n <= cycles; n++)); do
		gone "$name" && break
		[[ -n $PROBLEM ]] || cycle "$name" "$n"
	done
	gone "$name" || tell "$name" quit
	within 60 gone "$name" || end "$name"
	finish "$name"
	if [[ $STATUS -eq 77 ]]; then
		cover "$title" - - - \
			"skipped: $(tail -n 1 "$WORK/$name.err")"
		return
	fi
	[[ $STATUS -ne 0 ]] || ! grep -qx equal "$WORK/$name.out" || equal=yes
	[[ $equal == yes ]] || PROBLEM=${PROBLEM:-"exit status $STATUS"}
	bytes=$(number bytes "$(cat "$WORK/$name.out")")
	PROBLEM=${PROBLEM:-$(judge "$EXPECT" "$bytes" "$ASLEEP")}
	[[ -z $LEAST ]] || at_most "$AFTER" $((BEFORE - bytes + (16 << 20))) ||
		PROBLEM=${PROBLEM:-"$(mib "$AFTER") of $(mib "$BEFORE") MiB are\
 in use after a sleep of $(mib "$bytes")"}
	[[ -z $PROBLEM ]] || excerpt "$name"
	[[ -z $PROBLEM || $equal == no ]] || [[ $PROBLEM != *wake* ]] ||
		equal=no
	cover "$title" "$(in_mib "$(total released-bytes "$ASLEEP")")" \
		"$(why_kept "$ASLEEP")" "$equal" "$(verdict "$PROBLEM")"
}

# try ARGUMENT...: a way, beside others
try() {
	index=$((index + 1))
	[[ -z ${ONLY-} || " $ONLY " == *" $3 "* ]] || return 0
	while (($(jobs -rp | wc -l) >= ${JOBS:-5})); do
		wait -n
	done
	INDEX=$index way "$@" &
}

# bare TITLE EXPECT NAME [--tree]: of the program ways
bare() { try "$@" "$BIN/ways" "$3"; }

# python TITLE NAME VAR=VALUE... FRAMEWORK: of ways.py; all of it sleeps
python() {
	local title=$1 name=$2 flags=()
	shift 2
	[[ $1 != --least ]] || { flags=("$1") && shift; }
	try "$title" sleeps "$name" "${flags[@]}" "${@:1:$#-1}" \
		python3 "$HERE/programs/ways.py" "${*: -1}"
}

frameworks() {
	local expandable=expandable_segments:True
	local native=backend:cudaMallocAsync
	local tenth=XLA_PYTHON_CLIENT_MEM_FRACTION
	local client=XLA_PYTHON_CLIENT_ALLOCATOR
	python "PyTorch" torch torch
	python "PyTorch, expandable_segments:True" torch-expandable --least \
		PYTORCH_CUDA_ALLOC_CONF=$expandable \
		PYTORCH_ALLOC_CONF=$expandable torch
	python "PyTorch, backend:cudaMallocAsync" torch-async \
		PYTORCH_CUDA_ALLOC_CONF=$native PYTORCH_ALLOC_CONF=$native torch
	python "CuPy, default pool" cupy cupy
	python "CuPy, MemoryAsyncPool" cupy-async cupy-async
	python "JAX, default (preallocates)" jax $tenth=.02 jax
	python "JAX, without preallocation" jax-grows \
		XLA_PYTHON_CLIENT_PREALLOCATE=false jax
	python "JAX, allocator cuda_async" jax-async $client=cuda_async \
		$tenth=.02 jax
	python "JAX, allocator platform" jax-platform $client=platform jax
}

# at NAME: its progress; past NAME PROGRESS: is it farther than that
at() { cat "$WORK/$1.progress" 2>/dev/null; }
past() { [[ -n $(at "$1") && $(at "$1") != "$2" ]] || gone "$1"; }

# Two processes that send each other tensors, and never wait for a line.
tensors() {
	local title="torch.multiprocessing" name=shared n last='' equal=no
	local PROBLEM='' ASLEEP='' STATUS=125 program
	program=(STEPS=150 python3 "$HERE/programs/share.py")
	start plain-$name 150 "${program[@]}" && finish plain-$name
	if [[ $STATUS -eq 77 ]]; then
		cover "$title" - - - \
			"skipped: $(tail -n 1 "$WORK/plain-$name.err")"
		return
	fi
	start -p $name 200 "${program[@]}"
	for ((n = 0; n < cycles; n++)); do
		within 90 past $name "$last"
		gone $name && PROBLEM=${PROBLEM:-"it ended after $n cycles"}
		last=$(at $name)
		ctl sleep --tree "${PID[$name]}" ||
			PROBLEM=${PROBLEM:-"sleep, $(refusal)"}
		ASLEEP=$REPLY_TEXT
		ctl wake --tree "${PID[$name]}" ||
			PROBLEM=${PROBLEM:-"wake, $(refusal)"}
	done
	finish $name
	cmp -s "$WORK/plain-$name.out" "$WORK/$name.out" && equal=yes
	[[ $equal == yes ]] || PROBLEM=${PROBLEM:-"output differs"}
	PROBLEM=${PROBLEM:-$(judge sleeps 1 "$ASLEEP")}
	[[ -z $PROBLEM ]] || excerpt $name
	cover "$title" "$(in_mib "$(total released-bytes "$ASLEEP")")" \
		"$(why_kept "$ASLEEP")" "$equal" "$(verdict "$PROBLEM")"
}

header "way of allocating" slept "kept, and why" \
	"equal after $cycles cycles" verdict
trap sweep EXIT
index=106	# what it gives back shows in the device's free memory alone
bare "cudaMallocManaged" sleeps managed
wait
index=100
bare "cudaMalloc" sleeps plain
bare "cudaMallocPitch, cudaMalloc3D" sleeps pitched
bare "cudaMallocAsync, default pool" sleeps async
bare "cudaMallocFromPoolAsync, a pool of its own" sleeps async-pool
bare "the same as RMM does" sleeps async-rmm
index=110
bare "cuMemCreate, as expandable segments" sleeps vmm-segments
bare "cuMemCreate, a growing pool as llama.cpp's" sleeps vmm-growing
bare "cuMemCreate, aliases, read-only, no access" sleeps vmm-aliases
bare "cuMemCreate, located on the host" none vmm-host
bare "cuMemCreate, exported" kept exported
bare "cuMemCreate, imported" kept imported --tree
bare "CUDA IPC, two processes" sleeps ipc --tree
try "CUDA IPC to one without vsleep, VSLEEP_IPC=native" kept ipc-lent \
	VSLEEP_IPC=native "$BIN/ways" ipc-lent
bare "graph memory nodes, not in use" sleeps graph-idle
bare "graph memory nodes, in use" kept graph-held
bare "CUDA arrays" kept array
frameworks
if [[ -z ${ONLY-} || " $ONLY " == *" shared "* ]]; then
	INDEX=999 tensors &
fi
wait
{
	echo "| Way of allocating | Slept | Kept, and why" \
		"| Equal after $cycles cycles |"
	echo "|---|---|---|---|"
	cat "$COVERAGE"/* 2>/dev/null
} >"$OUT/coverage.md"
