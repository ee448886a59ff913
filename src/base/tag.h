/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tag - names of groups of allocations and what sleep does with them.
 *
 * A tag is a small number; names are 1 to 64 of [A-Za-z0-9._-].  Tags are
 * only ever added.  Rank TAG.
 */
#ifndef VS_BASE_TAG_H
#define VS_BASE_TAG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/why.h"

#define VS_TAG_MAX 64		/* tags in one process; fits vs_tag_set */
#define VS_TAG_NAME_MAX 64	/* characters, without the NUL */
#define VS_TAG_NATIVE (-1)	/* untagged: left to the driver */

typedef uint64_t vs_tag_set;	/* bit n: tag n */

enum vs_policy { VS_POLICY_OFFLOAD, VS_POLICY_DISCARD, VS_POLICY_KEEP };

/* Take VSLEEP_TAG and VSLEEP_TAGS in; called once, before any allocation. */
void vs_tag_init(const char *tag, const char *tags);

/* The tag that an allocation made now by this thread gets: the top of its
 * stack, else the marker, else VSLEEP_TAG. */
int vs_tag_current(void);

/* The thread's own stack; "" stands for VS_TAG_NATIVE.  Refused when it is
 * full, or empty. */
#define VS_TAG_DEPTH 32
enum vs_status vs_tag_push(const char *name, struct vs_why *why);
enum vs_status vs_tag_pop(struct vs_why *why);

/* Set the process marker; NULL clears it. */
enum vs_status vs_tag_mark(const char *name, struct vs_why *why);

/* The same by number: 0 clears it, n sets the n-th tag of VSLEEP_TAGS. */
enum vs_status vs_tag_mark_nth(int n, struct vs_why *why);

/* The marker's tag, or VS_TAG_NATIVE when there is none. */
int vs_tag_marker(void);

/* Make the tag known, if it is not, and set what sleeps of level 1 do with it
 * from now on. */
enum vs_status vs_tag_set_policy(const char *name, enum vs_policy policy,
				 struct vs_why *why);

/* The name is one that a tag may have. */
bool vs_tag_valid(const char *name);

/* A known tag, or -1. */
int vs_tag_find(const char *name);

int vs_tag_count(void);
const char *vs_tag_name(int tag);
enum vs_policy vs_tag_policy(int tag);
const char *vs_tag_policy_word(enum vs_policy policy);

/* A policy was declared for at least one tag. */
bool vs_tag_declared(void);

/* Parse "a,b" into a set; refuses empty, malformed and unknown names. */
enum vs_status vs_tag_parse_set(const char *list, vs_tag_set *out,
				struct vs_why *why);

#endif
