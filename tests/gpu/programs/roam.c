/* SPDX-License-Identifier: Apache-2.0 */
/*
 * roam - threads that allocate in all ways at once, each as chance has it.
 *
 * Plain and stream-ordered memory and memory that the program maps itself, on
 * one or two devices, which may be too small for all of it.  Streams are
 * destroyed with work in them, and blocks are handed from thread to thread in
 * the order of events.  Under vsleep each thread has a tag that it puts to
 * sleep by itself; until it wakes it frees, maps, unmaps and allocates on.
 *
 * Everything that is read is compared with what was written.  $SEED, $STEPS,
 * $THREADS; $NAPS=0: no sleeps of its own; $EXPORT=1: some memory is shared.
 */
#include "roam.h"
#include "vsleep.h"

#include <pthread.h>

#define THREADS 8
#define DEVICES 2
#define MARKET 8
#define LARGEST (9 * MIB)

struct offer {
	struct block block;
	CUevent event;
	struct device *device;
};

static struct device devices[DEVICES];
static int device_count;
static struct thread threads[THREADS];
static pthread_mutex_t market_lock = PTHREAD_MUTEX_INITIALIZER;
static struct offer market[MARKET];
static long steps;
static bool naps;

static void order(struct thread *t, CUstream from, CUstream to)
{
	CK(cuEventRecord(t->event, from));
	CK(cuStreamWaitEvent(to, t->event, 0));
}

static void move(struct thread *t, struct block *b, int to)
{
	if (b->stream != to)
		order(t, t->streams[b->stream], t->streams[to]);
	b->stream = to;
}

static bool get(struct thread *t, struct block *b, size_t size)
{
	CUstream s = t->streams[b->stream];

	switch (b->way) {
	case PLAIN:
		return TRY(cuMemAlloc(&b->p, size));
	case ASYNC:
		return TRY(cuMemAllocAsync(&b->p, size, s));
	default:
		return TRY(cuMemAllocFromPoolAsync(&b->p, size,
						   t->device->pool, s));
	}
}

/* Often one that others ask for too. */
static size_t some_size(struct thread *t)
{
	static const size_t usual[] = { 4096, 70000, MIB, 5 * MIB };

	return draw(t, 4) ? usual[draw(t, 4)] : prog_size(&t->state, LARGEST);
}

static void begin(struct thread *t, struct block *b, bool shared)
{
	b->words = some_size(t) / 4;
	b->way = (enum way)draw(t, WAYS);
	b->stream = (int)draw(t, STREAMS);
	if (shared)
		vsleep_tag_push("shared");
	if (!get(t, b, b->words * 4)) {
		b->p = 0;
		t->short_of++;
	}
	if (shared)
		vsleep_tag_pop();
	if (b->p)
		b->seed = write_words(t, b->p, b->words,
				      t->streams[b->stream]);
}

static void end(struct thread *t, struct block *b, bool look)
{
	bool ordered = b->way != PLAIN && draw(t, 8) != 0;

	if (look) {
		move(t, b, (int)draw(t, STREAMS));
		spin(t, t->streams[b->stream]);
		compare(t, t->device, b->p, b->words, b->seed,
			t->streams[b->stream]);
		move(t, b, (int)draw(t, STREAMS));
	}
	if (!ordered)
		CK(cuStreamSynchronize(t->streams[b->stream]));
	if (ordered)
		CK(cuMemFreeAsync(b->p, t->streams[b->stream]));
	else
		CK(cuMemFree(b->p));
	b->p = 0;
}

static struct block *any(struct thread *t)
{
	return &t->blocks[draw(t, BLOCKS)];
}

/* What is offered has left its thread; who takes it waits for its event. */
static void trade(struct thread *t)
{
	struct offer *o = &market[draw(t, MARKET)], got = { .event = NULL };
	struct block b;

	pthread_mutex_lock(&market_lock);
	if (o->block.p && o->device == t->device) {
		got = *o;
		o->block.p = 0;
	}
	pthread_mutex_unlock(&market_lock);
	if (got.event) {
		b = got.block;
		b.stream = (int)draw(t, STREAMS);
		CK(cuStreamWaitEvent(t->streams[b.stream], got.event, 0));
		CK(cuEventDestroy(got.event));
		end(t, &b, true);
		return;
	}
	begin(t, &b, true);
	if (!b.p)
		return;
	CK(cuEventCreate(&got.event, CU_EVENT_DISABLE_TIMING));
	CK(cuEventRecord(got.event, t->streams[b.stream]));
	got.block = b;
	got.device = t->device;
	pthread_mutex_lock(&market_lock);
	if (!o->block.p) {
		*o = got;
		got.event = NULL;
	}
	pthread_mutex_unlock(&market_lock);
	if (got.event) {
		CK(cuEventDestroy(got.event));
		end(t, &b, true);
	}
}

