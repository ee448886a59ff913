#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The programs of frameworks once more, with the other allocators that these
# have: plain, preloaded and with cycles.

# shellcheck source=cycles.sh
. "$HERE/cycles.sh"

# torch NAME SETTING PROGRAM [--tree]: PyTorch has two names for what is set
entries=()
torch() {
	local command="python3 $HERE/programs/$3"
	[[ $3 != -m* ]] || command="python3 $3"
	entries+=("$1 ${4-} PYTORCH_CUDA_ALLOC_CONF=$2 PYTORCH_ALLOC_CONF=$2\
 $command")
}

client=XLA_PYTHON_CLIENT_ALLOCATOR
tenth=XLA_PYTHON_CLIENT_MEM_FRACTION=.10
expandable=expandable_segments:True
native=backend:cudaMallocAsync
ranks="-m torch.distributed.run --standalone --local-addr 127.0.0.1"
ranks+=" --nproc-per-node 2 $HERE/programs/ranks.py"

# all programs that use it, the slowest first
for program in compiled generate graphs train transformer convolution; do
	torch "expandable-$program" $expandable "$program.py"
done
torch expandable-loader-spawn $expandable "loader.py spawn"
torch expandable-loader-fork $expandable "loader.py fork"
torch expandable-ranks $expandable "$ranks" --tree
torch expandable-share $expandable share.py --tree
# not graphs: with that backend PyTorch itself fails to free what a graph had
for program in train transformer convolution; do
	torch "mallocasync-$program" $native "$program.py"
done
run_programs "${entries[@]}" \
	"jax-async $client=cuda_async $tenth python3\
 $HERE/programs/with_jax.py" \
	"jax-platform $client=platform python3 $HERE/programs/with_jax.py" \
	"cupy-async POOL=async python3 $HERE/programs/with_cupy.py"
