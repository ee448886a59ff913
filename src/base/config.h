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

enum vs_config_choice { VS_CONFIG_AUTO, VS_CONFIG_YES, VS_CONFIG_NO };

struct vs_config {
	bool disable;
	const char *only;
	const char *dir;
	const char *log;
	const char *log_level;
	const char *tag;	/* "" : untagged allocations stay native */
	const char *tags;
	const char *signals;
	const char *mark_signal;
	const char *ipc;
	size_t timeout_ms;
	size_t host_limit;	/* bytes, 0: what the machine has available */
	const char *spill_dir;	/* "": none */
	size_t threads;		/* 0: from the machine */
	enum vs_config_choice retain;
	bool verify;
	bool prepare;
};

extern struct vs_config vs_config;

/* Read the environment; idempotent.  False: switched off for this program. */
bool vs_config_read(void);

/* A line in the log for each setting that was wrong; once it is open. */
void vs_config_say_rejected(void);

/* One row, with the value in use and where it comes from. */
struct vs_config_row {
	const char *env;
	const char *type;
	const char *preset;
	const char *help;
	char value[1024];	/* as it would be written in the environment */
	const char *source;	/* "default", "environment", or "rejected" when
				   the environment had a wrong one */
};

/* Call @fn for each row; after vs_config_read. */
void vs_config_each(void (*fn)(const struct vs_config_row *row, void *arg),
		    void *arg);

/* The text of a setting is not what its owner can use: from here on it counts
 * as rejected, and @in_use, a constant, stands in its place. */
void vs_config_reject(const char *env, const char *in_use);

/* Parse "64G", "512M", "4096"; false and *out untouched on bad text. */
bool vs_config_bytes(const char *text, size_t *out);

#endif
