#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# A server of someone else's making for the GPU check: llama-server of
# llama.cpp, from the source package of llama-cpp-python on PyPI.
#
#   build.sh DIR     makes DIR/llama-server; DIR keeps the build, so that a
#                    second call goes on where the first one stopped
#
# Not part of any make target: it takes nvcc, cmake, a C++ compiler, a network
# and a long while.  For sm_90 alone, without the kernels of quantized types and
# of FlashAttention, which the model of part-server.sh does not use: they
# are most of what there is to compile.  Needs of the machine where it runs
# libcudart.so.13 and libcublas.so.13.  JOBS is how many compilers run at once.
set -eu

[[ $# -eq 1 ]] || { sed -n '3,15s/^# \{0,1\}//p' "$0" >&2 && exit 2; }
mkdir -p "$1"
cd "$1"
release=${LLAMA_CPP_PYTHON:-0.3.36}

if [[ ! -d source ]]; then
	[[ -e llama_cpp_python-$release.tar.gz ]] ||
		pip download --no-deps --no-binary llama-cpp-python -d . \
			"llama-cpp-python==$release"
	rm -rf unpacked && mkdir unpacked
	tar -C unpacked --strip-components 1 -xzf \
		"llama_cpp_python-$release.tar.gz"
	# the build looks for them by name
	truncate -s 0 unpacked/vendor/llama.cpp/ggml/src/ggml-cuda/\
template-instances/{fattn,mmq}*.cu
	mv unpacked/vendor/llama.cpp source
	rm -r unpacked
fi
[[ -e stubs.o ]] || gcc -c -o stubs.o -x assembler /dev/null
CUDACXX=${NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)} \
	cmake -S source -B build -G Ninja \
	-DCMAKE_BUILD_TYPE=Release -DCMAKE_CUDA_ARCHITECTURES=90-real \
	-DCMAKE_CXX_FLAGS_RELEASE="-O1 -DNDEBUG" \
	-DCMAKE_CUDA_FLAGS_RELEASE="-O1 -DNDEBUG" \
	-DBUILD_SHARED_LIBS=OFF -DGGML_NATIVE=OFF -DGGML_OPENMP=OFF \
	-DGGML_CUDA=ON -DGGML_CUDA_FA=OFF -DGGML_CUDA_FORCE_CUBLAS=ON \
	-DGGML_CUDA_NCCL=OFF -DGGML_CCACHE=OFF -DGGML_LLAMAFILE=OFF \
	-DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_OPENSSL=OFF \
	-DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF \
	-DCMAKE_EXE_LINKER_FLAGS="-static-libstdc++ -static-libgcc \
-Wl,--gc-sections $PWD/stubs.o"
cmake --build build -j "${JOBS:-2}" --target ggml-cuda
# what would be in the instances, for the linker alone
nm build/ggml/src/ggml-cuda/libggml-cuda.a | awk '
	$1 == "U" && /mul_mat_q_case|flash_attn_ext_[a-z0-9_]*case/ { u[$2] }
	$2 ~ /[TWV]/ { defined[$3] }
	END {
		print ".text"
		for (s in u)
			if (!(s in defined))
				print ".globl " s "\n" s ": ud2"
		print ".section .note.GNU-stack, \"\", @progbits"
	}' >stubs.s
gcc -c -o stubs.o stubs.s
rm -f build/bin/llama-server
cmake --build build -j "${JOBS:-2}" --target llama-server
cp build/bin/llama-server llama-server.new
strip llama-server.new
mv llama-server.new llama-server
ls -l llama-server
