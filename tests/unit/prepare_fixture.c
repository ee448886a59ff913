/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "prepare_fixture.h"

#include "backup/backup.h"
#include "backup/host_pool.h"
#include "memory/staging.h"

#include <stdlib.h>

void prepare_start_alone(void)
{
	setenv("VSLEEP_RETAIN", "yes", 1);
	fixture_start("w", "k=keep,d=discard");
}

void prepare_start(void)
{
	prepare_start_alone();
	prepare_wake();		/* starts the operation thread */
}

struct vs_reply prepare_ask(const char *tags)
{
	struct vs_request request = {
		.verb = VS_VERB_PREPARE, .level = 1, .all_tags = !tags,
		.tags = tags ? fixture_tags(tags) : 0, .timeout_ms = 10000,
	};

	return fixture_ask(&request);
}

struct vs_prepared prepare_all(void)
{
	struct vs_reply reply = prepare_ask(NULL);

	ck_assert_msg(!reply.status, "%s", reply.why.text);
	ck_assert(reply.prepared.filled);
	ck_assert_uint_eq(vs_staging_bytes(0), 0);
	return reply.prepared;
}

struct vs_ledger_last prepare_sleep(void)
{
	struct vs_reply reply = fixture_sleep(1, NULL);

	ck_assert_msg(!reply.status, "%s", reply.why.text);
	return reply.ledger.last;
}

void prepare_wake(void)
{
	struct vs_reply reply = fixture_wake(NULL);

	ck_assert_msg(!reply.status, "%s", reply.why.text);
}

static void assert_page(const struct vs_backup *backup, size_t i)
{
	const struct vs_page *page = &backup->pages[i];
	struct vs_page_sum sum;

	if (!page->valid || !page->hashed || page->place != VS_PLACE_HOST)
		return;
	vs_page_math_sum(vs_page_hash_keys(),
			 page->block->base + page->index * VS_PAGE,
			 vs_backup_page_size(backup, i), &sum);
	ck_assert_msg(sum.hash[0] == page->hash[0] &&
		      sum.hash[1] == page->hash[1], "page %zu", i);
}

void prepare_assert_backups(void)
{
	const struct vs_segment *s;
	const struct vs_chunk *c;
	size_t i, k;

	vs_lock_take(&vs_segment_lock);
	for (i = 0; i < vs_segment_count(); i++) {
		s = vs_segment_at(i);
		for (c = s->chunks; c < s->chunks + s->chunk_count; c++)
			for (k = 0; c->backup && k < c->backup->count; k++)
				assert_page(c->backup, k);
	}
	vs_lock_drop(&vs_segment_lock);
}

void prepare_end(void)
{
	static const struct vs_request trim = { .verb = VS_VERB_TRIM };

	prepare_sleep();
	prepare_wake();
	ck_assert_int_eq(fixture_ask(&trim).status, VS_OK);
	ck_assert_uint_eq(vs_host_pool_taken(), 0);
	ck_assert_uint_eq(vs_staging_bytes(0), 0);
}
