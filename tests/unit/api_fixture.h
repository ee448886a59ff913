/* SPDX-License-Identifier: Apache-2.0 */
/*
 * api_fixture - the functions of include/vsleep.h as tests call them: every
 * reply is filled, and errno stays.
 */
#ifndef TESTS_API_FIXTURE_H
#define TESTS_API_FIXTURE_H

#include "memory_fixture.h"

#define VSLEEP_LIBRARY
#include <vsleep.h>

#include <errno.h>
#include <string.h>

#define BLOCK (3 * MIB)
#define ODD_ERRNO 4711

static struct vsleep_reply reply = { .size = sizeof(reply) };

/* Before any answer: what it must not leave as it is. */
static inline struct vsleep_reply *fresh(void)
{
	memset(&reply, 0x5a, sizeof(reply));
	reply.size = sizeof(reply);
	errno = ODD_ERRNO;
	return &reply;
}

#define ck_reply(rc, expected, text)					\
	do {								\
		int rc_ = (rc);						\
									\
		ck_assert_msg(rc_ == (expected), "%d, not %d: %s", rc_,	\
			      (expected), reply.message);		\
		ck_assert_int_eq(errno, ODD_ERRNO);			\
		ck_assert_uint_eq(reply.size, sizeof(reply));		\
		ck_assert_msg(strstr(reply.message, text) != NULL,	\
			      "\"%s\" does not say %s", reply.message,	\
			      text);					\
	} while (0)

static inline int sleep_all(void)
{
	return vsleep_sleep(1, NULL, 0, 10, fresh());
}

static inline int wake_all(void)
{
	return vsleep_wake(NULL, 0, 0, fresh());
}

/* With the operation thread, which a program has with its first context. */
static inline void start(const char *tags)
{
	fixture_start("default", tags);
	ck_assert_int_eq(fixture_wake(NULL).status, VS_OK);
}

#endif
