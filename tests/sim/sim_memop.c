/* SPDX-License-Identifier: Apache-2.0 */
/* Streams that wait for or write a word, and attributes of streams. */
#include "sim_internal.h"

#include <string.h>

struct word {
	struct sim_op op;
	uintptr_t at;
	uint64_t value;
	unsigned how;
	bool wide;
};

static bool word_ready(struct sim_op *op)
{
	const struct word *w = (struct word *)op;
	uint64_t now, v = w->value;
	int64_t ahead;

	if (w->wide) {
		now = __atomic_load_n((uint64_t *)w->at, __ATOMIC_ACQUIRE);
		ahead = (int64_t)(now - v);
	} else {
		now = __atomic_load_n((uint32_t *)w->at, __ATOMIC_ACQUIRE);
		ahead = (int32_t)(uint32_t)(now - v);
	}
	switch (w->how & 3) {
	case CU_STREAM_WAIT_VALUE_GEQ:
		return ahead >= 0;
	case CU_STREAM_WAIT_VALUE_EQ:
		return now == v;
	case CU_STREAM_WAIT_VALUE_AND:
		return (now & v) != 0;
	default:
		return (w->wide ? ~(now | v) : (uint32_t)~(now | v)) != 0;
	}
}

static void word_write(struct sim_op *op, struct sim_line *line)
{
	const struct word *w = (struct word *)op;

	(void)line;
	if (w->wide)
		__atomic_store_n((uint64_t *)w->at, w->value,
				 __ATOMIC_RELEASE);
	else
		__atomic_store_n((uint32_t *)w->at, (uint32_t)w->value,
				 __ATOMIC_RELEASE);
}

struct order {
	CUdeviceptr at;
	uint64_t value;
	unsigned flags;
	bool wide;
	bool write;
};

static CUresult word_op(struct sim_line *line, const struct order *o)
{
	size_t size = o->wide ? 8 : 4;
	struct word *w;

	if (o->at % size)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_check_device(line->ctx, o->at, size, o->write));
	w = sim_op_new(sizeof(*w), CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
	if (!w)
		return CUDA_ERROR_OUT_OF_MEMORY;
	w->at = o->at;
	w->value = o->wide ? o->value : (uint32_t)o->value;
	w->how = o->flags;
	w->wide = o->wide;
	if (o->write) {
		w->op.run = word_write;
	} else {
		w->op.ready = word_ready;
		w->op.polls = true;
	}
	return sim_submit(line, &w->op);
}

static CUresult one_word(bool pt, CUstream stream, const struct order *o)
{
	struct sim_line *line;

	SIM_TRY(sim_line_get(stream, pt, &line));
	return word_op(line, o);
}

#define WORD(sym, twin, type, wide, write)				\
SIM_TWINS(sym, twin, (CUstream stream, CUdeviceptr at, type value,	\
		      unsigned int flags),				\
	  one_word(pt, stream,						\
		   &(struct order){ at, value, flags, wide, write }))

WORD(cuStreamWaitValue32, cuStreamWaitValue32_ptsz, cuuint32_t, false, false)
WORD(cuStreamWaitValue32_v2, cuStreamWaitValue32_v2_ptsz, cuuint32_t, false,
     false)
WORD(cuStreamWaitValue64, cuStreamWaitValue64_ptsz, cuuint64_t, true, false)
WORD(cuStreamWaitValue64_v2, cuStreamWaitValue64_v2_ptsz, cuuint64_t, true,
     false)
WORD(cuStreamWriteValue32, cuStreamWriteValue32_ptsz, cuuint32_t, false, true)
WORD(cuStreamWriteValue32_v2, cuStreamWriteValue32_v2_ptsz, cuuint32_t, false,
     true)
WORD(cuStreamWriteValue64, cuStreamWriteValue64_ptsz, cuuint64_t, true, true)
WORD(cuStreamWriteValue64_v2, cuStreamWriteValue64_v2_ptsz, cuuint64_t, true,
     true)

static CUresult batch(bool pt, CUstream stream, unsigned n,
		      const CUstreamBatchMemOpParams *p)
{
	struct sim_line *line;
	unsigned i;

	SIM_TRY(sim_line_get(stream, pt, &line));
	if (!p || n > 256)
		return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; i < n; i++) {
		struct order o = { p[i].waitValue.address,
				   p[i].waitValue.value64,
				   p[i].waitValue.flags, false, false };

		switch ((int)p[i].operation) {
		case CU_STREAM_MEM_OP_WAIT_VALUE_64:
			o.wide = true;
			break;
		case CU_STREAM_MEM_OP_WRITE_VALUE_64:
			o.wide = true;
			o.write = true;
			break;
		case CU_STREAM_MEM_OP_WRITE_VALUE_32:
			o.write = true;
			break;
		case CU_STREAM_MEM_OP_WAIT_VALUE_32:
			break;
		case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
		case CU_STREAM_MEM_OP_BARRIER:
			continue;
		default:
			return CUDA_ERROR_INVALID_VALUE;
		}
		SIM_TRY(word_op(line, &o));
	}
	return CUDA_SUCCESS;
}

SIM_TWINS(cuStreamBatchMemOp, cuStreamBatchMemOp_ptsz,
	  (CUstream stream, unsigned int n, CUstreamBatchMemOpParams *p,
	   unsigned int flags SIM_UNUSED),
	  batch(pt, stream, n, p))
SIM_TWINS(cuStreamBatchMemOp_v2, cuStreamBatchMemOp_v2_ptsz,
	  (CUstream stream, unsigned int n, CUstreamBatchMemOpParams *p,
	   unsigned int flags SIM_UNUSED),
	  batch(pt, stream, n, p))

/* Attributes are taken and forgotten: nothing here has caches or domains. */
static CUresult attribute(bool pt, CUstream stream, CUstreamAttrValue *out,
			  const void *in)
{
	struct sim_line *line;

	SIM_TRY(sim_line_get(stream, pt, &line));
	if (!out && !in)
		return CUDA_ERROR_INVALID_VALUE;
	if (out)
		memset(out, 0, sizeof(*out));
	return CUDA_SUCCESS;
}

SIM_TWINS(cuStreamGetAttribute, cuStreamGetAttribute_ptsz,
	  (CUstream stream, CUstreamAttrID id SIM_UNUSED,
	   CUstreamAttrValue *out),
	  attribute(pt, stream, out, NULL))
SIM_TWINS(cuStreamSetAttribute, cuStreamSetAttribute_ptsz,
	  (CUstream stream, CUstreamAttrID id SIM_UNUSED,
	   const CUstreamAttrValue *value),
	  attribute(pt, stream, NULL, value))
SIM_TWINS(cuStreamCopyAttributes, cuStreamCopyAttributes_ptsz,
	  (CUstream to, CUstream from), attribute(pt, to, NULL, from))
