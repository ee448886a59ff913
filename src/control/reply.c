/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "control/reply.h"

#include "sleep/gate.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#define GIB (1024.0 * 1024 * 1024)

struct field {
	const char *key;
	size_t offset;		/* of an uint64_t in struct vs_ledger */
};

#define FIELD(key, member) { key, offsetof(struct vs_ledger, member) }

static const struct field now_fields[] = {
	FIELD("sequence", sequence),
	FIELD("allocations", allocations),
	FIELD("live-bytes", live_bytes),
	FIELD("resident-bytes", resident_bytes),
	FIELD("evicted-bytes", evicted_bytes),
	FIELD("backed-up-bytes", host_bytes),
	FIELD("host-bytes", held_bytes),
	FIELD("retained-bytes", retained_bytes),
	FIELD("spilled-bytes", spilled_bytes),
	FIELD("unmanaged-bytes", unmanaged_bytes),
	{ NULL, 0 }
};

static const struct field released_fields[] = {
	FIELD("released-bytes", last.released_bytes),
	FIELD("restored-bytes", last.restored_bytes),
	FIELD("kept-bytes", last.kept_bytes),
	{ NULL, 0 }
};

static const struct field last_fields[] = {
	FIELD("copied-bytes", last.copied_bytes),
	FIELD("unchanged-bytes", last.unchanged_bytes),
	FIELD("zero-bytes", last.zero_bytes),
	FIELD("pageable-bytes", last.pageable_bytes),
	FIELD("lost-bytes", last.lost_bytes),
	{ NULL, 0 }
};

static const struct field verify_fields[] = {
	FIELD("verified-bytes", last.verified_bytes),
	FIELD("unverified-bytes", last.unverified_bytes),
	{ NULL, 0 }
};

static void add_args(struct vs_text *text, const char *format, va_list args)
{
	size_t room = text->size - text->len;
	int len;

	len = vsnprintf(text->buf + text->len, room, format, args);
	if (len < 0 || (size_t)len >= room)
		text->full = true;
	else
		text->len += len;
}

void vs_reply_add(struct vs_text *text, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	add_args(text, format, args);
	va_end(args);
}

/* A line of its own, whatever bytes @value has. */
static void add_line(struct vs_text *text, const char *key, const char *value)
{
	char line[1200];
	size_t i;

	for (i = 0; value[i] && i < sizeof(line) - 1; i++)
		line[i] = value[i] >= ' ' && value[i] <= '~' ? value[i] : '?';
	line[i] = '\0';
	vs_reply_add(text, "%s=%s\n", key, line);
}

static void add_fields(struct vs_text *text, const struct vs_ledger *ledger,
		       const struct field *field)
{
	const uint64_t *value;

	for (; field->key; field++) {
		value = (const uint64_t *)((const char *)ledger +
					   field->offset);
		vs_reply_add(text, "%s=%" PRIu64 "\n", field->key, *value);
	}
}

/* printf's %f follows the program's locale: a comma in half of Europe. */
static void add_decimal(struct vs_text *text, const char *key, double value,
			unsigned digits)
{
	uint64_t unit = 1;
	uint64_t scaled;
	unsigned i;

	for (i = 0; i < digits; i++)
		unit *= 10;
	scaled = value > 0 ? (uint64_t)(value * (double)unit + 0.5) : 0;
	vs_reply_add(text, "%s=%" PRIu64 ".%0*" PRIu64 "\n", key,
		     scaled / unit, (int)digits, scaled % unit);
}

static void add_unmanaged(struct vs_text *text, const struct vs_ledger *ledger)
{
	int kind;

	for (kind = 0; kind < VS_UNMANAGED_KINDS; kind++)
		if (ledger->unmanaged[kind])
			vs_reply_add(text, "unmanaged-%s-bytes=%" PRIu64 "\n",
				     vs_unmanaged_word(kind),
				     ledger->unmanaged[kind]);
	if (ledger->managed_away)
		vs_reply_add(text, "managed-on-host-bytes=%" PRIu64 "\n",
			     ledger->managed_away);
}

static void add_holds(struct vs_text *text, unsigned holds)
{
	static const struct {
		unsigned bit;
		const char *word;
	} words[] = {
		{ VS_HOLD_OPERATION, "operation" },
		{ VS_HOLD_ASLEEP, "asleep" },
		{ VS_HOLD_OPERATOR, "operator" },
	};
	const char *comma = "";
	size_t i;

	vs_reply_add(text, "holds=");
	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (!(holds & words[i].bit))
			continue;
		vs_reply_add(text, "%s%s", comma, words[i].word);
		comma = ",";
	}
	vs_reply_add(text, "\n");
}

