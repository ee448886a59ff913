/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reply - the text of answers: key=value lines, ended by an empty line.
 *
 * Values are one line of printable ASCII whatever they were made of, and
 * numbers are written without the program's locale.
 */
#ifndef VS_CONTROL_REPLY_H
#define VS_CONTROL_REPLY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/config.h"
#include "base/why.h"
#include "sleep/operation.h"

/* Room for the longest answer: every tag with the longest name, and the
 * devices. */
#define VS_REPLY_MAX 40960

/* Text that grows in a buffer; what does not fit is left out. */
struct vs_text {
	char *buf;
	size_t size;
	size_t len;
	bool full;		/* something did not fit */
};

void vs_reply_add(struct vs_text *text, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* A whole answer: status, message, the ledger, the tags. */
void vs_reply_write(struct vs_text *text, const struct vs_reply *reply);

/* A whole answer without a ledger: "bad-request", or one of vs_why_word. */
void vs_reply_error(struct vs_text *text, const char *word,
		    const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* The ledger after a cancel that took @count requests back. */
void vs_reply_cancelled(struct vs_text *text, int count,
			const struct vs_reply *reply);

/* The answer to lend; the descriptors go with it. */
void vs_reply_lent(struct vs_text *text, const struct vs_ipc_loan *loan);

/* A line of the answer to config. */
void vs_reply_setting(struct vs_text *text, const struct vs_config_row *row);

void vs_reply_progress(struct vs_text *text,
		       const struct vs_progress *progress);

#endif
