/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "memory_fixture.h"

#include "base/tag.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define THREADS 4

/* One character more than a name may have. */
static const char *long_name(void)
{
	static char name[VS_TAG_NAME_MAX + 2];

	memset(name, 'n', VS_TAG_NAME_MAX + 1);
	return name;
}

START_TEST(allocations_have_the_preset_tag_until_a_marker_is_set)
{
	vs_tag_init("base", "");
	ck_assert_int_eq(vs_tag_marker(), VS_TAG_NATIVE);
	ck_assert_str_eq(vs_tag_name(vs_tag_current()), "base");
	ck_assert_int_eq(vs_tag_mark("weights", NULL), VS_OK);
	ck_assert_str_eq(vs_tag_name(vs_tag_current()), "weights");
	ck_assert_int_eq(vs_tag_marker(), vs_tag_find("weights"));
	ck_assert_int_eq(vs_tag_mark(NULL, NULL), VS_OK);
	ck_assert_int_eq(vs_tag_marker(), VS_TAG_NATIVE);
	ck_assert_str_eq(vs_tag_name(vs_tag_current()), "base");
	ck_assert_int_eq(vs_tag_count(), 2);
}
END_TEST

START_TEST(without_a_preset_tag_only_the_marker_gives_one)
{
	vs_tag_init("", "");
	ck_assert_int_eq(vs_tag_current(), VS_TAG_NATIVE);
	ck_assert_int_eq(vs_tag_count(), 0);
	ck_assert_int_eq(vs_tag_mark("kv", NULL), VS_OK);
	ck_assert_int_eq(vs_tag_current(), vs_tag_find("kv"));
	ck_assert_int_eq(vs_tag_mark(NULL, NULL), VS_OK);
	ck_assert_int_eq(vs_tag_current(), VS_TAG_NATIVE);
}
END_TEST

START_TEST(policies_are_those_declared_and_offload_for_others)
{
	vs_tag_init("default", "w=offload,kv=discard,scratch=keep");
	ck_assert(vs_tag_declared());
	ck_assert_int_eq(vs_tag_policy(vs_tag_find("w")), VS_POLICY_OFFLOAD);
	ck_assert_int_eq(vs_tag_policy(vs_tag_find("kv")), VS_POLICY_DISCARD);
	ck_assert_int_eq(vs_tag_policy(vs_tag_find("scratch")),
			 VS_POLICY_KEEP);
	ck_assert_int_eq(vs_tag_policy(vs_tag_find("default")),
			 VS_POLICY_OFFLOAD);
	ck_assert_int_eq(vs_tag_mark("later", NULL), VS_OK);
	ck_assert_int_eq(vs_tag_policy(vs_tag_find("later")),
			 VS_POLICY_OFFLOAD);
	ck_assert_str_eq(vs_tag_policy_word(VS_POLICY_DISCARD), "discard");
}
END_TEST

START_TEST(no_policy_is_declared_by_default)
{
	vs_tag_init("default", "");
	ck_assert(!vs_tag_declared());
	ck_assert_int_eq(vs_tag_count(), 1);
}
END_TEST

static const char *const bad_items[] = {
	"kv", "kv=", "=keep", "kv=keeper", "kv=kee", "kv=KEEP", "k v=keep",
	"kv=keep=keep", "k\xc3\xb6=keep", "",
};

START_TEST(a_bad_policy_is_left_out_and_the_rest_taken)
{
	char list[64];

	snprintf(list, sizeof(list), "a=keep,%s,b=discard", bad_items[_i]);
	vs_tag_init("", list);
	ck_assert_int_eq(vs_tag_count(), 2);
	ck_assert_int_eq(vs_tag_policy(vs_tag_find("a")), VS_POLICY_KEEP);
	ck_assert_int_eq(vs_tag_policy(vs_tag_find("b")), VS_POLICY_DISCARD);
}
END_TEST

START_TEST(a_bad_preset_tag_gives_the_default_one)
{
	vs_tag_init("my tag", "");
	ck_assert_int_eq(vs_tag_count(), 1);
	ck_assert_str_eq(vs_tag_name(vs_tag_current()), "default");
}
END_TEST