static void add_kept(struct vs_text *text, const struct vs_ledger_last *last)
{
	char line[sizeof(last->kept[0].why) + 32];
	int i;

	for (i = 0; i < VS_KEPT_MAX && last->kept[i].bytes; i++) {
		snprintf(line, sizeof(line), "%" PRIu64 " %s",
			 last->kept[i].bytes, last->kept[i].why);
		add_line(text, "kept", line);
	}
	if (last->kept[0].bytes)
		add_line(text, "kept-why", last->kept[0].why);
}

static void add_last(struct vs_text *text, const struct vs_ledger *ledger)
{
	const struct vs_ledger_last *last = &ledger->last;
	double copying = last->seconds - last->drain_seconds;

	add_fields(text, ledger, released_fields);
	add_kept(text, last);
	add_fields(text, ledger, last_fields);
	if (last->verified_bytes || last->unverified_bytes)
		add_fields(text, ledger, verify_fields);
	add_decimal(text, "seconds", last->seconds, 3);
	add_decimal(text, "drain-seconds", last->drain_seconds, 3);
	if (last->copied_bytes && copying > 0)
		add_decimal(text, "gib-per-second",
			    (double)last->copied_bytes / GIB / copying, 1);
}

static void add_troubles(struct vs_text *text, const struct vs_ledger *ledger)
{
	const struct vs_why *error = &ledger->last.error;
	char line[sizeof(error->text) + 32];

	vs_reply_add(text, "unhooked=%" PRIu64 "\n", ledger->unhooked);
	if (ledger->unhooked)
		add_line(text, "unhooked-name", ledger->unhooked_name);
	if (error->status) {
		snprintf(line, sizeof(line), "%s: %s",
			 vs_why_word(error->status), error->text);
		add_line(text, "last-error", line);
	}
	if (ledger->ipc_refused)
		add_line(text, "remedy", "CUDA IPC was refused: start this "
			 "process with VSLEEP_IPC=native, so that its memory "
			 "stays with the driver");
}

/* Whom memory is shared with. */
static void add_relations(struct vs_text *text, const struct vs_ledger *ledger)
{
	const struct vs_ipc_relation *r;
	int i;

	if (ledger->imported_bytes)
		vs_reply_add(text, "imported-bytes=%" PRIu64 "\n",
			     ledger->imported_bytes);
	if (ledger->imported_asleep)
		vs_reply_add(text, "imported-asleep-bytes=%" PRIu64 "\n",
			     ledger->imported_asleep);
	if (ledger->native_imports)
		vs_reply_add(text, "native-imports=%" PRIu64 "\n",
			     ledger->native_imports);
	for (i = 0; i < ledger->relations_count; i++) {
		r = &ledger->relations[i];
		vs_reply_add(text, "ipc-peer=%d role=%s bytes=%" PRIu64,
			     (int)r->pid, r->owner ? "owner" : "borrower",
			     r->bytes);
		if (r->lost)
			vs_reply_add(text, " lost-bytes=%" PRIu64, r->lost);
		vs_reply_add(text, "\n");
	}
}

static void add_process(struct vs_text *text)
{
	int marker = vs_tag_marker();

	vs_reply_add(text, "marker=%s\n",
		     marker >= 0 ? vs_tag_name(marker) : "");
	vs_reply_add(text, "pid=%d\n", (int)getpid());
	add_line(text, "name", program_invocation_short_name);
	vs_reply_add(text, "version=%s\n", PACKAGE_VERSION);
}

static void add_tag(struct vs_text *text, const struct vs_ledger_tag *tag)
{
	vs_reply_add(text, "tag=%s policy=%s state=%s"
		     " allocations=%" PRIu64 " live-bytes=%" PRIu64
		     " resident-bytes=%" PRIu64 " evicted-bytes=%" PRIu64
		     " backed-up-bytes=%" PRIu64 " lost-bytes=%" PRIu64 "\n",
		     vs_tag_name(tag->tag), vs_tag_policy_word(tag->policy),
		     vs_ledger_state_word(tag->state), tag->allocations,
		     tag->live_bytes, tag->resident_bytes, tag->evicted_bytes,
		     tag->host_bytes, tag->lost_bytes);
}

static void add_device(struct vs_text *text,
		       const struct vs_ledger_device *device)
{
	vs_reply_add(text, "device=%d uuid=%s bus=%s vmm=%s contexts=%d"
		     " resident-bytes=%" PRIu64 " evicted-bytes=%" PRIu64 "\n",
		     device->device, device->uuid, device->bus,
		     device->vmm ? "yes" : "no", device->contexts,
		     device->resident_bytes, device->evicted_bytes);
}

