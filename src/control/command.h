/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command - requests: scanned, checked and carried out.
 *
 * A request is "vsleep 1 VERB", key=value lines and an empty line, all of it
 * printable ASCII.  One that is wrong in any part is answered by bad-request,
 * naming the part and what would be right, and changes nothing.
 */
#ifndef VS_CONTROL_COMMAND_H
#define VS_CONTROL_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

#include "control/lend.h"
#include "control/reply.h"
#include "sleep/operation.h"

#define VS_COMMAND_MAX 8192	/* the longest request, in bytes */

/*
 * The length of the request at the start of @text with its empty line, or 0
 * while that has not come.  -1 when there never can be one: the answer that
 * says so is in @answer, and the connection is of no more use.
 */
int vs_command_scan(const char *text, size_t len, struct vs_text *answer);

struct vs_command {
	int notify_fd;		/* in: told when the job ends */
	struct vs_job *rest;	/* in and out: the client's quiesce that is
				   done; NULL once it is let go or taken */
	struct vs_lending *lending;	/* in and out: the connection's; NULL:
					   it cannot take descriptors */
	struct vs_job *job;	/* out: it has the answer; NULL: answered */
	bool rests;		/* out: the job is a quiesce */
	bool progress;		/* out: progress lines are wanted */
};

/* Carry out the request of @len bytes that scan found; @text is cut up. */
void vs_command_run(char *text, size_t len, struct vs_command *command,
		    struct vs_text *answer);

/* The request that a signal makes, and what a client's one starts from. */
void vs_command_preset(enum vs_verb verb, struct vs_request *request);

#endif