static const char *const bad_names[] = {
	"", " ", "a b", "a,b", "a=b", "a/b", "k\xc3\xb6", "a\n",
};

START_TEST(a_bad_name_is_refused_and_the_marker_stays)
{
	struct vs_why why = { .status = VS_OK };

	vs_tag_init("default", "");
	ck_assert_int_eq(vs_tag_mark("good", NULL), VS_OK);
	ck_assert_int_eq(vs_tag_mark(bad_names[_i], &why), VS_REFUSED);
	ck_assert_int_eq(why.status, VS_REFUSED);
	ck_assert_ptr_nonnull(strstr(why.text, bad_names[_i]));
	ck_assert_str_eq(vs_tag_name(vs_tag_current()), "good");
	ck_assert_int_eq(vs_tag_count(), 2);
	ck_assert_int_eq(vs_tag_find(bad_names[_i]), -1);
}
END_TEST

START_TEST(a_name_of_64_characters_is_the_longest)
{
	const char *name = long_name() + 1;

	vs_tag_init("default", "");
	ck_assert_int_eq(vs_tag_mark(name, NULL), VS_OK);
	ck_assert_str_eq(vs_tag_name(vs_tag_current()), name);
	ck_assert_int_eq(vs_tag_mark(long_name(), NULL), VS_REFUSED);
	ck_assert_int_eq(vs_tag_find(long_name()), -1);
	ck_assert_str_eq(vs_tag_name(vs_tag_current()), name);
	ck_assert_int_eq(vs_tag_count(), 2);
}
END_TEST

START_TEST(a_name_is_not_taken_for_one_it_begins_like)
{
	vs_tag_init("weights", "");
	ck_assert_int_eq(vs_tag_find("weight"), -1);
	ck_assert_int_eq(vs_tag_find("weights2"), -1);
	ck_assert_int_eq(vs_tag_mark("weight", NULL), VS_OK);
	ck_assert_int_ne(vs_tag_find("weight"), vs_tag_find("weights"));
	ck_assert_int_eq(vs_tag_count(), 2);
}
END_TEST

START_TEST(the_65th_tag_is_refused_and_the_64_stay)
{
	struct vs_why why = { .status = VS_OK };
	vs_tag_set set;
	char name[16];
	int i;

	vs_tag_init("", "");
	for (i = 0; i < VS_TAG_MAX; i++) {
		snprintf(name, sizeof(name), "t%d", i);
		ck_assert_int_eq(vs_tag_mark(name, NULL), VS_OK);
	}
	ck_assert_int_eq(vs_tag_mark("more", &why), VS_REFUSED);
	ck_assert_ptr_nonnull(strstr(why.text, "64"));
	ck_assert_int_eq(vs_tag_count(), VS_TAG_MAX);
	ck_assert_str_eq(vs_tag_name(vs_tag_current()), "t63");
	ck_assert_int_eq(vs_tag_mark("t7", NULL), VS_OK);
	ck_assert_int_eq(vs_tag_parse_set("t0,t63", &set, NULL), VS_OK);
	ck_assert_uint_eq(set, 1 | (vs_tag_set)1 << 63);
}
END_TEST

START_TEST(a_list_of_known_tags_becomes_their_set)
{
	vs_tag_set set = 0;

	vs_tag_init("a", "b=keep,c=keep");
	ck_assert_int_eq(vs_tag_parse_set("c", &set, NULL), VS_OK);
	ck_assert_uint_eq(set, (vs_tag_set)1 << vs_tag_find("c"));
	ck_assert_int_eq(vs_tag_parse_set("b,a,b", &set, NULL), VS_OK);
	ck_assert_uint_eq(set, (vs_tag_set)1 << vs_tag_find("a") |
			       (vs_tag_set)1 << vs_tag_find("b"));
}
END_TEST

