/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log - lines to VSLEEP_LOG, or warnings and errors alone to stderr.
 *
 * One write(2) a line, no malloc, no lock, errno kept; never stdout.
 */
#ifndef VS_BASE_LOG_H
#define VS_BASE_LOG_H

enum vs_log_level {
	VS_LOG_ERROR,	/* a request failed */
	VS_LOG_WARN,	/* we go on, less well */
	VS_LOG_INFO,	/* one line per transition */
	VS_LOG_DEBUG,	/* per segment */
	VS_LOG_TRACE,	/* per call */
};

/* Open @path (NULL: stderr, warnings and errors only); called once. */
void vs_log_open(const char *path, enum vs_log_level level);

void vs_log_write(enum vs_log_level level, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#define vs_log_error(...) vs_log_write(VS_LOG_ERROR, __VA_ARGS__)
#define vs_log_warn(...)  vs_log_write(VS_LOG_WARN, __VA_ARGS__)
#define vs_log_info(...)  vs_log_write(VS_LOG_INFO, __VA_ARGS__)
#define vs_log_debug(...) vs_log_write(VS_LOG_DEBUG, __VA_ARGS__)
#define vs_log_trace(...) vs_log_write(VS_LOG_TRACE, __VA_ARGS__)

#endif