static void add_ledger(struct vs_text *text, const struct vs_ledger *ledger)
{
	int i;

	vs_reply_add(text, "state=%s\n", vs_ledger_state_word(ledger->state));
	add_fields(text, ledger, now_fields);
	add_unmanaged(text, ledger);
	add_last(text, ledger);
	vs_reply_add(text, "held-calls=%" PRIu64 "\nheld-now=%u\n",
		     ledger->held_calls, ledger->held_now);
	add_holds(text, ledger->holds);
	vs_reply_add(text, "prepare=%s\n", ledger->prepare);
	vs_reply_add(text, "paused=%s\n",
		     ledger->holds & VS_HOLD_OPERATOR ? "yes" : "no");
	add_troubles(text, ledger);
	add_relations(text, ledger);
	add_process(text);
	for (i = 0; i < ledger->tags_count; i++)
		add_tag(text, &ledger->tags[i]);
	for (i = 0; i < ledger->devices_count; i++)
		add_device(text, &ledger->devices[i]);
}

static void add_outlook(struct vs_text *text, const struct vs_outlook *outlook)
{
	int i;

	vs_reply_add(text, "would-release-bytes=%" PRIu64
		     "\nwould-keep-bytes=%" PRIu64 "\nhost-needed-bytes=%"
		     PRIu64 "\nhost-available-bytes=%" PRIu64 "\n",
		     outlook->release_bytes, outlook->keep_bytes,
		     outlook->host_bytes, outlook->host_available);
	for (i = 0; i < outlook->obstacle_count; i++)
		add_line(text, "obstacle", outlook->obstacles[i]);
}

static void add_prepared(struct vs_text *text,
			 const struct vs_prepared *prepared)
{
	vs_reply_add(text, "prepared-bytes=%" PRIu64
		     "\nprepared-copied-bytes=%" PRIu64
		     "\nprepared-unchanged-bytes=%" PRIu64
		     "\nprepared-zero-bytes=%" PRIu64
		     "\nprepared-left-bytes=%" PRIu64 "\n",
		     prepared->copied_bytes + prepared->unchanged_bytes +
		     prepared->zero_bytes, prepared->copied_bytes,
		     prepared->unchanged_bytes, prepared->zero_bytes,
		     prepared->left_bytes);
}

void vs_reply_write(struct vs_text *text, const struct vs_reply *reply)
{
	vs_reply_add(text, "status=%s\n", vs_why_word(reply->status));
	if (reply->status)
		add_line(text, "message", reply->why.text);
	add_ledger(text, &reply->ledger);
	if (reply->trimmed)
		vs_reply_add(text, "trimmed-bytes=%" PRIu64 "\n",
			     reply->trimmed_bytes);
	if (reply->prepared.filled)
		add_prepared(text, &reply->prepared);
	if (reply->outlook.filled)
		add_outlook(text, &reply->outlook);
	vs_reply_add(text, "\n");
}

void vs_reply_cancelled(struct vs_text *text, int count,
			const struct vs_reply *reply)
{
	vs_reply_add(text, "status=ok\ncancelled=%d\n", count);
	add_ledger(text, &reply->ledger);
	vs_reply_add(text, "\n");
}

void vs_reply_lent(struct vs_text *text, const struct vs_ipc_loan *loan)
{
	unsigned i;

	vs_reply_add(text, "status=ok\nsegment-bytes=%" PRIu64
		     "\nallocation-bytes=%" PRIu64 "\nchunks=%u\n",
		     loan->segment_size, loan->size, loan->chunks);
	add_line(text, "chunks-uuid", loan->device);
	for (i = 0; i < loan->count; i++)
		vs_reply_add(text, "chunk=%" PRIu64 " bytes=%" PRIu64 "\n",
			     loan->parts[i].offset, loan->parts[i].size);
	vs_reply_add(text, "\n");
}

void vs_reply_setting(struct vs_text *text, const struct vs_config_row *row)
{
	char line[sizeof(row->value) + 64];

	snprintf(line, sizeof(line), "%s source=%s value=%s", row->env,
		 row->source, row->value);
	add_line(text, "setting", line);
}

void vs_reply_error(struct vs_text *text, const char *word,
		    const char *format, ...)
{
	char message[400];
	va_list args;

	va_start(args, format);
	vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	vs_reply_add(text, "status=%s\n", word);
	add_line(text, "message", message);
	vs_reply_add(text, "\n");
}

void vs_reply_progress(struct vs_text *text,
		       const struct vs_progress *progress)
{
	const char *phase = progress->phase ? progress->phase : "waiting";
	char word[32];
	size_t i;

	for (i = 0; phase[i] && i < sizeof(word) - 1; i++)
		word[i] = phase[i] == ' ' ? '-' : phase[i];
	word[i] = '\0';
	vs_reply_add(text, "progress phase=%s done-bytes=%" PRIu64
		     " total-bytes=%" PRIu64 "\n", word,
		     progress->done_bytes, progress->total_bytes);
}
