/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "memory_fixture.h"

#include "base/config.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Standard error goes into a file; what has been written there. */
static int catcher = -1;

static void catch_stderr(void)
{
	FILE *file = tmpfile();

	ck_assert_ptr_nonnull(file);
	catcher = fileno(file);
	ck_assert_int_eq(dup2(catcher, STDERR_FILENO), STDERR_FILENO);
}

static const char *caught(void)
{
	static char text[8192];
	ssize_t size = pread(catcher, text, sizeof(text) - 1, 0);

	ck_assert_int_ge(size, 0);
	text[size] = '\0';
	return text;
}

static void count_and_clear(const struct vs_config_row *row, void *count)
{
	ck_assert(!strncmp(row->env, "VSLEEP_", 7));
	ck_assert_str_ne(row->type, "");
	ck_assert_str_ne(row->help, "");
	ck_assert_ptr_nonnull(row->preset);
	unsetenv(row->env);
	++*(int *)count;
}

/* A row's value and source, as "value from source". */
struct wanted {
	const char *env;
	char text[1100];
};

static void note_row(const struct vs_config_row *row, void *arg)
{
	struct wanted *wanted = arg;

	if (!strcmp(row->env, wanted->env))
		snprintf(wanted->text, sizeof(wanted->text), "%s from %s",
			 row->value, row->source);
}

static void assert_row(const char *env, const char *text)
{
	struct wanted wanted = { .env = env };

	vs_config_each(note_row, &wanted);
	ck_assert_str_eq(wanted.text, text);
}

static void set_up(void)
{
	int count = 0;

	vs_config_each(count_and_clear, &count);
	ck_assert_int_gt(count, 8);
	catch_stderr();
}

START_TEST(the_defaults_are_valid_and_active)
{
	set_up();
	ck_assert(vs_config_read());
	vs_config_say_rejected();
	ck_assert_str_eq(caught(), "");
	ck_assert(!vs_config.disable);
	ck_assert_str_eq(vs_config.only, "");
	ck_assert_str_eq(vs_config.dir, "");
	ck_assert_str_eq(vs_config.log, "");
	ck_assert_str_eq(vs_config.log_level, "info");
	ck_assert_str_eq(vs_config.tag, "default");
	ck_assert_str_eq(vs_config.tags, "");
	ck_assert_str_eq(vs_config.signals, "USR1,USR2");
	ck_assert_uint_eq(vs_config.timeout_ms, 10000);
	ck_assert_uint_eq(vs_config.host_limit, 0);
	ck_assert_uint_eq(vs_config.threads, 0);
}
END_TEST

START_TEST(settings_come_from_the_environment_once)
{
	set_up();
	setenv("VSLEEP_DIR", "/run/x", 1);
	setenv("VSLEEP_TAG", "weights", 1);
	setenv("VSLEEP_TAGS", "kv=discard", 1);
	setenv("VSLEEP_TIMEOUT", "2.5", 1);
	setenv("VSLEEP_HOST_LIMIT", "64G", 1);
	setenv("VSLEEP_THREADS", "64", 1);
	ck_assert(vs_config_read());
	setenv("VSLEEP_TIMEOUT", "7", 1);
	ck_assert(vs_config_read());
	vs_config_say_rejected();
	ck_assert_str_eq(caught(), "");
	ck_assert_str_eq(vs_config.dir, "/run/x");
	ck_assert_str_eq(vs_config.tag, "weights");
	ck_assert_str_eq(vs_config.tags, "kv=discard");
	ck_assert_uint_eq(vs_config.timeout_ms, 2500);
	ck_assert_uint_eq(vs_config.host_limit, (size_t)64 << 30);
	ck_assert_uint_eq(vs_config.threads, 64);
}
END_TEST

