#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Programs that use Python's frameworks: plain, preloaded and with cycles.

# shellcheck source=cycles.sh
. "$HERE/cycles.sh"

# The tenth of the device that JAX takes beforehand is copied in each cycle.
tenth=XLA_PYTHON_CLIENT_MEM_FRACTION=.10
grows=XLA_PYTHON_CLIENT_PREALLOCATE=false
ranks="-m torch.distributed.run --standalone --local-addr 127.0.0.1"
ranks+=" --nproc-per-node 2"

# the slowest first
run_programs \
	"compiled python3 $HERE/programs/compiled.py" \
	"loader-spawn python3 $HERE/programs/loader.py spawn" \
	"ranks --tree python3 $ranks $HERE/programs/ranks.py" \
	"generate python3 $HERE/programs/generate.py" \
	"share --tree python3 $HERE/programs/share.py" \
	"jax $tenth python3 $HERE/programs/with_jax.py" \
	"jax-grows $grows python3 $HERE/programs/with_jax.py" \
	"loader-fork python3 $HERE/programs/loader.py fork" \
	"transformer python3 $HERE/programs/transformer.py" \
	"convolution python3 $HERE/programs/convolution.py" \
	"cupy python3 $HERE/programs/with_cupy.py" \
	"triton python3 $HERE/programs/with_triton.py" \
	"numba python3 $HERE/programs/with_numba.py"
