/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "base/why.h"

#include <stdarg.h>
#include <stdio.h>

enum vs_status vs_why_set(struct vs_why *why, enum vs_status status,
			  const char *format, ...)
{
	va_list args;

	if (!why)
		return status;
	why->status = status;
	va_start(args, format);
	vsnprintf(why->text, sizeof(why->text), format, args);
	va_end(args);
	return status;
}

const char *vs_why_word(enum vs_status status)
{
	static const char *const words[] = {
		[VS_OK] = "ok",
		[VS_PARTIAL] = "partial",
		[VS_BUSY] = "busy",
		[VS_NOMEM] = "no-memory",
		[VS_NOHOST] = "no-host-memory",
		[VS_REFUSED] = "refused",
		[VS_CANCELLED] = "cancelled",
		[VS_CUDA] = "cuda-error",
		[VS_FAILED] = "failed",
	};

	return words[status];
}
