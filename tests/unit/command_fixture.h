/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command_fixture - a request without a server: what is answered, and the job
 * that has the answer.
 */
#ifndef TESTS_COMMAND_FIXTURE_H
#define TESTS_COMMAND_FIXTURE_H

#include <check.h>
#include <stdbool.h>

#include "control/command.h"
#include "control/reply.h"
#include "stub_operation.h"

extern char output[VS_REPLY_MAX + 1];
extern struct vs_command command;

/* Scan and run @request; the answer is in output, the job in command. */
void ask(const char *request);

bool has_line(const char *line);
void assert_one_message(void);

/* Run the tests that @fill adds, each with tags and a ledger of its own. */
int command_main(const char *name, void (*fill)(TCase *tc));

#endif
