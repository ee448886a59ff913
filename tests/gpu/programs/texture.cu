/* SPDX-License-Identifier: Apache-2.0 */
/*
 * texture - textures over linear memory, over pitched memory and an array.
 *
 * The texture objects are made at the start and used to the end, while the
 * memory below them changes in each of STEPS steps; another one over the same
 * memory comes and goes.
 */
#include "rt.cuh"

#define SIDE 4096
#define POINTS ((size_t)SIDE * SIDE)

static unsigned *linear, *out;
static float *plane;
static size_t pitch;
static cudaArray_t array;
static unsigned long long *sum;

static cudaTextureObject_t bind(const cudaResourceDesc *resource,
				cudaTextureFilterMode filter)
{
	cudaTextureDesc how = {};
	cudaTextureObject_t object;

	how.addressMode[0] = how.addressMode[1] = cudaAddressModeClamp;
	how.filterMode = filter;
	how.readMode = cudaReadModeElementType;
	CK(cudaCreateTextureObject(&object, resource, &how, NULL));
	return object;
}

static cudaTextureObject_t bind_linear(void)
{
	cudaResourceDesc resource = {};

	resource.resType = cudaResourceTypeLinear;
	resource.res.linear.devPtr = linear;
	resource.res.linear.desc = cudaCreateChannelDesc<unsigned>();
	resource.res.linear.sizeInBytes = POINTS * sizeof(*linear);
	return bind(&resource, cudaFilterModePoint);
}

static cudaTextureObject_t bind_plane(void)
{
	cudaResourceDesc resource = {};

	resource.resType = cudaResourceTypePitch2D;
	resource.res.pitch2D.devPtr = plane;
	resource.res.pitch2D.desc = cudaCreateChannelDesc<float>();
	resource.res.pitch2D.width = SIDE;
	resource.res.pitch2D.height = SIDE;
	resource.res.pitch2D.pitchInBytes = pitch;
	return bind(&resource, cudaFilterModeLinear);
}

static cudaTextureObject_t bind_array(void)
{
	cudaResourceDesc resource = {};

	resource.resType = cudaResourceTypeArray;
	resource.res.array.array = array;
	return bind(&resource, cudaFilterModePoint);
}

static __global__ void set_plane(float *p, size_t stride, unsigned seed)
{
	size_t step = (size_t)gridDim.x * blockDim.x;

	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
	     i < POINTS; i += step)
		p[i / SIDE * stride + i % SIDE] =
			(float)(rt_word(seed, i) % 4096);
}

static __global__ void fetch(unsigned *to, cudaTextureObject_t line,
			     cudaTextureObject_t flat,
			     cudaTextureObject_t fixed)
{
	size_t step = (size_t)gridDim.x * blockDim.x;

	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
	     i < POINTS; i += step) {
		float x = (float)(i % SIDE), y = (float)(i / SIDE);

		to[i] = tex1Dfetch<unsigned>(line, (int)(POINTS - 1 - i)) +
			__float_as_uint(tex2D<float>(flat, x + 1, y + 1)) +
			__float_as_uint(tex2D<float>(fixed, y, x));
	}
}

static void prepare(void)
{
	cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();

	CK(cudaMalloc((void **)&linear, POINTS * sizeof(*linear)));
	CK(cudaMalloc((void **)&out, POINTS * sizeof(*out)));
	CK(cudaMallocPitch((void **)&plane, &pitch, SIDE * sizeof(float),
			   SIDE));
	CK(cudaMallocArray(&array, &format, SIDE, SIDE));
	CK(cudaMalloc((void **)&sum, sizeof(*sum)));
	CK(cudaMemset(sum, 0, sizeof(*sum)));
	rt_fill<<<512, 256>>>(linear, POINTS, 41);
	set_plane<<<512, 256>>>(plane, pitch / sizeof(float), 42);
	CK(cudaMemcpy2DToArray(array, 0, 0, plane, pitch, SIDE * sizeof(float),
			       SIDE, cudaMemcpyDeviceToDevice));
}

int main(void)
{
	long steps = prog_env("STEPS", 400), ns = prog_env("SPIN_NS", 15000000);
	cudaTextureObject_t line, flat, fixed;
	unsigned long long value = 0;

	prepare();
	line = bind_linear();
	flat = bind_plane();
	fixed = bind_array();
	for (long n = 1; n <= steps; n++) {
		cudaTextureObject_t brief = bind_linear();

		rt_spin<<<1, 1>>>((unsigned long long)ns);
		rt_mix<<<512, 256>>>(linear, POINTS, (unsigned)n);
		set_plane<<<512, 256>>>(plane, pitch / sizeof(float),
					(unsigned)n);
		fetch<<<512, 256>>>(out, n % 2 ? line : brief, flat, fixed);
		rt_sum<<<512, 256>>>(out, POINTS, sum);
		CK(cudaMemcpy(&value, sum, sizeof(value),
			      cudaMemcpyDeviceToHost));
		CK(cudaDestroyTextureObject(brief));
		if (n % 25 == 0)
			printf("step %ld sum %016llx\n", n, value);
		prog_step(n);
	}
	printf("done sum %016llx\n", value);
	return 0;
}
