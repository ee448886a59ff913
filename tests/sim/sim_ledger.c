/* SPDX-License-Identifier: Apache-2.0 */
/* What is alive, and what was asked that a correct caller never asks. */
#include "sim_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEXT_MAX	((size_t)64 << 10)

static unsigned long invalid;	/* under sim_lock, as the text */
static char *text;
static size_t text_len;

void sim_bad(const char *fmt, ...)
{
	va_list ap;
	int n;

	invalid++;
	if (!text)
		text = calloc(1, TEXT_MAX);
	if (!text || text_len >= TEXT_MAX - 256)
		return;
	va_start(ap, fmt);
	n = vsnprintf(text + text_len, 255, fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	text_len += n > 254 ? 254 : (size_t)n;
	text[text_len++] = '\n';
	text[text_len] = '\0';
}

static void fill(struct sim_ledger *out)
{
	struct sim_range *r;
	int i;

	memset(out, 0, sizeof(*out));
	sim_export_settle();
	for (r = sim_ranges; r; r = r->next) {
		if (r->kind == SIM_MAPPED)
			out->mappings++;
		else if (r->kind == SIM_REGISTERED)
			out->registered++;
		else if (r->kind != SIM_GLOBAL && r->kind != SIM_IPC)
			out->allocations++;
	}
	out->handles = sim_handle_count(SIM_PHYS);
	out->reservations = sim_reserves;
	out->streams = sim_handle_count(SIM_STREAM);
	out->events = sim_handle_count(SIM_EVENT);
	out->contexts = sim_handle_count(SIM_CONTEXT);
	out->invalid = invalid;
	for (i = 0; i < SIM_DEVICES; i++)
		out->device_bytes += sim_device[i].used;
}

SIM_EXPORT void sim_ledger_get(struct sim_ledger *out)
{
	pthread_mutex_lock(&sim_lock);
	fill(out);
	pthread_mutex_unlock(&sim_lock);
}

SIM_EXPORT const char *sim_invalid_text(void)
{
	return text ? text : "";
}

static void print_call(const char *name, unsigned long calls, void *f)
{
	fprintf(f, "calls.%s=%lu\n", name, calls);
}

static void print_report(FILE *f)
{
	struct sim_ledger l;

	fill(&l);
	fprintf(f, "pid=%d\n", (int)getpid());
	fprintf(f, "program=%s\n", program_invocation_short_name);
	fprintf(f, "live-handles=%lu\n", l.handles);
	fprintf(f, "live-mappings=%lu\n", l.mappings);
	fprintf(f, "live-reservations=%lu\n", l.reservations);
	fprintf(f, "live-allocations=%lu\n", l.allocations);
	fprintf(f, "registered=%lu\n", l.registered);
	fprintf(f, "streams=%lu\n", l.streams);
	fprintf(f, "events=%lu\n", l.events);
	fprintf(f, "contexts=%lu\n", l.contexts);
	fprintf(f, "device-bytes=%zu\n", l.device_bytes);
	fprintf(f, "injected=%lu\n", sim_injected());
	fprintf(f, "invalid-calls=%lu\n", l.invalid);
	fputs(text ? text : "", f);
	sim_each_call(print_call, f);
	fputc('\n', f);
}

/* One write, so that reports of several processes do not mix. */
void sim_ledger_write(const char *path)
{
	char *report = NULL;
	size_t len = 0;
	FILE *f;
	int fd;

	f = open_memstream(&report, &len);
	if (!f)
		return;
	print_report(f);
	if (fclose(f) != 0)
		return;
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, report, len) != (ssize_t)len)
		fprintf(stderr, "sim: %s: %s\n", path, strerror(errno));
	if (fd >= 0)
		close(fd);
	free(report);
}

void sim_ledger_reset(void)
{
	invalid = 0;
	text_len = 0;
	free(text);
	text = NULL;
}
