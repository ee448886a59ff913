/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config - the settings: one row each in config.def (environment name, type,
 * range, default, help), read once at start and never again.
 *
 * A wrong value is logged once, naming the setting and what would be right,
 * and the default is used.
 */
#ifndef VS_BASE_CONFIG_H
#define VS_BASE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

struct vs_config {
	bool disable;
	const char *only;
	const char *dir;
	const char *log;
	const char *log_level;
	const char *tag;	/* "" : untagged allocations stay native */
	const char *tags;
	const char *signals;
	size_t timeout_ms;
	size_t host_limit;	/* bytes, 0: what the machine has available */
	size_t threads;		/* 0: from the machine */
};

extern struct vs_config vs_config;

/* Read the environment; idempotent.  False: switched off for this program. */
bool vs_config_read(void);

/* Call @fn for each row: environment name, type, default, help. */
void vs_config_each(void (*fn)(const char *env, const char *type,
			       const char *preset, const char *help,
			       void *arg), void *arg);

/* Parse "64G", "512M", "4096"; false and *out untouched on bad text. */
bool vs_config_bytes(const char *text, size_t *out);

#endif
