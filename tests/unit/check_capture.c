/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whatever a program does beside a capture gives what it gives without us, and
 * leaves the capture as whole or as broken.
 */
#include <config.h>

#include "memory_fixture.h"

#include "memory/capture.h"

#include <string.h>

#define OWN (17 * MIB)

enum op {
	ALLOC_SMALL, ALLOC_LARGE, ALLOC_PITCH, FREE_SMALL, FREE_LARGE,
	ASK_ATTRIBUTE, ASK_RANGE, ASK_INFO, OPS
};

/* The driver's entry points, or ours. */
static struct api {
	__typeof__(&cuMemAlloc_v2) alloc;
	__typeof__(&cuMemAllocPitch_v2) alloc_pitch;
	__typeof__(&cuMemFree_v2) free;
	__typeof__(&cuPointerGetAttribute) attribute;
	__typeof__(&cuMemGetAddressRange_v2) range;
	__typeof__(&cuMemGetInfo_v2) info;
	__typeof__(&cuStreamBeginCapture_v2) begin;
	__typeof__(&cuStreamEndCapture) end;
	__typeof__(&cuMemsetD32Async) set;
} api;

static const struct api ours = {
	cuMemAlloc_v2, cuMemAllocPitch_v2, cuMemFree_v2,
	cuPointerGetAttribute, cuMemGetAddressRange_v2, cuMemGetInfo_v2,
	cuStreamBeginCapture_v2, cuStreamEndCapture, cuMemsetD32Async,
};

static void use_driver(void)
{
	api = (struct api){
		vs_real.cuMemAlloc_v2, vs_real.cuMemAllocPitch_v2,
		vs_real.cuMemFree_v2, vs_real.cuPointerGetAttribute,
		vs_real.cuMemGetAddressRange_v2, vs_real.cuMemGetInfo_v2,
		vs_real.cuStreamBeginCapture_v2, vs_real.cuStreamEndCapture,
		vs_real.cuMemsetD32Async,
	};
}

/* The thread that calls. */
enum who { THE_SAME, ANOTHER, WITHOUT_CONTEXT, WHOS };

/* One cell of the table, and what came of it. */
struct cell {
	CUstreamCaptureMode capture;	/* of the stream */
	CUstreamCaptureMode mode;	/* of the thread that calls */
	enum who who;
	enum op op;
};

struct outcome {
	CUresult rc, again, end;
	CUstreamCaptureMode mode;
	unsigned first, second;		/* what the graph wrote */
	unsigned untouched;
};

struct work {
	const struct cell *cell;
	struct outcome *out;
	CUdeviceptr base;
};

static size_t size_of(enum op op)
{
	return op == ALLOC_LARGE || op == FREE_LARGE ? OWN : 5000;
}

static bool is_alloc(enum op op)
{
	return op <= ALLOC_PITCH;
}

static bool is_free(enum op op)
{
	return op == FREE_SMALL || op == FREE_LARGE;
}

static CUresult call(enum op op, CUdeviceptr *base)
{
	size_t size, total;
	unsigned long long id;

	switch (op) {
	case ALLOC_SMALL:
	case ALLOC_LARGE:
		return api.alloc(base, size_of(op));
	case ALLOC_PITCH:
		return api.alloc_pitch(base, &size, 100, 100, 4);
	case FREE_SMALL:
	case FREE_LARGE:
		return api.free(*base);
	case ASK_ATTRIBUTE:
		return api.attribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID,
				     *base);
	case ASK_RANGE:
		return api.range(NULL, &size, *base);
	default:
		return api.info(&size, &total);
	}
}

static int do_op(void *arg)
{
	struct work *work = arg;
	CUstreamCaptureMode mode = work->cell->mode;
	CUdeviceptr before = work->base;

	if (work->cell->who == ANOTHER)
		fixture_current(fixture_context);
	ck_ok(vs_real.cuThreadExchangeStreamCaptureMode(&mode));
	work->out->rc = call(work->cell->op, &work->base);
	work->out->untouched = work->base == before;
	work->out->mode = mode;
	ck_ok(vs_real.cuThreadExchangeStreamCaptureMode(&work->out->mode));
	return 0;
}

/* What the operation left behind, once the capture has ended. */
static void tidy_up(struct work *work)
{
	struct outcome *out = work->out;

	if (is_alloc(work->cell->op) && !out->rc)
		out->again = api.free(work->base);
	else if (is_free(work->cell->op) && out->rc)
		out->again = api.free(work->base);
	else if (!is_alloc(work->cell->op) && !is_free(work->cell->op))
		out->again = api.free(work->base);
}

static unsigned word_at(CUdeviceptr at)
{
	return *(volatile unsigned *)(uintptr_t)at;
}

static void run_graph(CUgraph graph, CUstream stream)
{
	CUgraphExec exec;

	ck_ok(vs_real.cuGraphInstantiateWithFlags(&exec, graph, 0));
	ck_ok(vs_real.cuGraphLaunch(exec, stream));
	ck_ok(vs_real.cuStreamSynchronize(stream));
	ck_ok(vs_real.cuGraphExecDestroy(exec));
	ck_ok(vs_real.cuGraphDestroy(graph));
}

static struct outcome try_cell(const struct cell *cell)
{
	struct outcome out;
	struct work work = { .cell = cell, .out = &out };
	CUdeviceptr target;
	CUstream stream;
	CUgraph graph;