START_TEST(settings_outlive_the_environment_that_they_came_from)
{
	static char dir[] = "VSLEEP_DIR=/run/x", tag[] = "VSLEEP_TAG=weights";

	set_up();
	putenv(dir);
	putenv(tag);
	ck_assert(vs_config_read());
	memset(dir, '!', sizeof(dir) - 1);
	memset(tag, '!', sizeof(tag) - 1);
	ck_assert_str_eq(vs_config.dir, "/run/x");
	ck_assert_str_eq(vs_config.tag, "weights");
	assert_row("VSLEEP_TAG", "weights from environment");
}
END_TEST

START_TEST(an_empty_value_counts_as_unset_but_for_the_tag)
{
	set_up();
	setenv("VSLEEP_TAG", "", 1);
	setenv("VSLEEP_TIMEOUT", "", 1);
	setenv("VSLEEP_SIGNALS", "", 1);
	ck_assert(vs_config_read());
	vs_config_say_rejected();
	ck_assert_str_eq(caught(), "");
	ck_assert_str_eq(vs_config.tag, "");
	ck_assert_uint_eq(vs_config.timeout_ms, 10000);
	ck_assert_str_eq(vs_config.signals, "USR1,USR2");
}
END_TEST

static const struct {
	const char *env, *value;
} bad_values[] = {
	{ "VSLEEP_DISABLE", "yes" }, { "VSLEEP_DISABLE", "10" },
	{ "VSLEEP_TIMEOUT", "0" }, { "VSLEEP_TIMEOUT", "-1" },
	{ "VSLEEP_TIMEOUT", "0.0001" }, { "VSLEEP_TIMEOUT", "86401" },
	{ "VSLEEP_TIMEOUT", "10s" }, { "VSLEEP_TIMEOUT", "nan" },
	{ "VSLEEP_TIMEOUT", " 5" }, { "VSLEEP_TIMEOUT", "5 " },
	{ "VSLEEP_TIMEOUT", "0x10" }, { "VSLEEP_TIMEOUT", "1e3" },
	{ "VSLEEP_TIMEOUT", "1,5" }, { "VSLEEP_TIMEOUT", ".5" },
	{ "VSLEEP_TIMEOUT", "0.0005" }, { "VSLEEP_TIMEOUT", "." },
	{ "VSLEEP_TIMEOUT", "1.5.5" }, { "VSLEEP_TIMEOUT", "+1" },
	{ "VSLEEP_TIMEOUT", "inf" }, { "VSLEEP_TIMEOUT", "1 000" },
	{ "VSLEEP_TIMEOUT", "86400.001" },
	{ "VSLEEP_TIMEOUT", "18446744073709551617" },
	{ "VSLEEP_TIMEOUT", "99999999999999999999999999999999" },
	{ "VSLEEP_HOST_LIMIT", "64g" }, { "VSLEEP_HOST_LIMIT", "64GB" },
	{ "VSLEEP_HOST_LIMIT", "-1" }, { "VSLEEP_HOST_LIMIT", "1.5G" },
	{ "VSLEEP_HOST_LIMIT", "16777216T" }, { "VSLEEP_HOST_LIMIT", "G" },
	{ "VSLEEP_THREADS", "65" }, { "VSLEEP_THREADS", "-1" },
	{ "VSLEEP_THREADS", "many" },
	{ "VSLEEP_RETAIN", "1" }, { "VSLEEP_RETAIN", "YES" },
	{ "VSLEEP_RETAIN", "ye" }, { "VSLEEP_RETAIN", "yess" },
	{ "VSLEEP_RETAIN", " no" }, { "VSLEEP_RETAIN", "auto,no" },
};

START_TEST(a_bad_value_is_named_with_what_is_right_and_the_default_used)
{
	const char *env = bad_values[_i].env, *value = bad_values[_i].value;
	char start[64];

	set_up();
	setenv(env, value, 1);
	ck_assert(vs_config_read());
	ck_assert_str_eq(caught(), "");
	vs_config_say_rejected();
	snprintf(start, sizeof(start), " warning: %s=%s is not valid (", env,
		 value);
	ck_assert_msg(strstr(caught(), start) != NULL, "%s", caught());
	ck_assert_ptr_eq(strchr(caught(), '\n') + 1, strchr(caught(), '\0'));
	ck_assert(!vs_config.disable);
	ck_assert_uint_eq(vs_config.timeout_ms, 10000);
	ck_assert_uint_eq(vs_config.host_limit, 0);
	ck_assert_uint_eq(vs_config.threads, 0);
	ck_assert_int_eq(vs_config.retain, VS_CONFIG_AUTO);
}
END_TEST

