/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "base/tag.h"
#include "base/lock.h"
#include "base/log.h"

#include <stdatomic.h>
#include <string.h>

struct tag {
	char name[VS_TAG_NAME_MAX + 1];
	_Atomic enum vs_policy policy;
};

static struct vs_lock tag_lock = VS_LOCK(VS_RANK_TAG);
static struct tag tags[VS_TAG_MAX];	/* only added to, under tag_lock */
static _Atomic int tags_count;		/* names below it never change */
static _Atomic int marker = VS_TAG_NATIVE;
static int preset = VS_TAG_NATIVE;
static int listed[VS_TAG_MAX];		/* in the order of VSLEEP_TAGS */
static int listed_count;		/* both: written at start only */
static atomic_bool declared;
static _Thread_local struct {
	int depth;
	signed char tags[VS_TAG_DEPTH];
} stack __attribute__((tls_model("initial-exec")));

static const char *const policy_words[] = {
	[VS_POLICY_OFFLOAD] = "offload",
	[VS_POLICY_DISCARD] = "discard",
	[VS_POLICY_KEEP] = "keep",
};

static bool valid(const char *name, size_t size)
{
	static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
		"abcdefghijklmnopqrstuvwxyz0123456789._-";

	return size && size <= VS_TAG_NAME_MAX &&
	       strspn(name, allowed) >= size;
}

static enum vs_status bad_name(const char *name, size_t size,
			       struct vs_why *why)
{
	return vs_why_set(why, VS_REFUSED, "bad tag \"%.*s\": 1 to %d of "
			  "letters, digits, '.', '_', '-'",
			  (int)(size > 70 ? 70 : size), name,
			  VS_TAG_NAME_MAX);
}

static int find(const char *name, size_t size)
{
	int i, count = atomic_load(&tags_count);

	for (i = 0; i < count; i++)
		if (!strncmp(tags[i].name, name, size) && !tags[i].name[size])
			return i;
	return -1;
}

static enum vs_status intern(const char *name, size_t size, int *out,
			     struct vs_why *why)
{
	int tag;

	if (!valid(name, size))
		return bad_name(name, size, why);
	vs_lock_take(&tag_lock);
	tag = find(name, size);
	if (tag < 0 && tags_count < VS_TAG_MAX) {
		tag = tags_count;
		memcpy(tags[tag].name, name, size);
		tags[tag].policy = VS_POLICY_OFFLOAD;
		atomic_store(&tags_count, tag + 1);
	}
	vs_lock_drop(&tag_lock);
	if (tag < 0)
		return vs_why_set(why, VS_REFUSED, "no room for tag \"%.*s\": "
				  "%d are in use", (int)size, name, VS_TAG_MAX);
	*out = tag;
	return VS_OK;
}

/* One "NAME=POLICY" of VSLEEP_TAGS, @size characters long. */
static void declare(const char *item, size_t size)
{
	const char *equals = memchr(item, '=', size);
	struct vs_why why;
	size_t policy, rest;
	int tag;

	if (!equals)
		goto bad;
	rest = size - (size_t)(equals + 1 - item);
	for (policy = 0; policy < 3; policy++)
		if (strlen(policy_words[policy]) == rest &&
		    !strncmp(policy_words[policy], equals + 1, rest))
			break;
	if (policy == 3)
		goto bad;
	if (intern(item, (size_t)(equals - item), &tag, &why)) {
		vs_log_warn("VSLEEP_TAGS: %s", why.text);
		return;
	}
	tags[tag].policy = (enum vs_policy)policy;
	declared = true;
	if (listed_count < VS_TAG_MAX)
		listed[listed_count++] = tag;
	return;
bad:
	vs_log_warn("VSLEEP_TAGS: \"%.*s\" is not NAME=offload, NAME=discard "
		    "or NAME=keep; left out", (int)size, item);
}