static const struct {
	const char *list, *named;
} bad_lists[] = {
	{ "", "empty" }, { ",", "\"\"" }, { "a,", "\"\"" }, { ",a", "\"\"" },
	{ "a,,b", "\"\"" }, { "a b", "a b" }, { "a,nosuch", "nosuch" },
	{ "nosuch,a", "nosuch" }, { "A", "\"A\"" }, { "a;b", "a;b" },
};

START_TEST(a_list_with_a_bad_or_unknown_name_is_refused_as_a_whole)
{
	struct vs_why why = { .status = VS_OK };
	vs_tag_set set = 0x55;

	vs_tag_init("a", "b=keep");
	ck_assert_int_eq(vs_tag_parse_set(bad_lists[_i].list, &set, &why),
			 VS_REFUSED);
	ck_assert_msg(strstr(why.text, bad_lists[_i].named) != NULL,
		      "\"%s\" does not name %s", why.text,
		      bad_lists[_i].named);
	ck_assert_uint_eq(set, 0x55);
	ck_assert_int_eq(vs_tag_count(), 2);
}
END_TEST

static void *mark_all(void *numbers)
{
	char name[16];
	int i;

	for (i = 0; i < VS_TAG_MAX; i++) {
		snprintf(name, sizeof(name), "t%d", i);
		ck_assert_int_eq(vs_tag_mark(name, NULL), VS_OK);
		((int *)numbers)[i] = vs_tag_find(name);
	}
	return NULL;
}