START_TEST(a_choice_that_is_not_valid_is_told_what_there_is)
{
	set_up();
	setenv("VSLEEP_RETAIN", "never", 1);
	ck_assert(vs_config_read());
	assert_row("VSLEEP_RETAIN", "auto from rejected");
	vs_config_say_rejected();
	ck_assert_msg(strstr(caught(), "auto, yes or no: ") != NULL, "%s",
		      caught());
}
END_TEST

static const struct {
	const char *text;
	enum vs_config_choice choice;
} choices[] = {
	{ "auto", VS_CONFIG_AUTO }, { "yes", VS_CONFIG_YES },
	{ "no", VS_CONFIG_NO },
};

START_TEST(a_choice_is_one_of_its_words)
{
	char row[64];

	set_up();
	setenv("VSLEEP_RETAIN", choices[_i].text, 1);
	ck_assert(vs_config_read());
	vs_config_say_rejected();
	ck_assert_str_eq(caught(), "");
	ck_assert_int_eq(vs_config.retain, choices[_i].choice);
	snprintf(row, sizeof(row), "%s from environment", choices[_i].text);
	assert_row("VSLEEP_RETAIN", row);
}
END_TEST

static const struct {
	const char *text;
	size_t ms;
} times[] = {
	{ "1", 1000 }, { "0.001", 1 }, { "2.5", 2500 }, { "86400", 86400000 },
	{ "010", 10000 }, { "1.", 1000 }, { "1.2345", 1234 },
	{ "0.25", 250 }, { "86399.999", 86399999 },
};

/* Whatever the locale has for a decimal point, where there is such a one. */
START_TEST(times_are_seconds_with_a_decimal_point)
{
	set_up();
	setlocale(LC_ALL, "de_DE.UTF-8");
	setenv("VSLEEP_TIMEOUT", times[_i].text, 1);
	ck_assert(vs_config_read());
	vs_config_say_rejected();
	ck_assert_str_eq(caught(), "");
	ck_assert_uint_eq(vs_config.timeout_ms, times[_i].ms);
}
END_TEST

START_TEST(a_row_has_the_value_in_use_and_its_source)
{
	set_up();
	setenv("VSLEEP_DISABLE", "0", 1);
	setenv("VSLEEP_TIMEOUT", "2.25", 1);
	setenv("VSLEEP_HOST_LIMIT", "3M", 1);
	setenv("VSLEEP_THREADS", "65", 1);
	setenv("VSLEEP_TAG", "", 1);
	setenv("VSLEEP_TAGS", "kv=discard", 1);
	setenv("VSLEEP_SIGNALS", "", 1);
	ck_assert(vs_config_read());
	assert_row("VSLEEP_DISABLE", "0 from environment");
	assert_row("VSLEEP_TIMEOUT", "2.250 from environment");
	assert_row("VSLEEP_HOST_LIMIT", "3145728 from environment");
	assert_row("VSLEEP_THREADS", "0 from rejected");
	assert_row("VSLEEP_TAG", " from environment");
	assert_row("VSLEEP_TAGS", "kv=discard from environment");
	assert_row("VSLEEP_SIGNALS", "USR1,USR2 from default");
	assert_row("VSLEEP_DIR", " from default");
}
END_TEST

