/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvrtc - kernels that are compiled at run time, again and again.
 *
 * A new kernel every 40 of STEPS steps, with another constant in it and with
 * variables of its own on the device; the old module goes when the new one has
 * been launched.
 */
#include "rt.cuh"

#include <cuda.h>
#include <nvrtc.h>

#define SIZE ((size_t)192 * MIB)
#define LIFE 40

static const char source[] =
	"__device__ unsigned long long calls = 7;\n"
	"__constant__ unsigned weights[64];\n"
	"extern \"C\" __global__ void blend(unsigned *p, size_t words)\n"
	"{\n"
	"	size_t step = (size_t)gridDim.x * blockDim.x;\n"
	"	size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;\n"
	"	for (; i < words; i += step)\n"
	"		p[i] = p[i] * FACTOR + weights[i % 64];\n"
	"	if (blockIdx.x == 0 && threadIdx.x == 0)\n"
	"		calls++;\n"
	"}\n";

static unsigned *data;
static unsigned long long *sum;

static void rtc(nvrtcResult rc, int line)
{
	if (!rc)
		return;
	fprintf(stderr, "line %d: %s\n", line, nvrtcGetErrorString(rc));
	exit(3);
}

static void drv(CUresult rc, int line)
{
	if (!rc)
		return;
	fprintf(stderr, "line %d: driver error %d\n", line, rc);
	exit(3);
}

#define RTC(call) rtc((call), __LINE__)
#define DRV(call) drv((call), __LINE__)

static CUmodule compile(unsigned generation)
{
	char factor[32], arch[32];
	const char *options[] = { factor, arch };
	struct cudaDeviceProp device;
	nvrtcProgram program;
	CUmodule module;
	size_t size;
	char *code;

	CK(cudaGetDeviceProperties(&device, 0));
	snprintf(factor, sizeof(factor), "-DFACTOR=%uu", 2 * generation + 3);
	snprintf(arch, sizeof(arch), "--gpu-architecture=sm_%d%d",
		 device.major, device.minor);
	RTC(nvrtcCreateProgram(&program, source, "blend.cu", 0, NULL, NULL));
	RTC(nvrtcCompileProgram(program, 2, options));
	RTC(nvrtcGetCUBINSize(program, &size));
	code = (char *)malloc(size);
	RTC(nvrtcGetCUBIN(program, code));
	RTC(nvrtcDestroyProgram(&program));
	DRV(cuModuleLoadData(&module, code));
	free(code);
	return module;
}

static void set_weights(CUmodule module, unsigned generation)
{
	unsigned weights[64];
	CUdeviceptr at;
	size_t size;

	for (unsigned i = 0; i < 64; i++)
		weights[i] = i * i + generation;
	DRV(cuModuleGetGlobal(&at, &size, module, "weights"));
	DRV(cuMemcpyHtoD(at, weights, sizeof(weights)));
}

static void launch(CUmodule module)
{
	size_t words = SIZE / 4;
	void *args[] = { &data, &words };
	CUfunction function;

	DRV(cuModuleGetFunction(&function, module, "blend"));
	DRV(cuLaunchKernel(function, 512, 1, 1, 256, 1, 1, 0, NULL, args,
			   NULL));
}

static unsigned long long calls(CUmodule module)
{
	unsigned long long value;
	CUdeviceptr at;
	size_t size;

	DRV(cuModuleGetGlobal(&at, &size, module, "calls"));
	DRV(cuMemcpyDtoH(&value, at, sizeof(value)));
	return value;
}

static unsigned long long total(void)
{
	unsigned long long value;

	CK(cudaMemset(sum, 0, sizeof(*sum)));
	rt_sum<<<512, 256>>>(data, SIZE / 4, sum);
	CK(cudaMemcpy(&value, sum, sizeof(value), cudaMemcpyDeviceToHost));
	return value;
}

int main(void)
{
	long steps = prog_env("STEPS", 400), ns = prog_env("SPIN_NS", 15000000);
	CUmodule module = NULL;

	CK(cudaMalloc((void **)&data, SIZE));
	CK(cudaMalloc((void **)&sum, sizeof(*sum)));
	rt_fill<<<512, 256>>>(data, SIZE / 4, 11);
	for (long n = 1; n <= steps; n++) {
		CUmodule old = NULL;

		rt_spin<<<1, 1>>>((unsigned long long)ns);
		if (n % LIFE == 1) {
			old = module;
			module = compile((unsigned)(n / LIFE));
			set_weights(module, (unsigned)(n / LIFE));
		}
		launch(module);
		if (old) {
			printf("step %ld calls %llu sum %016llx\n", n,
			       calls(old), total());
			DRV(cuModuleUnload(old));
		}
		CK(cudaDeviceSynchronize());
		prog_step(n);
	}
	printf("done calls %llu sum %016llx\n", calls(module), total());
	return 0;
}