START_TEST(threads_that_name_the_same_tags_agree_on_them)
{
	int numbers[THREADS][VS_TAG_MAX];
	pthread_t threads[THREADS];
	int i;

	vs_tag_init("", "");
	for (i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, mark_all, numbers[i]);
	for (i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
	ck_assert_int_eq(vs_tag_count(), VS_TAG_MAX);
	for (i = 1; i < THREADS; i++)
		ck_assert_mem_eq(numbers[i], numbers[0], sizeof(numbers[0]));
}
END_TEST

START_TEST(the_last_tag_pushed_wins_over_marker_and_preset)
{
	struct vs_why why = { .status = VS_OK };

	vs_tag_init("base", "");
	ck_assert_int_eq(vs_tag_mark("marked", NULL), VS_OK);
	ck_assert_int_eq(vs_tag_push("outer", NULL), VS_OK);
	ck_assert_int_eq(vs_tag_push("", NULL), VS_OK);
	ck_assert_int_eq(vs_tag_current(), VS_TAG_NATIVE);
	ck_assert_int_eq(vs_tag_push("inner", NULL), VS_OK);
	ck_assert_int_eq(vs_tag_mark("other", NULL), VS_OK);
	ck_assert_str_eq(vs_tag_name(vs_tag_current()), "inner");
	ck_assert_int_eq(vs_tag_pop(NULL), VS_OK);
	ck_assert_int_eq(vs_tag_current(), VS_TAG_NATIVE);
	ck_assert_int_eq(vs_tag_pop(NULL), VS_OK);
	ck_assert_str_eq(vs_tag_name(vs_tag_current()), "outer");
	ck_assert_int_eq(vs_tag_pop(NULL), VS_OK);
	ck_assert_str_eq(vs_tag_name(vs_tag_current()), "other");
	ck_assert_int_eq(vs_tag_pop(&why), VS_REFUSED);
	ck_assert_ptr_nonnull(strstr(why.text, "pushed no tag"));
	ck_assert_str_eq(vs_tag_name(vs_tag_current()), "other");
}
END_TEST

START_TEST(a_stack_is_32_deep_and_a_refused_push_changes_nothing)
{
	struct vs_why why = { .status = VS_OK };
	char name[16];
	int i;

	vs_tag_init("base", "");
	for (i = 0; i < 32; i++) {
		snprintf(name, sizeof(name), "t%d", i);
		ck_assert_int_eq(vs_tag_push(name, NULL), VS_OK);
	}
	ck_assert_int_eq(vs_tag_push("more", &why), VS_REFUSED);
	ck_assert_ptr_nonnull(strstr(why.text, "32"));
	ck_assert_int_eq(vs_tag_find("more"), -1);
	for (i = 31; i >= 0; i--) {
		snprintf(name, sizeof(name), "t%d", i);
		ck_assert_str_eq(vs_tag_name(vs_tag_current()), name);
		ck_assert_int_eq(vs_tag_push("a b", &why), VS_REFUSED);
		ck_assert_str_eq(vs_tag_name(vs_tag_current()), name);
		ck_assert_int_eq(vs_tag_pop(NULL), VS_OK);
	}
	ck_assert_str_eq(vs_tag_name(vs_tag_current()), "base");
	ck_assert_int_eq(vs_tag_pop(NULL), VS_REFUSED);
}
END_TEST

START_TEST(what_is_pushed_before_the_settings_are_read_stays)
{
	int early;

	ck_assert_int_eq(vs_tag_push("early", NULL), VS_OK);
	early = vs_tag_current();
	vs_tag_init("base", "kv=discard,early=keep");
	ck_assert_int_eq(vs_tag_current(), early);
	ck_assert_int_eq(vs_tag_find("early"), early);
	ck_assert_int_eq(vs_tag_policy(early), VS_POLICY_KEEP);
	ck_assert_int_eq(vs_tag_pop(NULL), VS_OK);
	ck_assert_str_eq(vs_tag_name(vs_tag_current()), "base");
}
END_TEST

/* Another thread's pushes and the marker must not show while it holds one. */
static void *push_own(void *number)
{
	long n = (long)(intptr_t)number, wrong = 0, i;
	char outer[16], inner[16];

	snprintf(outer, sizeof(outer), "outer%ld", n);
	snprintf(inner, sizeof(inner), "inner%ld", n);
	for (i = 0; i < 2000; i++) {
		wrong += vs_tag_push(outer, NULL) != VS_OK;
		wrong += vs_tag_current() != vs_tag_find(outer);
		wrong += vs_tag_push(inner, NULL) != VS_OK;
		wrong += vs_tag_mark(i % 2 ? outer : NULL, NULL) != VS_OK;
		wrong += vs_tag_current() != vs_tag_find(inner);
		wrong += vs_tag_pop(NULL) != VS_OK;
		wrong += vs_tag_current() != vs_tag_find(outer);
		wrong += vs_tag_pop(NULL) != VS_OK;
		wrong += vs_tag_pop(NULL) != VS_REFUSED;
	}
	return (void *)(intptr_t)wrong;
}

START_TEST(threads_push_different_tags_at_once)
{
	pthread_t threads[2 * THREADS];
	void *wrong;
	long i;

	vs_tag_init("base", "");
	ck_assert_int_eq(vs_tag_push("main", NULL), VS_OK);
	for (i = 0; i < 2 * THREADS; i++)
		pthread_create(&threads[i], NULL, push_own,
			       (void *)(intptr_t)i);
	for (i = 0; i < 2 * THREADS; i++) {
		ck_assert_int_eq(pthread_join(threads[i], &wrong), 0);
		ck_assert_int_eq((intptr_t)wrong, 0);
	}
	ck_assert_str_eq(vs_tag_name(vs_tag_current()), "main");
	ck_assert_int_eq(vs_tag_count(), 2 + 4 * THREADS);
}
END_TEST

START_TEST(the_marker_is_set_by_the_number_in_the_list)
{
	struct vs_why why = { .status = VS_OK };

	ck_assert_int_eq(vs_tag_push("before", NULL), VS_OK);
	ck_assert_int_eq(vs_tag_pop(NULL), VS_OK);
	vs_tag_init("base", "w=offload,bad,kv=discard");
	ck_assert_int_eq(vs_tag_mark_nth(2, NULL), VS_OK);
	ck_assert_str_eq(vs_tag_name(vs_tag_current()), "kv");
	ck_assert_int_eq(vs_tag_mark_nth(1, NULL), VS_OK);
	ck_assert_str_eq(vs_tag_name(vs_tag_current()), "w");
	ck_assert_int_eq(vs_tag_mark_nth(3, &why), VS_REFUSED);
	ck_assert_ptr_nonnull(strstr(why.text, "2 tags"));
	ck_assert_int_eq(vs_tag_mark_nth(-1, NULL), VS_REFUSED);
	ck_assert_str_eq(vs_tag_name(vs_tag_current()), "w");
	ck_assert_int_eq(vs_tag_mark_nth(0, NULL), VS_OK);
	ck_assert_int_eq(vs_tag_marker(), VS_TAG_NATIVE);
	ck_assert_str_eq(vs_tag_name(vs_tag_current()), "base");
}
END_TEST

START_TEST(a_policy_is_set_of_known_and_of_new_tags)
{
	struct vs_why why = { .status = VS_OK };

	vs_tag_init("base", "");
	ck_assert(!vs_tag_declared());
	ck_assert_int_eq(vs_tag_set_policy("a b", VS_POLICY_KEEP, &why),
			 VS_REFUSED);
	ck_assert(!vs_tag_declared());
	ck_assert_int_eq(vs_tag_set_policy("base", VS_POLICY_KEEP, NULL),
			 VS_OK);
	ck_assert_int_eq(vs_tag_set_policy("new", VS_POLICY_DISCARD, NULL),
			 VS_OK);
	ck_assert(vs_tag_declared());
	ck_assert_int_eq(vs_tag_policy(vs_tag_find("base")), VS_POLICY_KEEP);
	ck_assert_int_eq(vs_tag_policy(vs_tag_find("new")),
			 VS_POLICY_DISCARD);
	ck_assert_int_eq(vs_tag_count(), 2);
}
END_TEST

START_TEST(names_are_told_from_what_is_none)
{
	int i;

	for (i = 0; i < COUNT(bad_names); i++)
		ck_assert(!vs_tag_valid(bad_names[i]));
	ck_assert(vs_tag_valid("kv-1.x_Y"));
	ck_assert(vs_tag_valid(long_name() + 1));
	ck_assert(!vs_tag_valid(long_name()));
}
END_TEST

static void fill(TCase *tc)
{
	tcase_add_test(tc,
		allocations_have_the_preset_tag_until_a_marker_is_set);
	tcase_add_test(tc, without_a_preset_tag_only_the_marker_gives_one);
	tcase_add_test(tc, policies_are_those_declared_and_offload_for_others);
	tcase_add_test(tc, no_policy_is_declared_by_default);
	tcase_add_loop_test(tc, a_bad_policy_is_left_out_and_the_rest_taken, 0,
			    COUNT(bad_items));
	tcase_add_test(tc, a_bad_preset_tag_gives_the_default_one);
	tcase_add_loop_test(tc, a_bad_name_is_refused_and_the_marker_stays, 0,
			    COUNT(bad_names));
	tcase_add_test(tc, a_name_of_64_characters_is_the_longest);
	tcase_add_test(tc, a_name_is_not_taken_for_one_it_begins_like);
	tcase_add_test(tc, the_65th_tag_is_refused_and_the_64_stay);
	tcase_add_test(tc, a_list_of_known_tags_becomes_their_set);
	tcase_add_loop_test(tc,
	a_list_with_a_bad_or_unknown_name_is_refused_as_a_whole, 0,
		COUNT(bad_lists));
	tcase_add_test(tc, threads_that_name_the_same_tags_agree_on_them);
	tcase_add_test(tc, the_last_tag_pushed_wins_over_marker_and_preset);
	tcase_add_test(tc,
		a_stack_is_32_deep_and_a_refused_push_changes_nothing);
	tcase_add_test(tc, what_is_pushed_before_the_settings_are_read_stays);
	tcase_add_test(tc, threads_push_different_tags_at_once);
	tcase_add_test(tc, the_marker_is_set_by_the_number_in_the_list);
	tcase_add_test(tc, a_policy_is_set_of_known_and_of_new_tags);
	tcase_add_test(tc, names_are_told_from_what_is_none);
}

int main(void)
{
	return fixture_main("tag", fill);
}
