/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "life_pool.h"
#include "life.h"
#include "life_bytes.h"
#include "sim.h"

#include "base/driver.h"
#include "base/tag.h"
#include "memory/pool.h"
#include "memory/segment.h"
#include "memory/vmm.h"
#include "sleep/gate.h"

#include <stdbool.h>

#define SMALL ((size_t)70000)
#define LARGE ((size_t)1 << 20)

static CUstream streams[2];
static CUdeviceptr left[64];	/* that could not be freed */
static int left_count;
static struct life_block block = { .size = SMALL, .tag = "weights", .seed = 9 };
static unsigned turns;

/* Left to the driver, it is not what this life is about. */
static CUresult get(CUdeviceptr *base, size_t size, CUstream stream)
{
	struct vs_pool_ask ask = { .size = size, .stream = stream };
	CUresult rc;

	return vs_pool_alloc(&ask, base, &rc) ? rc : CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult put(CUdeviceptr base, CUstream stream)
{
	CUresult rc;

	if (!vs_pool_free(base, stream, false, &rc))
		life_fail("0x%llx is not known as a pool's", base);
	return rc;
}

static void put_for_sure(CUdeviceptr base, CUstream stream)
{
	if (!put(base, stream) || !put(base, stream))
		return;
	if (!life_lasts() || left_count == 64)
		life_fail("second try of a pool's free failed");
	left[left_count++] = base;
}

#define TRY(call)							\
	({								\
		bool done = !(call) || !(call);				\
									\
		if (!done && !life_lasts())				\
			life_fail("second try of " #call " failed");	\
		done;							\
	})

static bool resident(void)
{
	struct vs_block *known;
	bool yes;

	vs_lock_take(&vs_segment_lock);
	known = vs_segment_find(block.base);
	if (!known)
		life_fail("the pool's block is not known");
	yes = !known->segment->level;
	vs_lock_drop(&vs_segment_lock);
	return yes;
}

/* Its end is looked for while the device does not get on, and after that: that
 * of the second, about which nothing was recorded when it was freed. */
static void wait_for_free(void)
{
	CUdeviceptr a = 0, b = 0;
	bool have_a = TRY(get(&a, LARGE, streams[0]));
	bool have_b = TRY(get(&b, SMALL, streams[0]));

	sim_hold(1);
	if (have_a) {
		vs_real.cuMemsetD8Async(a, 1, 1, streams[0]);
		put_for_sure(a, streams[0]);
	}
	if (have_b)
		put_for_sure(b, streams[0]);
	vs_pool_idle(turns);
	vs_pool_idle(turns);
	sim_hold(0);
	TRY(vs_real.cuStreamSynchronize(streams[0]));
	vs_pool_idle(turns);
}

/* From one stream to the other and back, of two sizes. */
static void go_round(void)
{
	CUdeviceptr a = 0, b = 0;
	bool have_a = TRY(get(&a, LARGE, streams[0]));
	bool have_b = TRY(get(&b, SMALL, NULL));

	if (have_a)
		put_for_sure(a, streams[1]);
	if (have_b)
		put_for_sure(b, NULL);
	have_a = TRY(get(&a, LARGE, streams[0]));
	have_b = TRY(get(&b, SMALL, streams[1]));
	if (have_a)
		put_for_sure(a, streams[0]);
	if (have_b)
		put_for_sure(b, streams[1]);
}

static bool ready(void)
{
	CUcontext context = NULL;
	int i;

	if (vs_real.cuCtxGetCurrent(&context) || !context)
		return false;
	for (i = 0; i < 2; i++)
		if (!streams[i] &&
		    !TRY(vs_real.cuStreamCreate(&streams[i],
						CU_STREAM_NON_BLOCKING)))
			return false;
	return true;
}

void life_pool_turn(void)
{
	if (block.base && resident())
		life_look_at_bytes(&block);
	if (!ready())
		return;
	if (block.base && ++turns % 4 == 0 && TRY(put(block.base, streams[0])))
		block.base = 0;
	if (vs_gate_holds() || vs_tag_mark("weights", NULL) ||
	    !vs_vmm_usable(0))
		return;		/* given up, when nothing ever worked there */
	if (!block.base && TRY(get(&block.base, SMALL, streams[0])))
		life_fill(&block);
	if (turns % 2)
		go_round();
	else
		wait_for_free();
}

void life_pool_end(void)
{
	if (block.base && put(block.base, streams[0]))
		life_fail("the pool's memory cannot be freed");
	while (left_count)
		put_for_sure(left[--left_count], streams[0]);
	vs_pool_settle();
}