/* With whatever is still to be done in it. */
static void renew_stream(struct thread *t, int i)
{
	int k;

	for (k = 0; k < BLOCKS; k++)
		if (t->blocks[k].p && t->blocks[k].stream == i)
			move(t, &t->blocks[k], 0);
	CK(cuStreamDestroy(t->streams[i]));
	CK(cuStreamCreate(&t->streams[i], CU_STREAM_NON_BLOCKING));
}

static void capture(struct thread *t, struct block *b)
{
	CUgraphExec exec;
	CUgraph graph;
	CUstream s = t->streams[1];

	move(t, b, 1);
	CK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
	b->seed = write_words(t, b->p, b->words, s);
	CK(cuStreamEndCapture(s, &graph));
	CK(cuGraphInstantiate(&exec, graph, 0));
	CK(cuGraphLaunch(exec, s));
	CK(cuStreamSynchronize(s));
	CK(cuGraphExecDestroy(exec));
	CK(cuGraphDestroy(graph));
}

static void step_block(struct thread *t)
{
	struct block *b = any(t);

	switch (draw(t, 8)) {
	case 0:
	case 1:
	case 2:
	case 3:
		if (b->p)
			end(t, b, true);
		else
			begin(t, b, false);
		break;
	case 4:
		if (b->p)
			move(t, b, (int)draw(t, STREAMS));
		break;
	case 5:
		trade(t);
		break;
	case 6:
		if (draw(t, 4) == 0)
			renew_stream(t, 1 + (int)draw(t, STREAMS - 1));
		break;
	case 7:
		if (b->p && draw(t, 4) == 0)
			capture(t, b);
		break;
	}
}

/* What this thread has sleeps, the others run on. */
static void doze(struct thread *t)
{
	struct block fresh, *b;
	int i, rc;

	for (i = 0; i < BLOCKS / 4; i++) {
		b = any(t);
		if (b->p)
			end(t, b, false);
	}
	for (i = 0; i < 24; i++)
		roam_step_mapped(t);
	begin(t, &fresh, false);
	if (fresh.p)
		end(t, &fresh, true);
	do {
		rc = vsleep_wake(t->tag, 0, 1, NULL);
		if (rc == VSLEEP_NO_MEMORY && (b = any(t))->p)
			end(t, b, false);
	} while (rc == VSLEEP_NO_MEMORY || rc == VSLEEP_CANCELLED ||
		 rc == VSLEEP_BUSY);
	if (rc) {
		fprintf(stderr, "wake: %d\n", rc);
		exit(3);
	}
}

static void nap(struct thread *t)
{
	struct vsleep_reply reply = { .size = sizeof(reply) };
	int i, rc;

	if (!naps)
		return;
	rc = vsleep_sleep(1, t->tag, 0, 5, &reply);
	if (rc != VSLEEP_OK && rc != VSLEEP_PARTIAL) {
		fprintf(stderr, "%s: sleep: %d: %s\n", t->tag, rc,
			reply.message);
		return;
	}
	t->naps++;
	t->napping = true;
	doze(t);
	t->napping = false;
	for (i = 0; i < HANDLES; i++)
		t->handles[i].fresh = false;
}

static void read_wrong(struct thread *t)
{
	uint64_t bad = 0;
	int i;

	for (i = 0; i < STREAMS; i++)
		CK(cuStreamSynchronize(t->streams[i]));
	CK(cuMemcpyDtoHAsync(&bad, t->bad, sizeof(bad), t->streams[1]));
	CK(cuStreamSynchronize(t->streams[1]));
	if (bad && !t->wrong)
		fprintf(stderr, "thread %d: %llu words are wrong\n",
			t->number, (unsigned long long)bad);
	t->wrong += bad;
	CK(cuMemsetD8Async(t->bad, 0, sizeof(bad), t->streams[1]));
	CK(cuStreamSynchronize(t->streams[1]));
}

