/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernels_ptx - the kernels of the test programs, as PTX text.
 *
 * Old version, old target: any driver loads it, no compiler is needed.  Every
 * kernel strides over the whole grid, so any launch geometry is right.
 *
 *   fill(u64 ptr, u64 words, u32 value)            word = value
 *   add(u64 ptr, u64 words, u32 value)             word += value
 *   pattern(u64 ptr, u64 words, u32 seed)          word i = h(seed, i)
 *   check(u64 ptr, u64 words, u32 seed, u64 bad)   *bad += words that differ
 *                                                  from h(seed, i); bad is u64
 *   spin(u64 ns, u64 out)                          run for ns, then the u32
 *                                                  *out = 1 (0: no write)
 *   wait_flag(u64 flag, u64 out)                   run until the u32 *flag is
 *                                                  not 0, then as spin
 *
 * h(seed, i) is kernels_word() below.
 */
#ifndef VS_TEST_KERNELS_PTX_H
#define VS_TEST_KERNELS_PTX_H

#include <stdint.h>

static inline uint32_t kernels_word(uint32_t seed, uint64_t i)
{
	uint32_t x = seed ^ ((uint32_t)i * 2654435761u);

	x ^= x >> 16;
	x *= 0x85ebca6bu;
	x ^= x >> 13;
	x *= 0xc2b2ae35u;
	x ^= x >> 16;
	return x;
}

/* %i = this thread's number in the grid, %step = threads in the grid */
#define KERNELS_INDEX							\
	"\t.reg .b32 %t<8>;\n"						\
	"\t.reg .b64 %i, %step, %u<4>;\n"				\
	"\tmov.u32 %t0, %tid.z;\n"					\
	"\tmov.u32 %t1, %ntid.y;\n"					\
	"\tmov.u32 %t2, %tid.y;\n"					\
	"\tmad.lo.u32 %t0, %t0, %t1, %t2;\n"				\
	"\tmov.u32 %t2, %ntid.x;\n"					\
	"\tmov.u32 %t3, %tid.x;\n"					\
	"\tmad.lo.u32 %t0, %t0, %t2, %t3;\n"				\
	"\tmul.lo.u32 %t1, %t1, %t2;\n"					\
	"\tmov.u32 %t2, %ntid.z;\n"					\
	"\tmul.lo.u32 %t1, %t1, %t2;\n"					\
	"\tmov.u32 %t2, %ctaid.z;\n"					\
	"\tmov.u32 %t3, %nctaid.y;\n"					\
	"\tmov.u32 %t4, %ctaid.y;\n"					\
	"\tmad.lo.u32 %t2, %t2, %t3, %t4;\n"				\
	"\tcvt.u64.u32 %u0, %t2;\n"					\
	"\tmov.u32 %t4, %nctaid.x;\n"					\
	"\tcvt.u64.u32 %u1, %t4;\n"					\
	"\tmov.u32 %t5, %ctaid.x;\n"					\
	"\tcvt.u64.u32 %u2, %t5;\n"					\
	"\tmad.lo.u64 %u0, %u0, %u1, %u2;\n"				\
	"\tcvt.u64.u32 %u2, %t1;\n"					\
	"\tcvt.u64.u32 %u3, %t0;\n"					\
	"\tmad.lo.u64 %i, %u0, %u2, %u3;\n"				\
	"\tmul.wide.u32 %u0, %t3, %t4;\n"				\
	"\tmul.lo.u64 %step, %u0, %u2;\n"				\
	"\tmov.u32 %t6, %nctaid.z;\n"					\
	"\tcvt.u64.u32 %u1, %t6;\n"					\
	"\tmul.lo.u64 %step, %step, %u1;\n"

/* for (; %i < %n; %i += %step) with %at the address of word %i */
#define KERNELS_LOOP							\
	"\t.reg .pred %end;\n"						\
	"\t.reg .b64 %ptr, %n, %at, %bytes;\n"				\
	"\t.reg .b32 %v, %w, %x, %y;\n"					\
	"\tld.param.u64 %ptr, [a];\n"					\
	"\tld.param.u64 %n, [b];\n"					\
	"\tld.param.u32 %v, [c];\n"					\
	"\tshl.b64 %at, %i, 2;\n"					\
	"\tadd.u64 %at, %at, %ptr;\n"					\
	"\tshl.b64 %bytes, %step, 2;\n"					\
	"again:\n"							\
	"\tsetp.ge.u64 %end, %i, %n;\n"					\
	"\t@%end bra done;\n"

#define KERNELS_NEXT							\
	"\tadd.u64 %i, %i, %step;\n"					\
	"\tadd.u64 %at, %at, %bytes;\n"					\
	"\tbra again;\n"						\
	"done:\n"

