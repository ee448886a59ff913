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

/* The tag that an allocation made now gets: marker, else VSLEEP_TAG. */
int vs_tag_current(void);

/* Set the process marker; NULL clears it. */
enum vs_status vs_tag_mark(const char *name, struct vs_why *why);

/* The marker's tag, or VS_TAG_NATIVE when there is none. */
int vs_tag_marker(void);

/* A known tag, or -1. */
int vs_tag_find(const char *name);

int vs_tag_count(void);
const char *vs_tag_name(int tag);
enum vs_policy vs_tag_policy(int tag);
const char *vs_tag_policy_word(enum vs_policy policy);

/* VSLEEP_TAGS declared a policy for at least one tag. */
bool vs_tag_declared(void);

/* Parse "a,b" into a set; refuses empty, malformed and unknown names. */
enum vs_status vs_tag_parse_set(const char *list, vs_tag_set *out,
				struct vs_why *why);

#endif
