/* SPDX-License-Identifier: Apache-2.0 */
/*
 * form - the keys and values of a request, and what may stand there.
 *
 * Each function answers bad-request, naming the key and what would be right,
 * and returns false, where something is wrong.
 */
#ifndef VS_CONTROL_FORM_H
#define VS_CONTROL_FORM_H

#include <stdbool.h>

#include "control/reply.h"
#include "sleep/operation.h"

/* Keys that any verb takes, at most. */
#define VS_FORM_PAIRS 16

struct vs_form {
	const char *verb;
	const char *keys;	/* that it takes, separated by one space */
	struct {
		const char *key, *value;
	} pairs[VS_FORM_PAIRS];
	int count;
};

/* "KEY=VALUE", which is cut up; a key that the verb takes, and but once. */
bool vs_form_add(struct vs_form *form, char *line, struct vs_text *answer);

/* NULL when it was not given. */
const char *vs_form_value(const struct vs_form *form, const char *key);

/* Those that were not given leave *out alone. */
bool vs_form_number(const struct vs_form *form, const char *key, unsigned min,
		    unsigned max, unsigned *out, struct vs_text *answer);
bool vs_form_choice(const struct vs_form *form, const char *key,
		    enum vs_choice *out, struct vs_text *answer);
bool vs_form_flag(const struct vs_form *form, const char *key, bool *out,
		  struct vs_text *answer);

#endif