START_TEST(a_text_that_its_owner_rejects_is_shown_as_rejected)
{
	set_up();
	setenv("VSLEEP_SIGNALS", "USR1", 1);
	ck_assert(vs_config_read());
	assert_row("VSLEEP_SIGNALS", "USR1 from environment");
	vs_config_reject("VSLEEP_SIGNALS", "none");
	assert_row("VSLEEP_SIGNALS", "none from rejected");
	assert_row("VSLEEP_MARK_SIGNAL", "none from default");
}
END_TEST

START_TEST(it_can_be_switched_off)
{
	set_up();
	setenv("VSLEEP_DISABLE", "1", 1);
	ck_assert(!vs_config_read());
	ck_assert(!vs_config_read());
}
END_TEST

static const struct {
	const char *only;
	bool active;
} selections[] = {
	{ "prog", true }, { "other,prog", true }, { "prog,other", true },
	{ "a,prog,b", true }, { "other", false }, { "pro", false },
	{ "program", false }, { "myprog", false }, { "other,program", false },
	{ ",", false }, { "PROG", false },
};

START_TEST(it_can_be_limited_to_programs_by_name)
{
	static char name[] = "prog";

	set_up();
	program_invocation_short_name = name;
	setenv("VSLEEP_ONLY", selections[_i].only, 1);
	ck_assert_int_eq(vs_config_read(), selections[_i].active);
}
END_TEST

static const struct {
	const char *text;
	size_t bytes;
} sizes[] = {
	{ "0", 0 }, { "4096", 4096 }, { "1K", 1024 }, { "512M", 512 * MIB },
	{ "64G", (size_t)64 << 30 }, { "3T", (size_t)3 << 40 },
	{ "18446744073709551615", SIZE_MAX },
	{ "17179869183G", ((size_t)1 << 34) * ((size_t)1 << 30) -
			  ((size_t)1 << 30) },
};

START_TEST(sizes_are_bytes_with_a_unit)
{
	size_t bytes = 1;

	ck_assert(vs_config_bytes(sizes[_i].text, &bytes));
	ck_assert_uint_eq(bytes, sizes[_i].bytes);
}
END_TEST

static const char *const bad_sizes[] = {
	"", " 1", "1 ", "-1", "+1", "1k", "1KB", "1KK", "K", "0x10", "1.5G",
	"18446744073709551616", "17179869184G", "99999999999999999999T",
};

START_TEST(what_is_no_size_is_refused_and_nothing_stored)
{
	size_t bytes = 77;

	ck_assert(!vs_config_bytes(bad_sizes[_i], &bytes));
	ck_assert_uint_eq(bytes, 77);
}
END_TEST

static void fill(TCase *tc)
{
	tcase_add_test(tc, the_defaults_are_valid_and_active);
	tcase_add_test(tc, settings_come_from_the_environment_once);
	tcase_add_test(tc,
		       settings_outlive_the_environment_that_they_came_from);
	tcase_add_test(tc, an_empty_value_counts_as_unset_but_for_the_tag);
	tcase_add_loop_test(tc,
	a_bad_value_is_named_with_what_is_right_and_the_default_used, 0,
		COUNT(bad_values));
	tcase_add_test(tc, a_choice_that_is_not_valid_is_told_what_there_is);
	tcase_add_loop_test(tc, a_choice_is_one_of_its_words, 0,
			    COUNT(choices));
	tcase_add_loop_test(tc, times_are_seconds_with_a_decimal_point, 0,
			    COUNT(times));
	tcase_add_test(tc, a_row_has_the_value_in_use_and_its_source);
	tcase_add_test(tc, a_text_that_its_owner_rejects_is_shown_as_rejected);
	tcase_add_test(tc, it_can_be_switched_off);
	tcase_add_loop_test(tc, it_can_be_limited_to_programs_by_name, 0,
			    COUNT(selections));
	tcase_add_loop_test(tc, sizes_are_bytes_with_a_unit, 0, COUNT(sizes));
	tcase_add_loop_test(tc,
	what_is_no_size_is_refused_and_nothing_stored, 0,
		COUNT(bad_sizes));
}

int main(void)
{
	return fixture_main("config", fill);
}
