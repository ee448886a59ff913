#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The GPU check: unmodified programs, plain and under vsleep, on a real GPU.

here=$(cd "$(dirname "$0")" && pwd)
parts=(ways matrix frameworks allocators server devices big drain contend alloc
	speed exit life tools api queries beside discard hash backups endure)
lib=$here/../../src/.libs/libvsleep.so
ctl=$here/../../tools/vsleepctl
bin=''

usage() {
	cat <<END
usage: run.sh [--lib FILE] [--ctl FILE] [--bin DIR] PART...

  ways     what of each way of allocating sleeps: the coverage table
  matrix   C, C++ and PyTorch: plain, preloaded and with cycles from outside
  frameworks  the same for programs that use Python's frameworks
  allocators  frameworks with the other allocators that they have
  server   a server of someone else's making answers as before
  devices  the same for programs that use two devices, or the second
  big      32 GiB asleep and back, by vsleepctl and by signals
  drain    a sleep while a kernel, a queue, a copy or a capture is under way
  contend  wake while another process holds the memory
  alloc    what allocations and launches cost
  speed    first sleep and wake beside the flow of vLLM's sleep mode
  exit     programs that end awake, asleep or in between
  life     children, signals and time limits of programs that are held
  tools    what the operator is told: doctor, bytes by cause, GPUs and names
  api      the example of the C API
  queries  answers about pointers, error codes, captures
  beside   with the sanitizer, a profile, other preloads, other namespaces
  discard  what was dropped comes back as zeros
  hash     the sums of pages: right, sensitive, and how fast
  backups  files past the host limit, verified wakes, what stays and goes
  endure   sixty cycles leave nothing behind
  all      all of these

Each part takes at most 8 minutes.  Details go to \$OUT (default: a new folder).
--bin DIR keeps the compiled programs there; NVCC names the compiler, and
VSLEEP_HOST_LIMIT (100G) bounds the host memory for backups.  ONLY="NAME..."
leaves the other programs of the first four parts and devices out, and other
groups of beside; JOBS (5) is how many of them run at once.  SERVER is a folder
that server/build.sh filled.
END
}

while [[ ${1-} == --* ]]; do
	case $1 in
	--lib) lib=${2-} ;;
	--ctl) ctl=${2-} ;;
	--bin) bin=${2-} ;;
	--help) usage && exit 0 ;;
	*) usage >&2 && exit 2 ;;
	esac
	shift
	shift || break
done
[[ $# -gt 0 ]] || { usage && exit 0; }
[[ $1 != all ]] || set -- "${parts[@]}"
for part; do
	[[ -f $here/part-$part.sh ]] ||
		{ echo "run.sh: no part $part" >&2 && exit 2; }
done
for file in "$lib" "$ctl"; do
	[[ -r $file ]] ||
		{ echo "run.sh: no $file: build vsleep first" >&2 && exit 2; }
done

top=$(mktemp -d "${TMPDIR:-/tmp}/vsleep-gpu.XXXXXX") || exit 2
if [[ -n ${OUT-} ]]; then
	trap 'rm -rf "$top"' EXIT
fi
OUT=${OUT:-$top/out}
mkdir -p "$OUT" "$top/log" "$top/s" && chmod 700 "$top/s" || exit 2
LIB=$(realpath "$lib") CTL=$(realpath "$ctl") HERE=$here VSLEEP_DIR=$top/s
BIN=${bin:-$top/bin}
export OUT LIB CTL BIN HERE VSLEEP_DIR
[[ -n ${NVCC-} ]] || NVCC=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)

# What a part left running, by the pids of its own programs.
reap() {
	local pid
	while read -r pid; do
		grep -q "$BIN\|$HERE" "/proc/$pid/cmdline" 2>/dev/null &&
			kill -KILL "$pid"
	done < <(cat "$top/log/pids" 2>/dev/null)
	rm -f "$top/log/pids"
}

keep_details() {
	tar -C "$top" -czf "$OUT/gpu-details-$1.tgz" log 2>/dev/null
}

SECONDS=0
make -f "$here/Makefile.gpu" -k -j16 BIN="$BIN" NVCC="$NVCC" \
	>"$top/log/make" 2>&1 || grep -i 'error' "$top/log/make" | head -n 20
echo "compiled in $SECONDS s"

names=$(IFS=- && echo "$*")
for part; do
	export WORK=$top/log/$part ROWS=$top/log/$part.rows
	mkdir -p "$WORK"
	SECONDS=0
	timeout -k 10 480 bash "$here/part-$part.sh" 2>&1 |
		tee "$top/log/$part.log"
	case ${PIPESTATUS[0]} in
	0) ;;
	124 | 137) echo "$part	FAILED: past its 8 minutes" >>"$ROWS" ;;
	*) echo "$part	FAILED: the part itself broke" >>"$ROWS" ;;
	esac
	reap
	echo "part $part: $SECONDS s"
	keep_details "$names"
done

# One table, its columns aligned; the last line counts.
for part; do
	rows=$top/log/$part.rows
	echo
	echo "== $part"
	cat "$rows.head" "$rows" 2>/dev/null | awk -F'\t' '
	{
		line[NR] = $0
		for (i = 1; i < NF; i++)
			if (length($i) > wide[i])
				wide[i] = length($i)
	}
	END {
		for (r = 1; r <= NR; r++) {
			n = split(line[r], cell, "\t")
			for (i = 1; i < n; i++)
				printf "%-" wide[i] "s | ", cell[i]
			print cell[n]
		}
	}'
done >"$top/log/table"
cat "$top/log/table"
passed=0 failed=0 skipped=0
for part; do
	rows=$top/log/$part.rows
	if [[ ! -s $rows ]]; then
		[[ -n ${ONLY-} ]] || failed=$((failed + 1))
		continue
	fi
	passed=$((passed + $(grep -c $'\tok$' "$rows")))
	failed=$((failed + $(grep -c $'\tFAILED' "$rows")))
	skipped=$((skipped + $(grep -c $'\tskipped: ' "$rows")))
done
cp "$top/log/table" "$OUT/gpu-table-$names.txt"
keep_details "$names"
echo
echo "details in $OUT"
echo "$passed passed, $failed failed, $skipped skipped"
if [[ " $* " == *" ways "* && -s $OUT/coverage.md ]]; then
	echo
	cat "$OUT/coverage.md"
fi
[[ $failed -eq 0 ]]
