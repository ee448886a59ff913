/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lifecycle - contexts that come and go: created ones, green ones, the primary
 * one, which is reset, each with memory of its own that is looked at in every
 * step it lives.
 *
 * In each of STEPS steps the places that there are add to what they hold; a
 * place is made in one step and ends some steps later, so that sleeps fall on
 * all of them.  Needs the driver alone.
 */
#include "drv.h"

#define SIZE (48 * MIB)
#define WORDS (SIZE / 4)
#define SMALL 40000
#define PLACES 4

/* A context, its kernels, and a large and a small block in it. */
struct place {
	int used;
	CUcontext context;
	CUgreenCtx green;	/* or a created one */
	CUstream stream;
	CUfunction pattern, add, spin;
	CUdeviceptr block, small, managed;
	uint32_t added;
};

static struct place home, places[PLACES];
static uint64_t hash;
static CUdeviceptr orphan;	/* of a green context that is gone */

static void furnish(struct place *p, uint32_t seed)
{
	uint64_t words = WORDS;
	CUmodule module;

	CK(cuModuleLoadData(&module, kernels_ptx));
	CK(cuModuleGetFunction(&p->pattern, module, "pattern"));
	CK(cuModuleGetFunction(&p->add, module, "add"));
	CK(cuModuleGetFunction(&p->spin, module, "spin"));
	CK(cuMemAlloc(&p->block, SIZE));
	CK(cuMemAlloc(&p->small, SMALL));
	CK(cuMemAllocManaged(&p->managed, 2 * MIB, CU_MEM_ATTACH_GLOBAL));
	CK(cuMemsetD8(p->small, (unsigned char)seed, SMALL));
	CK(cuMemsetD8(p->managed, (unsigned char)seed, 2 * MIB));
	drv_launch(p->pattern, p->stream, words,
		   (void *[]){ &p->block, &words, &seed });
	p->added = 0;
	p->used = 1;
}

static void look(CUdeviceptr at, size_t size)
{
	unsigned char seen[4096];
	size_t n = size < sizeof(seen) ? size : sizeof(seen);

	CK(cuMemcpyDtoH(seen, at, n));
	hash = prog_hash(seen, n, hash);
	CK(cuMemcpyDtoH(seen, at + size - n, n));
	hash = prog_hash(seen, n, hash);
}

static void use(struct place *p, uint32_t value)
{
	uint64_t words = WORDS;

	CK(cuCtxSetCurrent(p->context));
	drv_launch(p->add, p->stream, words,
		   (void *[]){ &p->block, &words, &value });
	p->added += value;
	CK(cuCtxSynchronize());
	look(p->block, SIZE);
	look(p->small, SMALL);
	look(p->managed, 2 * MIB);
}

static void open_home(void)
{
	home.stream = NULL;
	CK(cuDevicePrimaryCtxRetain(&home.context, 0));
	CK(cuCtxSetCurrent(home.context));
	furnish(&home, 1);
}

static void create(struct place *p, uint32_t seed)
{
	CUcontext popped;

	p->green = NULL;
	p->stream = NULL;
#if CUDA_VERSION >= 13000
	CK(cuCtxCreate(&p->context, NULL, 0, 0));
#else
	CK(cuCtxCreate(&p->context, 0, 0));
#endif
	furnish(p, seed);
	CK(cuCtxPopCurrent(&popped));
}

static void create_green(struct place *p, uint32_t seed)
{
	CUdevResource all, part;
	CUdevResourceDesc desc;
	unsigned int count = 1;

	CK(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
	CK(cuDevSmResourceSplitByCount(&part, &count, &all, NULL, 0, 16));
	CK(cuDevResourceGenerateDesc(&desc, &part, 1));
	CK(cuGreenCtxCreate(&p->green, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM));
	CK(cuCtxFromGreenCtx(&p->context, p->green));
	CK(cuGreenCtxStreamCreate(&p->stream, p->green, CU_STREAM_NON_BLOCKING,
				  0));
	CK(cuCtxSetCurrent(p->context));
	furnish(p, seed);
	CK(cuCtxSynchronize());
	CK(cuCtxSetCurrent(home.context));
}

/* What a created context has goes with it; a green one leaves its memory to
 * the primary context. */
static void end(struct place *p)
{
	if (!p->used)
		return;
	p->used = 0;
	CK(cuCtxSetCurrent(home.context));
	if (!p->green) {
		CK(cuCtxDestroy(p->context));
		return;
	}
	CK(cuStreamDestroy(p->stream));
	CK(cuGreenCtxDestroy(p->green));
	if (orphan)
		CK(cuMemFree(orphan));
	orphan = p->block;
	CK(cuMemFree(p->small));
	CK(cuMemFree(p->managed));
}

static void reset(void)
{
	int i;

	for (i = 0; i < PLACES; i++)
		if (places[i].green)
			end(&places[i]);
	CK(cuDevicePrimaryCtxReset(0));
	orphan = 0;
	open_home();
}

static void change(long n)
{
	struct place *p = &places[n / 10 % PLACES];

	if (n % 10 != 5)
		return;
	end(p);
	CK(cuCtxSetCurrent(home.context));
	if (n % 120 == 95)
		reset();
	else if (n / 10 % 2)
		create_green(p, (uint32_t)n);
	else
		create(p, (uint32_t)n);
}

static void step(long n, uint64_t ns)
{
	CUdeviceptr none = 0;
	int i;

	CK(cuCtxSetCurrent(home.context));
	CK(cuLaunchKernel(home.spin, 1, 1, 1, 1, 1, 1, 0, NULL,
			  (void *[]){ &ns, &none }, NULL));
	use(&home, (uint32_t)n);
	for (i = 0; i < PLACES; i++)
		if (places[i].used)
			use(&places[i], (uint32_t)(n + i));
	CK(cuCtxSetCurrent(home.context));
	if (orphan)
		look(orphan, SIZE);
}

int main(void)
{
	long steps = prog_env("STEPS", 400);
	uint64_t ns = (uint64_t)prog_env("SPIN_NS", 15000000);
	long n;

	drv_open();
	open_home();
	for (n = 1; n <= steps; n++) {
		change(n);
		step(n, ns);
		if (n % 25 == 0)
			printf("step %ld hash %016llx\n", n,
			       (unsigned long long)hash);
		prog_step(n);
	}
	printf("done hash %016llx\n", (unsigned long long)hash);
	return 0;
}