static void open_thread(struct thread *t)
{
	struct device *d = t->device;
	int i;

	CK(cuCtxSetCurrent(d->context));
	CK(cuMemAlloc(&t->bad, sizeof(uint64_t)));
	t->streams[0] = t->number % 2 ? CU_STREAM_PER_THREAD :
					CU_STREAM_LEGACY;
	for (i = 1; i < STREAMS; i++)
		CK(cuStreamCreate(&t->streams[i], CU_STREAM_NON_BLOCKING));
	CK(cuMemsetD8Async(t->bad, 0, sizeof(uint64_t), t->streams[1]));
	CK(cuStreamSynchronize(t->streams[1]));
	CK(cuEventCreate(&t->event, CU_EVENT_DISABLE_TIMING));
	t->prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	t->prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	t->prop.location.id = d->number;
	CK(cuMemGetAllocationGranularity(&t->unit, &t->prop,
					 CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	CK(cuMemAddressReserve(&t->reserved, t->unit * PLACES, 0, 0, 0));
	if (t->other) {
		CK(cuCtxSetCurrent(t->other->context));
		CK(cuStreamCreate(&t->far, CU_STREAM_NON_BLOCKING));
		CK(cuCtxSetCurrent(d->context));
	}
}

static void close_thread(struct thread *t)
{
	int i;

	for (i = 0; i < BLOCKS; i++)
		if (t->blocks[i].p)
			end(t, &t->blocks[i], true);
	roam_end_mapped(t);
	read_wrong(t);
	CK(cuMemAddressFree(t->reserved, t->unit * PLACES));
}

static void *run(void *arg)
{
	struct thread *t = arg;
	long step;

	open_thread(t);
	vsleep_tag_push(t->tag);
	for (step = 0; step < steps; step++) {
		if (draw(t, 3))
			step_block(t);
		else
			roam_step_mapped(t);
		if (draw(t, 150) == 0)
			nap(t);
		if (step % 50)
			continue;
		read_wrong(t);
		if (t->number == 0)
			prog_step(step);
	}
	close_thread(t);
	return NULL;
}

static void open_device(struct device *d, int number)
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location.type = CU_MEM_LOCATION_TYPE_DEVICE,
		.location.id = number,
	};
	CUmodule module;

	CK(cuDeviceGet(&d->number, number));
	CK(cuDevicePrimaryCtxRetain(&d->context, d->number));
	CK(cuCtxSetCurrent(d->context));
	CK(cuModuleLoadData(&module, kernels_ptx));
	CK(cuModuleGetFunction(&d->pattern, module, "pattern"));
	CK(cuModuleGetFunction(&d->check, module, "check"));
	CK(cuModuleGetFunction(&d->spin, module, "spin"));
	CK(cuMemPoolCreate(&d->pool, &props));
}

/* Counters of one device are written by kernels of the other. */
static void open_peers(void)
{
	int i;

	for (i = 0; i < device_count && device_count == 2; i++) {
		CK(cuCtxSetCurrent(devices[i].context));
		CK(cuCtxEnablePeerAccess(devices[!i].context, 0));
	}
}

static void open_all(int count)
{
	int i, can = 0;

	CK(cuInit(0));
	CK(cuDeviceGetCount(&device_count));
	if (device_count > 1)
		CK(cuDeviceCanAccessPeer(&can, 0, 1));
	device_count = can ? DEVICES : 1;
	for (i = 0; i < device_count; i++)
		open_device(&devices[i], i);
	open_peers();
	for (i = 0; i < count; i++) {
		struct thread *t = &threads[i];

		t->number = i;
		t->exports = prog_env("EXPORT", 0);
		snprintf(t->tag, sizeof(t->tag), "t%d", i);
		t->state = (uint64_t)(prog_env("SEED", 1) * 100 + i);
		t->device = &devices[i / 2 % device_count];
		t->other = device_count == 1 ? NULL :
			   &devices[!(i / 2 % device_count)];
	}
}

int main(void)
{
	uint64_t wrong = 0, short_of = 0, napped = 0;
	int i, count = (int)prog_env("THREADS", 4);

	steps = prog_env("STEPS", 2000);
	naps = prog_env("NAPS", 1) && vsleep_present();
	if (count > THREADS)
		count = THREADS;
	open_all(count);
	for (i = 0; i < count; i++)
		if (pthread_create(&threads[i].id, NULL, run, &threads[i]))
			return 3;
	for (i = 0; i < count; i++) {
		pthread_join(threads[i].id, NULL);
		wrong += threads[i].wrong;
		short_of += threads[i].short_of;
		napped += threads[i].naps;
	}
	printf("wrong %llu\n", (unsigned long long)wrong);
	fprintf(stderr, "naps %llu, short of memory %llu times\n",
		(unsigned long long)napped, (unsigned long long)short_of);
	return wrong != 0;
}
