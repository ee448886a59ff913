/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hooks - the entry points that the library exports in the driver's place.
 *
 * hooks.def has a row for each: VS_GATED waits at the gate and forwards,
 * VS_OWN has a body in hooks_*.c.  What is not there is passed on by never
 * being touched; tests/lint/entry-points.txt says why.
 */
#ifndef VS_INTERCEPT_HOOKS_H
#define VS_INTERCEPT_HOOKS_H

#include "base/cuda.h"
#include "base/driver.h"
#include "sleep/gate.h"

#define VS_EXPORT __attribute__((visibility("default")))

/*
 * Call the real entry point; NOT_FOUND where the driver lacks it.  The first
 * call of a program may come here, so an empty row fills the table; the row
 * is loaded atomically because another thread may be filling it.
 */
#define VS_REAL(sym, args)						\
	__extension__ ({						\
		__typeof__(&sym) real_ =				\
			__atomic_load_n(&vs_real.sym, __ATOMIC_ACQUIRE);\
									\
		if (__builtin_expect(!real_, 0) && vs_driver_load())	\
			real_ = vs_real.sym;				\
		real_ ? real_ args : CUDA_ERROR_NOT_FOUND;		\
	})

/* A function whose value is computed inside the gate. */
#define VS_GATE_BODY(function, call, params, value)			\
CUresult function params						\
{									\
	CUresult rc;							\
									\
	if (!vs_gate_enter(call))					\
		return CUDA_ERROR_DEINITIALIZED;			\
	rc = (value);							\
	vs_gate_leave();						\
	return rc;							\
}

#define VS_INSIDE(sym, params, value)					\
	VS_EXPORT VS_GATE_BODY(sym, #sym, params, value)

#endif
