/* SPDX-License-Identifier: Apache-2.0 */
/*
 * walk - a random walk through the ways to device memory: plain, pitched,
 * stream-ordered from the default and another pool, managed, and virtual
 * memory of the program's own with aliases and read-only mappings.
 *
 * What is allocated one way is freed by another where CUDA allows it, work
 * goes over three streams with events between them, and now and then a call is
 * wrong on purpose, but not with a handle that never was, of which drivers die.
 * Each call's result is a line on stdout, and so is what comparing the contents
 * found: the same, whoever runs it.  $SEED, $STEPS.
 */
#include "drv.h"

#include <stdbool.h>

#define BLOCKS 40
#define STREAMS 3		/* the first is the legacy default stream */
#define HANDLES 12
#define PLACES 32		/* in the reservation, of one unit each */
#define LARGEST (24 * MIB)
#define EVERY 50		/* steps between two looks at everything */

enum way { PLAIN, PITCHED, ASYNC, POOLED, MANAGED, WAYS };

static struct block {
	CUdeviceptr p;
	size_t words;
	enum way way;
	uint32_t seed;
	int stream;		/* where it was used last */
} blocks[BLOCKS];

/* One unit of memory; alive while it is mapped or not released. */
static struct handle {
	CUmemGenericAllocationHandle value;
	int refs, maps;
	uint32_t seed;		/* 0: never written */
} handles[HANDLES];

static struct place {
	struct handle *handle;
	bool writable;
} places[PLACES];

static CUstream streams[STREAMS];
static CUevent events[STREAMS];
static CUmemoryPool pool;
static CUdeviceptr reserved;
static CUmemAllocationProp prop;
static size_t unit;
static uint64_t state;

static unsigned draw(unsigned below)
{
	return (unsigned)(prog_random(&state) % below);
}

static void say(const char *what, int which, CUresult rc)
{
	printf("%s %d: %d\n", what, which, rc);
}

/* What comes in stream @to from now on follows what is in @from. */
static void order(int from, int to)
{
	if (from == to)
		return;
	CK(cuEventRecord(events[from], streams[from]));
	CK(cuStreamWaitEvent(streams[to], events[from], 0));
}

static void move(struct block *b, int to)
{
	order(b->stream, to);
	b->stream = to;
}

static CUresult allocate(struct block *b, size_t size)
{
	CUstream s = streams[b->stream];
	size_t pitch;

	switch (b->way) {
	case PLAIN:
		return cuMemAlloc(&b->p, size);
	case PITCHED:
		b->words = 512;
		return cuMemAllocPitch(&b->p, &pitch, 2048, size / 2048 + 1, 4);
	case ASYNC:
		return cuMemAllocAsync(&b->p, size, s);
	case POOLED:
		return cuMemAllocFromPoolAsync(&b->p, size, pool, s);
	default:
		return cuMemAllocManaged(&b->p, size, CU_MEM_ATTACH_GLOBAL);
	}
}

static void write_block(struct block *b)
{
	b->seed = (uint32_t)prog_random(&state) | 1;
	drv_pattern(streams[b->stream], b->p, b->words, b->seed);
}

static void begin(struct block *b, int which)
{
	size_t size = prog_size(&state, LARGEST);
	CUresult rc;

	b->way = (enum way)draw(WAYS);
	b->stream = (int)draw(STREAMS);
	b->words = size / 4;
	rc = allocate(b, size);
	say("allocate", which, rc);
	if (rc)
		b->p = 0;
	else
		write_block(b);
}

/* Both kinds of free take plain and stream-ordered memory; only that of the
 * latter waits for nothing. */
static void end(struct block *b, int which)
{
	bool pooled = b->way == ASYNC || b->way == POOLED, ordered = pooled;
	CUresult rc;

	if (b->way != MANAGED && draw(4) == 0)
		ordered = !ordered;
	move(b, (int)draw(STREAMS));
	if (!ordered || !pooled)
		CK(cuStreamSynchronize(streams[b->stream]));
	rc = ordered ? cuMemFreeAsync(b->p, streams[b->stream]) :
	     cuMemFree(b->p);
	say("free", which, rc);
	b->p = 0;
}

