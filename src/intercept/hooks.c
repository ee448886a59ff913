/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "intercept/hooks.h"

#define VS_OWN(sym)
#define VS_OWN2(sym, suffix)
#define VS_GATED(sym, params, args)					\
static __attribute__((cold, noinline))					\
VS_GATE_BODY(slow_##sym, #sym, params, VS_REAL(sym, args))		\
									\
VS_EXPORT CUresult sym params						\
{									\
	__typeof__(&sym) real_ =					\
		__atomic_load_n(&vs_real.sym, __ATOMIC_ACQUIRE);	\
	CUresult rc;							\
									\
	if (__builtin_expect(!real_ || !vs_gate_try(#sym), 0))		\
		return slow_##sym args;					\
	rc = real_ args;						\
	vs_gate_leave();						\
	return rc;							\
}

#define VS_GATED2(sym, suffix, params, args)				\
	VS_GATED(sym, params, args)					\
	VS_GATED(sym##suffix, params, args)

#include "intercept/hooks.def"
