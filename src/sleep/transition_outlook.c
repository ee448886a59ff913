/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "sleep/transition.h"
#include "sleep/plan.h"
#include "sleep/quiesce.h"
#include "backup/host_pool.h"
#include "backup/spill.h"
#include "base/driver.h"

#include <stdio.h>
#include <string.h>

static enum vs_status check_hooks(const struct vs_request *r,
				  struct vs_why *why)
{
	char name[64];
	unsigned long count = vs_driver_unhooked_count(name, sizeof(name));

	if (!count || r->force)
		return VS_OK;
	return vs_why_set(why, VS_REFUSED, "%lu driver calls are not under "
			  "control, %s among them: what they do while asleep "
			  "cannot be held; force it if they are harmless",
			  count, name);
}

/* Level 1 of a tag whose content level 2 has dropped cannot be had. */
static enum vs_status check_levels(const struct vs_request *r,
				   struct vs_why *why)
{
	const struct vs_segment *s;
	int bad = -1;
	size_t i;

	vs_lock_take(&vs_segment_lock);
	for (i = 0; i < vs_segment_count() && r->level == 1; i++) {
		s = vs_segment_at(i);
		if (vs_plan_tags(r) >> s->tag & 1 && s->level == 2)
			bad = s->tag;
	}
	vs_lock_drop(&vs_segment_lock);
	if (bad < 0)
		return VS_OK;
	return vs_why_set(why, VS_REFUSED, "tag %s sleeps at level 2: its "
			  "content is gone; wake it first",
			  vs_tag_name(bad));
}

enum vs_status vs_transition_check(const struct vs_request *r,
				   struct vs_why *why)
{
	enum vs_status st = vs_transition_able(why);

	if (st)
		return st;
	if (r->level == 2 && r->all_tags && !r->discard_all &&
	    !vs_tag_declared())
		return vs_why_set(why, VS_REFUSED, "level 2 drops the content "
				  "of every tag: name the tags, declare "
				  "policies in VSLEEP_TAGS, or say that all "
				  "may be discarded");
	st = check_hooks(r, why);
	return st ? st : check_levels(r, why);
}

static void add_obstacle(struct vs_outlook *out, const char *text)
{
	if (out->obstacle_count == VS_OBSTACLES_MAX)
		return;
	snprintf(out->obstacles[out->obstacle_count++],
		 sizeof(out->obstacles[0]), "%.*s",
		 (int)sizeof(out->obstacles[0]) - 1, text);
}

enum vs_status vs_transition_outlook(const struct vs_request *request,
				     struct vs_outlook *out,
				     struct vs_why *why)
{
	enum vs_status st = vs_transition_check(request, why), found;
	struct vs_why other = { .status = VS_OK };
	char busy[VS_OBSTACLES_MAX][VS_QUIESCE_TEXT];
	int i, count = 0;

	memset(out, 0, sizeof(*out));
	out->filled = true;
	vs_plan_weigh(request, out);
	out->host_available = vs_host_pool_budget();
	if (check_hooks(request, &other))
		add_obstacle(out, other.text);
	found = vs_quiesce_look(busy, VS_OBSTACLES_MAX, &count, &other);
	for (i = 0; i < count; i++)
		add_obstacle(out, busy[i]);
	if (!found && !vs_spill_wanted())
		found = vs_host_pool_check(out->host_bytes, &other);
	if (found)
		add_obstacle(out, other.text);
	if (!st && found)
		*why = other;
	return st ? st : found;
}
