#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The benchmark: ours, the peers' flows and the bare driver calls on the same
# bytes, turn about, in one run.

here=$(cd "$(dirname "$0")" && pwd)
lib=$here/../../src/.libs/libvsleep.so
ctl=$here/../../tools/vsleepctl
rows=(main zero segments discard alloc prepare train model large cycles curve)

usage() {
	cat <<END
usage: run.sh [--lib FILE] [--ctl FILE] [--bin DIR]

The rows, and what each looks at:

  main      sleeps and wakes of mixed blocks, the peers' and the bare calls'
  zero      half of the pages are zero
  segments  10 000 blocks of 2 to 8 MiB
  discard   a tag that is discarded
  alloc     allocations, plain and under vsleep
  prepare   the first sleep after prepare
  train     PyTorch trains while prepare copies
  model     PyTorch: a model of 7 billion parameters, its tokens
  large     the largest size
  cycles    host memory after 50 cycles
  curve     the other sizes of the plot

bench.txt in \$OUT (default: a new folder) has a line for each result, "bench
NAME VALUE UNIT RATIO"; bench.png is time against size.  The exit status is 0
unless bytes were wrong or a row failed: bars are shown, ok or MISSED.

Settings:
  BENCH_ROWS     which rows (all)
  BENCH_PEERS    MiB of the sizes with peers (8192 32768); the last one is that
                 of the bars; groups of 512 MiB
  BENCH_SIZES    MiB of the sizes in the plot (1024 2048 4096 ... 32768)
  BENCH_LARGE    MiB of the largest size (what host and GPU have)
  BENCH_ROUNDS   rounds of the main row and of alloc (2)
  BENCH_FEW      rounds of the others (1)
  BENCH_SECONDS  rows that may end later than that are skipped (460)
  BENCH_SEGMENTS, BENCH_MANY  how many blocks those rows have (10000)
  BENCH_CYCLES   (50)
  PYTHON         one that has torch and matplotlib (python3)
  VSLEEP_HOST_LIMIT  host memory for backups (120G)
END
}

while [[ $# -gt 0 ]]; do
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
for file in "$lib" "$ctl"; do
	[[ -r $file ]] ||
		{ echo "run.sh: no $file: build vsleep first" >&2 && exit 2; }
done

top=$(mktemp -d "${TMPDIR:-/tmp}/vsleep-bench.XXXXXX") || exit 2
OUT=${OUT:-$top/out}
mkdir -p "$OUT" "$top/log/bench" "$top/s" && chmod 700 "$top/s" || exit 2
LIB=$(realpath "$lib") CTL=$(realpath "$ctl") HERE=$here
BIN=${bin:-$top/bin} WORK=$top/log/bench ROWS=$top/log/rows
RESULTS=$OUT/bench.txt TABLE=$top/log/table VSLEEP_DIR=$top/s
VSLEEP_HOST_LIMIT=${VSLEEP_HOST_LIMIT:-120G}
export OUT LIB CTL BIN HERE WORK ROWS VSLEEP_DIR VSLEEP_HOST_LIMIT
[[ -n ${NVCC-} ]] || NVCC=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
: >"$RESULTS"

SECONDS=0
ENDS=${BENCH_SECONDS:-460}
make -f "$here/Makefile.bench" -k -j16 BIN="$BIN" NVCC="$NVCC" \
	>"$top/log/make" 2>&1 || grep -i error "$top/log/make" | head -n 20

# shellcheck source=lib.sh
. "$here/lib.sh"
# shellcheck source=rows.sh
. "$here/rows.sh"
# shellcheck source=programs.sh
. "$here/programs.sh"

# What is left of host memory is more than the tenth of it below which retained
# backups go back, and of the GPU's enough for contexts.
largest() {
	local host gpu
	host=$(awk '
	/^MemTotal:/ { tenth = $2 / 10 }
	/^MemAvailable:/ { available = $2 }
	END { print int((available - tenth) / 1024) }' /proc/meminfo)
	gpu=$(timeout -k 5 30 nvidia-smi -i 0 --query-gpu=memory.free \
		--format=csv,noheader,nounits 2>/dev/null | tr -dc '0-9')
	host=$((host - 6144)) gpu=$((${gpu:-0} - 8192))
	((host < gpu)) || host=$gpu
	echo $((host > 1024 ? host / 1024 * 1024 : 512))
}

read -ra SIZES <<<"${BENCH_SIZES:-1024 2048 4096 8192 16384 32768}"
read -ra PEER_SIZES <<<"${BENCH_PEERS:-8192 32768}"
MAIN=${PEER_SIZES[-1]}
ROUNDS=${BENCH_ROUNDS:-2} FEW=${BENCH_FEW:-1} CYCLES=${BENCH_CYCLES:-50}
SEGMENTS=${BENCH_SEGMENTS:-10000} MANY=${BENCH_MANY:-10000}
TRAIN=$MAIN PYTHON=${PYTHON:-python3}

cells name value unit ratio bar verdict
trap sweep EXIT
touch_host "$MAIN"
LARGE=${BENCH_LARGE:-$(largest)}
for row in "${rows[@]}"; do
	[[ -z ${BENCH_ROWS-} || " $BENCH_ROWS " == *" $row "* ]] || continue
	"row_$row"
	echo "row $row: $SECONDS s since the start"
done
sweep
trap - EXIT

timeout -k 5 60 "$PYTHON" "$here/plot.py" "$RESULTS" "$OUT/bench.png" ||
	echo "no plot"
cp "$TABLE" "$OUT/bench-table.txt"
tar -C "$top" -czf "$OUT/bench-details.tgz" log 2>/dev/null
[[ $OUT == "$top"/* ]] || rm -rf "$top"
echo
cat "$OUT/bench-table.txt"
echo
echo "results in $OUT, $SECONDS s"
! grep -q ' FAILED ' "$RESULTS"
