#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The programs of frameworks once more, with the other allocators that these
# have: plain, preloaded and with cycles.

# shellcheck source=cycles.sh
. "$HERE/cycles.sh"

# torch NAME SETTING PROGRAM: PyTorch has two names for what is set
entries=()
torch() {
	entries+=("$1 PYTORCH_CUDA_ALLOC_CONF=$2 PYTORCH_ALLOC_CONF=$2 python3\
 $HERE/programs/$3.py")
}

client=XLA_PYTHON_CLIENT_ALLOCATOR
tenth=XLA_PYTHON_CLIENT_MEM_FRACTION=.10

# the slowest first
for program in generate graphs train transformer; do
	torch "expandable-$program" expandable_segments:True "$program"
done
# not graphs: with that backend PyTorch itself fails to free what a graph had
for program in train transformer; do
	torch "mallocasync-$program" backend:cudaMallocAsync "$program"
done
run_programs "${entries[@]}" \
	"jax-async $client=cuda_async $tenth python3\
 $HERE/programs/with_jax.py" \
	"jax-platform $client=platform python3 $HERE/programs/with_jax.py" \
	"cupy-async POOL=async python3 $HERE/programs/with_cupy.py"