	memset(&out, 0, sizeof(out));
	work.base = 0x5a5a;
	if (!is_alloc(cell->op))
		ck_ok(api.alloc(&work.base, size_of(cell->op)));
	ck_ok(api.alloc(&target, 64));
	ck_ok(vs_real.cuMemsetD32_v2(target, 9, 16));
	ck_ok(vs_real.cuCtxSynchronize());
	ck_ok(vs_real.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	ck_ok(api.begin(stream, cell->capture));
	ck_ok(api.set(target, 1, 1, stream));
	if (cell->who)
		fixture_on_thread(do_op, &work);
	else
		do_op(&work);
	api.set(target + 4, 2, 1, stream);
	out.end = api.end(stream, &graph);
	if (!out.end)
		run_graph(graph, stream);
	out.first = word_at(target);
	out.second = word_at(target + 4);
	ck_ok(vs_real.cuStreamDestroy_v2(stream));
	tidy_up(&work);
	ck_ok(api.free(target));
	return out;
}

#define MODES 3
#define CELLS (MODES * MODES * WHOS)

/* _i: the operation.  Over all modes of captures and threads. */
START_TEST(each_call_beside_a_capture_gives_what_the_driver_gives)
{
	struct outcome native, managed;
	struct cell cell = { .op = (enum op)_i };
	int i, whole = 0;

	fixture_start("default", "");
	for (i = 0; i < CELLS; i++) {
		CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

		cell.capture = (CUstreamCaptureMode)(i % MODES);
		cell.mode = (CUstreamCaptureMode)(i / MODES % MODES);
		cell.who = (enum who)(i / (MODES * MODES));
		use_driver();
		native = try_cell(&cell);
		vs_real.cuThreadExchangeStreamCaptureMode(&mode);
		api = ours;
		managed = try_cell(&cell);
		mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
		vs_real.cuThreadExchangeStreamCaptureMode(&mode);
		ck_assert_int_eq(managed.mode, cell.mode);
		ck_assert_msg(!memcmp(&managed, &native, sizeof(native)),
			      "capture %d, thread %d %d: rc %d, end %d, "
			      "again %d instead of %d, %d, %d",
			      cell.capture, cell.who, cell.mode,
			      managed.rc, managed.end, managed.again,
			      native.rc, native.end, native.again);
		whole += !managed.end;
		ck_assert(!vs_capture_any());
	}
	/* The table has both kinds of cells, but for what never breaks. */
	ck_assert_int_gt(whole, 0);
	if (_i < ASK_ATTRIBUTE)
		ck_assert_int_lt(whole, CELLS);
	else
		ck_assert_int_eq(whole, CELLS);
	fixture_assert_empty();
}
END_TEST

START_TEST(the_first_allocation_of_all_may_come_beside_a_capture)
{
	CUdeviceptr base;
	CUstream stream;
	CUgraph graph;
	int i;

	fixture_start("default", "");
	ck_ok(vs_real.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	ck_ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	for (i = 0; i < 20; i++)
		ck_cu(cuMemAlloc_v2(&base, 4096),
		      CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	ck_cu(cuStreamEndCapture(stream, &graph),
	      CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	ck_ok(cuMemAlloc_v2(&base, 4096));
	ck_assert_ptr_nonnull(fixture_segment(base));
	fixture_free(base);
	fixture_assert_empty();
}
END_TEST

/* The question costs memory of the driver's own, which comes back. */
START_TEST(many_calls_beside_a_capture_leave_nothing_behind)
{
	CUdeviceptr bases[200];
	CUstream stream;
	CUgraph graph;
	int i;

	fixture_start("default", "");
	ck_ok(vs_real.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	ck_ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	for (i = 0; i < 200; i++) {
		ck_ok(cuMemAlloc_v2(&bases[i], 3000));
		ck_assert_ptr_nonnull(fixture_segment(bases[i]));
		fixture_fill(bases[i], 3000);
	}
	for (i = 0; i < 200; i += 2)
		ck_ok(cuMemFree_v2(bases[i]));
	ck_ok(cuStreamEndCapture(stream, &graph));
	ck_ok(vs_real.cuGraphDestroy(graph));
	for (i = 1; i < 200; i += 2) {
		fixture_assert_filled(bases[i], 3000);
		ck_ok(cuMemFree_v2(bases[i]));
	}
	ck_assert_uint_eq(fixture_sim().allocations, 0);
	ck_assert_uint_eq(fixture_ledger().unmanaged_bytes, 0);
	fixture_assert_empty();
}
END_TEST

START_TEST(a_full_device_is_no_objection_to_a_free_beside_a_capture)
{
	CUdeviceptr base, rest;
	CUstream stream;
	CUgraph graph;

	fixture_start("default", "");
	ck_ok(cuMemAlloc_v2(&base, OWN));
	ck_ok(vs_real.cuMemAlloc_v2(&rest, 256 * MIB - OWN - MIB));
	ck_ok(vs_real.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	ck_ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	ck_ok(cuMemFree_v2(base));
	ck_ok(cuStreamEndCapture(stream, &graph));
	ck_ok(vs_real.cuGraphDestroy(graph));
	ck_ok(cuMemAlloc_v2(&base, OWN));
	ck_assert_ptr_nonnull(fixture_segment(base));
	fixture_free(base);
	ck_ok(vs_real.cuMemFree_v2(rest));
	fixture_assert_empty();
}
END_TEST

static void fill(TCase *tc)
{
	tcase_add_loop_test(tc,
		each_call_beside_a_capture_gives_what_the_driver_gives, 0, OPS);
	tcase_add_test(tc,
		the_first_allocation_of_all_may_come_beside_a_capture);
	tcase_add_test(tc, many_calls_beside_a_capture_leave_nothing_behind);
	tcase_add_test(tc,
		a_full_device_is_no_objection_to_a_free_beside_a_capture);
}

int main(void)
{
	return fixture_main("capture", fill);
}