static void copy(struct block *from, struct block *to)
{
	size_t words = from->words < to->words ? from->words : to->words;

	if (from == to || !from->p || !to->p)
		return;
	move(from, to->stream);
	say("copy", (int)(to - blocks),
	    cuMemcpyDtoDAsync(to->p, from->p, words * 4,
			      streams[to->stream]));
	if (words == to->words && from->seed)
		to->seed = from->seed;
	else
		write_block(to);
}

/* A graph of one launch, made and used once. */
static void capture(struct block *b)
{
	CUgraphExec exec;
	CUgraph graph;

	if (!b->p)
		return;
	move(b, 1);
	CK(cuStreamBeginCapture(streams[1], CU_STREAM_CAPTURE_MODE_RELAXED));
	write_block(b);
	CK(cuStreamEndCapture(streams[1], &graph));
	CK(cuGraphInstantiate(&exec, graph, 0));
	say("graph", (int)(b - blocks), cuGraphLaunch(exec, streams[1]));
	CK(cuStreamSynchronize(streams[1]));
	CK(cuGraphExecDestroy(exec));
	CK(cuGraphDestroy(graph));
}

static void ask(const struct block *b)
{
	CUdeviceptr base = 0, at;
	unsigned type = 0, managed = 0;
	size_t size = 0;
	int device = -1;

	if (!b->p)
		return;
	at = b->p + draw((unsigned)b->words) * 4;
	CK(cuMemGetAddressRange(&base, &size, at));
	CK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at));
	CK(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED,
				 at));
	CK(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
				 at));
	printf("ask %d: from %d, type %u, managed %u, device %d\n",
	       (int)(b - blocks), base == b->p, type, managed, device);
}

static void be_wrong(struct block *b)
{
	int which = (int)(b - blocks);

	if (!b->p)
		return;
	CK(cuCtxSynchronize());
	switch (draw(3)) {
	case 0:
		say("free inside", which, cuMemFree(b->p + 256));
		break;
	case 1:
		if (handles[0].refs)
			say("map over it", which,
			    cuMemMap(b->p, unit, 0, handles[0].value, 0));
		break;
	case 2:
		say("unmap", which, cuMemUnmap(b->p, unit));
		break;
	}
}

static CUdeviceptr at(const struct place *p)
{
	return reserved + (size_t)(p - places) * unit;
}

static void create(struct handle *h)
{
	CUresult rc;

	if (h->refs || h->maps)
		return;
	rc = cuMemCreate(&h->value, unit, &prop, 0);
	say("create", (int)(h - handles), rc);
	h->refs = !rc;
	h->seed = 0;
}

static CUresult permit(struct place *p, bool writable)
{
	CUmemAccessDesc access = {
		.location = prop.location,
		.flags = writable ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE :
				    CU_MEM_ACCESS_FLAGS_PROT_READ,
	};

	p->writable = writable;
	return cuMemSetAccess(at(p), unit, &access, 1);
}

static void map(struct place *p, struct handle *h)
{
	CUresult rc;

	if (p->handle || !h->refs)
		return;
	rc = cuMemMap(at(p), unit, 0, h->value, 0);
	say("map", (int)(p - places), rc);
	if (rc)
		return;
	say("access", (int)(p - places), permit(p, draw(4) != 0));
	p->handle = h;
	h->maps++;
}

static void write_place(struct place *p)
{
	if (!p->handle || !p->writable)
		return;
	p->handle->seed = (uint32_t)prog_random(&state) | 1;
	drv_pattern(streams[0], at(p), unit / 4, p->handle->seed);
	CK(cuCtxSynchronize());
}

static void unmap(struct place *p)
{
	if (!p->handle)
		return;
	CK(cuCtxSynchronize());
	say("unmap", (int)(p - places), cuMemUnmap(at(p), unit));
	p->handle->maps--;
	p->handle = NULL;
}

static void retain(struct place *p)
{
	CUmemGenericAllocationHandle value;
	CUresult rc;

	if (!p->handle)
		return;
	rc = cuMemRetainAllocationHandle(&value, (void *)at(p));
	say("retain", (int)(p - places), rc);
	if (rc)
		return;
	p->handle->refs++;
	p->handle->value = value;
}

