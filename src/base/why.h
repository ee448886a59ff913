/* SPDX-License-Identifier: Apache-2.0 */
/*
 * why - a code and a sentence that travel from where a cause is known to the
 * client that asked.
 *
 * Who first knows the cause fills it; who passes it on leaves it alone.
 */
#ifndef VS_BASE_WHY_H
#define VS_BASE_WHY_H

#include <stddef.h>

enum vs_status {
	VS_OK = 0,
	VS_PARTIAL,	/* done, but something stayed that should not have */
	VS_BUSY,	/* not quiet before the deadline; nothing changed */
	VS_NOMEM,	/* device memory is short; nothing changed */
	VS_NOHOST,	/* host memory is short; nothing changed */
	VS_REFUSED,	/* conflicts with the state; nothing changed */
	VS_CANCELLED,	/* another request took it back; nothing changed */
	VS_CUDA,	/* the driver failed a call */
	VS_FAILED,	/* the process is in state FAILED */
};

struct vs_why {
	enum vs_status status;
	char text[256];
};

/* Fill @why (may be NULL) and return @status. */
enum vs_status vs_why_set(struct vs_why *why, enum vs_status status,
			  const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* The word of a status in replies: "ok", "busy", ... */
const char *vs_why_word(enum vs_status status);

#endif
