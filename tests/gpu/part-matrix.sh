#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Programs in C and C++, and PyTorch: plain, preloaded and with cycles.

# shellcheck source=cycles.sh
. "$HERE/cycles.sh"

programs=(
	"train python3 $HERE/programs/train.py"
	"graphs python3 $HERE/programs/graphs.py"
)
for program in loop-static driver-link loop-shared driver-dlopen loop-ptds \
	driver-getproc cublas cufft nvrtc thrust cooperative callbacks \
	zerocopy texture forks graphs_all lifecycle; do
	programs+=("$program $BIN/$program")
done
programs+=("walk STEPS=160000 $BIN/walk" "roam STEPS=20000 $BIN/roam")
run_programs "${programs[@]}"