/* %x = h(%v, %i) */
#define KERNELS_WORD							\
	"\tcvt.u32.u64 %x, %i;\n"					\
	"\tmul.lo.u32 %x, %x, 0x9e3779b1;\n"				\
	"\txor.b32 %x, %x, %v;\n"					\
	"\tshr.u32 %y, %x, 16;\n"					\
	"\txor.b32 %x, %x, %y;\n"					\
	"\tmul.lo.u32 %x, %x, 0x85ebca6b;\n"				\
	"\tshr.u32 %y, %x, 13;\n"					\
	"\txor.b32 %x, %x, %y;\n"					\
	"\tmul.lo.u32 %x, %x, 0xc2b2ae35;\n"				\
	"\tshr.u32 %y, %x, 16;\n"					\
	"\txor.b32 %x, %x, %y;\n"

/* thread 0 of the grid writes 1 to [b], unless b is 0 */
#define KERNELS_OUT							\
	"\tld.param.u64 %out, [b];\n"					\
	"\tsetp.ne.u64 %p, %i, 0;\n"					\
	"\t@%p bra end;\n"						\
	"\tsetp.eq.u64 %p, %out, 0;\n"					\
	"\t@%p bra end;\n"						\
	"\tmov.u32 %one, 1;\n"						\
	"\tst.u32 [%out], %one;\n"					\
	"end:\n"							\
	"\tret;\n"

static const char kernels_ptx[] =
	".version 4.0\n"
	".target sm_30\n"
	".address_size 64\n"
	".visible .entry fill(.param .u64 a, .param .u64 b, .param .u32 c)\n"
	"{\n"
	KERNELS_INDEX
	KERNELS_LOOP
	"\tst.u32 [%at], %v;\n"
	KERNELS_NEXT
	"\tret;\n"
	"}\n"
	".visible .entry add(.param .u64 a, .param .u64 b, .param .u32 c)\n"
	"{\n"
	KERNELS_INDEX
	KERNELS_LOOP
	"\tld.u32 %w, [%at];\n"
	"\tadd.u32 %w, %w, %v;\n"
	"\tst.u32 [%at], %w;\n"
	KERNELS_NEXT
	"\tret;\n"
	"}\n"
	".visible .entry pattern(.param .u64 a, .param .u64 b, .param .u32 c)\n"
	"{\n"
	KERNELS_INDEX
	KERNELS_LOOP
	KERNELS_WORD
	"\tst.u32 [%at], %x;\n"
	KERNELS_NEXT
	"\tret;\n"
	"}\n"
	".visible .entry check(.param .u64 a, .param .u64 b, .param .u32 c,\n"
	"\t.param .u64 d)\n"
	"{\n"
	"\t.reg .pred %p;\n"
	"\t.reg .b64 %bad, %found;\n"
	"\tmov.u64 %found, 0;\n"
	KERNELS_INDEX
	KERNELS_LOOP
	KERNELS_WORD
	"\tld.u32 %w, [%at];\n"
	"\tsetp.ne.u32 %p, %w, %x;\n"
	"\t@%p add.u64 %found, %found, 1;\n"
	KERNELS_NEXT
	"\tsetp.eq.u64 %p, %found, 0;\n"
	"\t@%p bra end;\n"
	"\tld.param.u64 %bad, [d];\n"
	"\tred.add.u64 [%bad], %found;\n"
	"end:\n"
	"\tret;\n"
	"}\n"
	".visible .entry spin(.param .u64 a, .param .u64 b)\n"
	"{\n"
	"\t.reg .pred %p;\n"
	"\t.reg .b32 %one;\n"
	"\t.reg .b64 %ns, %from, %now, %out;\n"
	KERNELS_INDEX
	"\tld.param.u64 %ns, [a];\n"
	"\tmov.u64 %from, %globaltimer;\n"
	"again:\n"
	"\tmov.u64 %now, %globaltimer;\n"
	"\tsub.u64 %now, %now, %from;\n"
	"\tsetp.lt.u64 %p, %now, %ns;\n"
	"\t@%p bra again;\n"
	KERNELS_OUT
	"}\n"
	".visible .entry wait_flag(.param .u64 a, .param .u64 b)\n"
	"{\n"
	"\t.reg .pred %p;\n"
	"\t.reg .b32 %flag, %one;\n"
	"\t.reg .b64 %from, %out;\n"
	KERNELS_INDEX
	"\tld.param.u64 %from, [a];\n"
	"again:\n"
	"\tld.volatile.u32 %flag, [%from];\n"
	"\tsetp.eq.u32 %p, %flag, 0;\n"
	"\t@%p bra again;\n"
	KERNELS_OUT
	"}\n";

#endif