static void release(struct handle *h)
{
	CUmemAllocationProp now;

	if (!h->refs)
		return;
	CK(cuMemGetAllocationPropertiesFromHandle(&now, h->value));
	printf("release %d: %d, type %d, handles %d\n", (int)(h - handles),
	       cuMemRelease(h->value), now.type, now.requestedHandleTypes);
	h->refs--;
}

static void step_virtual(void)
{
	struct handle *h = &handles[draw(HANDLES)];
	struct place *p = &places[draw(PLACES)];

	switch (draw(8)) {
	case 0:
	case 1:
		create(h);
		break;
	case 2:
	case 3:
		map(p, h);
		break;
	case 4:
		write_place(p);
		break;
	case 5:
		unmap(p);
		break;
	case 6:
		if (draw(2))
			retain(p);
		else
			release(h);
		break;
	case 7:
		if (p->handle)
			say("access", (int)(p - places),
			    permit(p, draw(2) != 0));
		break;
	}
}

static void step_block(void)
{
	struct block *b = &blocks[draw(BLOCKS)];

	switch (draw(8)) {
	case 0:
	case 1:
	case 2:
		if (b->p)
			end(b, (int)(b - blocks));
		else
			begin(b, (int)(b - blocks));
		break;
	case 3:
		copy(&blocks[draw(BLOCKS)], b);
		break;
	case 4:
		if (b->p)
			move(b, (int)draw(STREAMS));
		break;
	case 5:
		capture(b);
		break;
	case 6:
		ask(b);
		break;
	case 7:
		be_wrong(b);
		break;
	}
}

/* The stream's memory outlives it. */
static void renew_stream(int i)
{
	int k;

	for (k = 0; k < BLOCKS; k++)
		if (blocks[k].p && blocks[k].stream == i)
			move(&blocks[k], 0);
	CK(cuStreamDestroy(streams[i]));
	CK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
}

static void look_at_all(long step)
{
	uint64_t used;
	int i;

	for (i = 0; i < BLOCKS; i++)
		if (blocks[i].p)
			drv_compare(streams[blocks[i].stream], blocks[i].p,
				    blocks[i].words, blocks[i].seed);
	CK(cuCtxSynchronize());
	for (i = 0; i < PLACES; i++)
		if (places[i].handle && places[i].handle->seed)
			drv_compare(streams[0], at(&places[i]), unit / 4,
				    places[i].handle->seed);
	CK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT,
				 &used));
	printf("step %ld: %llu words wrong\n", step,
	       (unsigned long long)drv_bad());
	if (step == 0)
		printf("pool in use: %llu\n", (unsigned long long)used);
	renew_stream(1 + (int)draw(STREAMS - 1));
}

static void open_all(void)
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
	};
	int i;

	drv_open();
	for (i = 0; i < STREAMS; i++) {
		if (i)
			CK(cuStreamCreate(&streams[i],
					  CU_STREAM_NON_BLOCKING));
		CK(cuEventCreate(&events[i], CU_EVENT_DISABLE_TIMING));
	}
	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	prop.location.id = drv.device;
	props.location = prop.location;
	CK(cuMemPoolCreate(&pool, &props));
	CK(cuMemGetAllocationGranularity(&unit, &prop,
					 CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	CK(cuMemAddressReserve(&reserved, unit * PLACES, 0, 0, 0));
	CK(cuCtxSynchronize());
}

static void close_all(void)
{
	int i;

	for (i = 0; i < BLOCKS; i++)
		if (blocks[i].p)
			end(&blocks[i], i);
	for (i = 0; i < PLACES; i++)
		unmap(&places[i]);
	for (i = 0; i < HANDLES; i++)
		while (handles[i].refs)
			release(&handles[i]);
	CK(cuCtxSynchronize());
	CK(cuMemAddressFree(reserved, unit * PLACES));
	CK(cuMemPoolDestroy(pool));
}

int main(void)
{
	long step, steps = prog_env("STEPS", 40000);

	setvbuf(stdout, NULL, _IOLBF, 0);
	state = (uint64_t)prog_env("SEED", 1);
	open_all();
	for (step = 0; step < steps; step++) {
		if (draw(3))
			step_block();
		else
			step_virtual();
		if (step % EVERY)
			continue;
		look_at_all(step);
		prog_step(step);
	}
	close_all();
	return 0;
}
