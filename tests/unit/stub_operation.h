/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stub_operation - sleep/operation.h without any GPU: jobs end when the test
 * says so, and what was asked for can be looked at.
 */
#ifndef TESTS_STUB_OPERATION_H
#define TESTS_STUB_OPERATION_H

#include "sleep/operation.h"

/* The ledger that replies state; set it before there is a server. */
extern struct vs_ledger stub_ledger;

/* What submit answers from here on: VS_OK takes the request. */
void stub_answer(enum vs_status status, const char *text);
/* Jobs end at once instead of waiting for stub_finish. */
void stub_at_once(void);

/* Wait until @count requests were submitted in all; the last one is copied. */
void stub_wait_submitted(unsigned count, struct vs_request *last);
/* Wait until @count jobs were forgotten in all. */
void stub_wait_forgotten(unsigned count);
unsigned stub_submitted(void);
/* Jobs that were forgotten when they were done, and whose rest no other took
 * over. */
unsigned stub_let_go(void);
/* How often a resume was asked for. */
unsigned stub_resumed(void);
/* No rest is kept from here on. */
void stub_end_leases(void);
/* What the jobs' answers foretell. */
void stub_foretell(const struct vs_outlook *what);

/* End every running job with @status. */
void stub_finish(enum vs_status status, const char *text);

#endif