void vs_tag_init(const char *tag, const char *list)
{
	struct vs_why why;
	size_t size;

	for (; *list; list += size + (list[size] == ',')) {
		size = strcspn(list, ",");
		declare(list, size);
	}
	if (!*tag)
		return;
	if (intern(tag, strlen(tag), &preset, &why)) {
		vs_log_warn("VSLEEP_TAG: %s; using \"default\"", why.text);
		intern("default", 7, &preset, NULL);
	}
}

int vs_tag_current(void)
{
	int tag;

	if (stack.depth)
		return stack.tags[stack.depth - 1];
	tag = atomic_load_explicit(&marker, memory_order_relaxed);
	return tag == VS_TAG_NATIVE ? preset : tag;
}

enum vs_status vs_tag_push(const char *name, struct vs_why *why)
{
	int tag = VS_TAG_NATIVE;
	enum vs_status st = VS_OK;

	if (stack.depth == VS_TAG_DEPTH)
		return vs_why_set(why, VS_REFUSED, "no room for tag \"%.64s\": "
				  "this thread has pushed %d", name,
				  VS_TAG_DEPTH);
	if (*name)
		st = intern(name, strlen(name), &tag, why);
	if (!st)
		stack.tags[stack.depth++] = (signed char)tag;
	return st;
}

enum vs_status vs_tag_pop(struct vs_why *why)
{
	if (!stack.depth)
		return vs_why_set(why, VS_REFUSED, "this thread has pushed no "
				  "tag");
	stack.depth--;
	return VS_OK;
}

enum vs_status vs_tag_mark(const char *name, struct vs_why *why)
{
	int tag = VS_TAG_NATIVE;
	enum vs_status st;

	if (name) {
		st = intern(name, strlen(name), &tag, why);
		if (st)
			return st;
	}
	atomic_store(&marker, tag);
	return VS_OK;
}

enum vs_status vs_tag_mark_nth(int n, struct vs_why *why)
{
	if (n < 0 || n > listed_count)
		return vs_why_set(why, VS_REFUSED, "marker %d: VSLEEP_TAGS has "
				  "%d tags", n, listed_count);
	atomic_store(&marker, n ? listed[n - 1] : VS_TAG_NATIVE);
	return VS_OK;
}

enum vs_status vs_tag_set_policy(const char *name, enum vs_policy policy,
				 struct vs_why *why)
{
	enum vs_status st;
	int tag;

	st = intern(name, strlen(name), &tag, why);
	if (st)
		return st;
	tags[tag].policy = policy;
	declared = true;
	return VS_OK;
}

int vs_tag_marker(void)
{
	return atomic_load(&marker);
}

bool vs_tag_valid(const char *name)
{
	return valid(name, strlen(name));
}

int vs_tag_find(const char *name)
{
	return find(name, strlen(name));
}

int vs_tag_count(void)
{
	return atomic_load(&tags_count);
}

const char *vs_tag_name(int tag)
{
	return tags[tag].name;
}

enum vs_policy vs_tag_policy(int tag)
{
	return tags[tag].policy;
}

const char *vs_tag_policy_word(enum vs_policy policy)
{
	return policy_words[policy];
}

bool vs_tag_declared(void)
{
	return declared;
}

enum vs_status vs_tag_parse_set(const char *list, vs_tag_set *out,
				struct vs_why *why)
{
	vs_tag_set set = 0;
	size_t size;
	int tag;

	if (!*list)
		return vs_why_set(why, VS_REFUSED, "empty list of tags: name "
				  "at least one, or leave the list out");
	for (;; list += size + 1) {
		size = strcspn(list, ",");
		if (!valid(list, size))
			return bad_name(list, size, why);
		tag = find(list, size);
		if (tag < 0)
			return vs_why_set(why, VS_REFUSED, "unknown tag "
					  "\"%.*s\"", (int)size, list);
		set |= (vs_tag_set)1 << tag;
		if (!list[size])
			break;
	}
	*out = set;
	return VS_OK;
}
