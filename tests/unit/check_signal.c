/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "control_fixture.h"
#include "stub_operation.h"

#include "base/config.h"
#include "base/lock.h"
#include "base/tag.h"
#include "control/server.h"
#include "control/signal.h"
#include "memory/segment.h"
#include "sleep/ledger.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static struct sigaction action_of(int number)
{
	struct sigaction action;

	ck_assert_int_eq(sigaction(number, NULL, &action), 0);
	return action;
}

static void assert_untouched(int number)
{
	ck_assert_ptr_eq(action_of(number).sa_handler, SIG_DFL);
}

/* The next request, numbered @count, is for @verb. */
static void assert_asks(int number, enum vs_verb verb, unsigned count)
{
	struct vs_request request;

	errno = ENOTTY;
	raise(number);
	ck_assert_int_eq(errno, ENOTTY);
	stub_wait_submitted(count, &request);
	ck_assert_int_eq(request.verb, verb);
	ck_assert(request.all_tags);
	ck_assert_int_eq(request.level, 1);
	ck_assert_uint_eq(stub_submitted(), count);
}

START_TEST(the_first_signal_sleeps_and_the_second_wakes)
{
	fixture_start();
	vs_signal_start();
	assert_asks(SIGUSR1, VS_VERB_SLEEP, 1);
	assert_asks(SIGUSR2, VS_VERB_WAKE, 2);
	ck_assert(action_of(SIGUSR1).sa_flags & SA_RESTART);
	ck_assert(action_of(SIGUSR2).sa_flags & SA_RESTART);
	ck_assert(action_of(SIGUSR1).sa_flags & SA_ONSTACK);
}
END_TEST

START_TEST(other_signals_can_be_chosen)
{
	vs_config.signals = "SIGUSR2,RTMIN+3";
	fixture_start();
	vs_signal_start();
	assert_untouched(SIGUSR1);
	assert_asks(SIGUSR2, VS_VERB_SLEEP, 1);
	assert_asks(SIGRTMIN + 3, VS_VERB_WAKE, 2);
}
END_TEST

static volatile sig_atomic_t seen;

static void own_handler(int number)
{
	seen = number;
}

START_TEST(a_signal_of_the_programs_own_stays_its_own)
{
	signal(SIGUSR1, own_handler);
	signal(SIGUSR2, SIG_IGN);
	fixture_start();
	vs_signal_start();
	raise(SIGUSR1);
	ck_assert_int_eq(seen, SIGUSR1);
	ck_assert_ptr_eq(action_of(SIGUSR1).sa_handler, own_handler);
	ck_assert_ptr_eq(action_of(SIGUSR2).sa_handler, SIG_IGN);
	ck_assert_ptr_nonnull(strstr(fixture_log(), "the program's own"));
	ck_assert_uint_eq(stub_submitted(), 0);
}
END_TEST

START_TEST(one_signal_of_the_programs_own_leaves_the_other_to_us)
{
	signal(SIGUSR1, own_handler);
	fixture_start();
	vs_signal_start();
	assert_asks(SIGUSR2, VS_VERB_WAKE, 1);
}
END_TEST

START_TEST(none_leaves_both_alone)
{
	vs_config.signals = "none";
	fixture_start();
	vs_signal_start();
	assert_untouched(SIGUSR1);
	assert_untouched(SIGUSR2);
	ck_assert_ptr_null(strstr(fixture_log(), "VSLEEP_SIGNALS"));
}
END_TEST

static const char *const wrong[] = {
	"USR1", "USR1,", ",USR2", "USR1,USR1", "USR1,USR2,HUP", "10,12",
	"USR1, USR2", "KILL,USR2", "RTMIN+,USR2", "RTMIN+99,USR2",
	"RTMIN+x,USR2", "SIG,USR2",
};

START_TEST(a_wrong_setting_is_named_and_leaves_both_alone)
{
	vs_config.signals = wrong[_i];
	fixture_start();
	vs_signal_start();
	assert_untouched(SIGUSR1);
	assert_untouched(SIGUSR2);
	ck_assert_ptr_nonnull(strstr(fixture_log(), wrong[_i]));
	ck_assert_ptr_nonnull(strstr(fixture_log(), "as in USR1,USR2"));
}
END_TEST

/* The pipe that the parent's thread reads is open in the child, and so is our
 * handler there. */
START_TEST(in_a_child_the_signal_does_what_it_does_by_default)
{
	pid_t child;
	int status;

	fixture_start();
	vs_signal_start();
	child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (!child) {
		raise(SIGUSR1);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFSIGNALED(status));
	ck_assert_int_eq(WTERMSIG(status), SIGUSR1);
	assert_asks(SIGUSR2, VS_VERB_WAKE, 1);
}
END_TEST

static void send_value(int value)
{
	union sigval v = { .sival_int = value };

	ck_assert_int_eq(sigqueue(getpid(), SIGRTMIN + 5, v), 0);
}

/* What was poked before was taken before this request. */
static void settle(unsigned count)
{
	struct vs_request request;

	raise(SIGUSR1);
	stub_wait_submitted(count, &request);
}

static void start_marking(void)
{
	vs_config.mark_signal = "RTMIN+5";
	vs_tag_init("default", "weights=offload,cache=discard");
	fixture_start();
	vs_signal_start();
}

START_TEST(a_value_sets_the_marker_and_none_clears_it)
{
	start_marking();
	send_value(2);
	settle(1);
	ck_assert_int_eq(vs_tag_marker(), vs_tag_find("cache"));
	send_value(1);
	settle(2);
	ck_assert_int_eq(vs_tag_marker(), vs_tag_find("weights"));
	send_value(0);
	settle(3);
	ck_assert_int_eq(vs_tag_marker(), VS_TAG_NATIVE);
	send_value(2);
	raise(SIGRTMIN + 5);
	settle(4);
	ck_assert_int_eq(vs_tag_marker(), VS_TAG_NATIVE);
}
END_TEST

START_TEST(a_value_that_names_no_tag_is_said_and_changes_none)
{
	static const int none[] = { 3, -1, 2147483647, -2147483647 - 1 };
	char text[64];
	size_t i;

	start_marking();
	send_value(1);
	for (i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
		send_value(none[i]);
		settle(i + 1);
		ck_assert_int_eq(vs_tag_marker(), vs_tag_find("weights"));
		snprintf(text, sizeof(text), "warning: marker %d: ", none[i]);
		ck_assert_ptr_nonnull(strstr(fixture_log(), text));
	}
}
END_TEST

/* All are pending at once, and are taken as they were sent.  The sanitizer
 * holds signals back, of each number one. */
#ifdef __SANITIZE_THREAD__
#define PENDING 0
#else
#define PENDING 100
#endif
START_TEST(the_marker_keeps_its_order_among_the_others)
{
	sigset_t one, before;
	int i;

	start_marking();
	sigemptyset(&one);
	sigaddset(&one, SIGRTMIN + 5);
	pthread_sigmask(SIG_BLOCK, &one, &before);
	for (i = 0; i < PENDING; i++)
		send_value(i % 3);
	send_value(2);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	settle(1);
	ck_assert_int_eq(vs_tag_marker(), vs_tag_find("cache"));
}
END_TEST

/* Ours hold them for moments only; here it is certain. */
START_TEST(the_signal_may_come_while_the_thread_holds_a_lock)
{
	static struct vs_lock locks[] = {
		VS_LOCK(VS_RANK_STATE), VS_LOCK(VS_RANK_GATE),
		VS_LOCK(VS_RANK_TAG),
	};
	struct vs_ledger ledger;
	struct vs_request request;

	start_marking();
	vs_lock_take(&vs_segment_lock);
	raise(SIGUSR1);
	send_value(1);
	stub_wait_submitted(1, &request);
	ck_assert_int_eq(request.verb, VS_VERB_SLEEP);
	vs_lock_drop(&vs_segment_lock);
	vs_lock_take(&locks[_i]);
	raise(SIGUSR2);
	vs_lock_drop(&locks[_i]);
	stub_wait_submitted(2, &request);
	ck_assert_int_eq(request.verb, VS_VERB_WAKE);
	vs_ledger_read(&ledger);
	ck_assert_int_eq(vs_tag_marker(), vs_tag_find("weights"));
}
END_TEST

static const char *const wrong_mark[] = {
	"USR1", "SIGUSR2", "HUP", "35", "RTMIN+99", "RTMIN+5,RTMIN+6",
};

START_TEST(a_wrong_mark_signal_is_named_and_left_alone)
{
	vs_config.mark_signal = wrong_mark[_i];
	fixture_start();
	vs_signal_start();
	assert_untouched(SIGRTMIN + 5);
	assert_asks(SIGUSR1, VS_VERB_SLEEP, 1);
	assert_asks(SIGUSR2, VS_VERB_WAKE, 2);
	ck_assert_ptr_nonnull(strstr(fixture_log(), wrong_mark[_i]));
	ck_assert_ptr_nonnull(strstr(fixture_log(), "as RTMIN+5"));
	ck_assert_str_eq(vs_config.mark_signal, "none");
}
END_TEST

/* The program's handlers, one for each time that it installs one. */
#define HANDLER(n) static void handler_##n(int number) { seen = number; }
HANDLER(0)
HANDLER(1)
HANDLER(2)
HANDLER(3)
static void (*const handlers[])(int) = {
	handler_0, handler_1, handler_2, handler_3,
};

static int calls, installs;
static bool watching;

int __real_vs_action(int number, const struct sigaction *action,
		     struct sigaction *old);
int __wrap_vs_action(int number, const struct sigaction *action,
		     struct sigaction *old);

/* The linker puts it in the other's place: another thread of the program gets
 * in between every two steps. */
int __wrap_vs_action(int number, const struct sigaction *action,
		     struct sigaction *old)
{
	if (watching && number == SIGUSR1 && calls++ && calls <= installs + 1)
		signal(number, handlers[calls - 2]);
	return __real_vs_action(number, action, old);
}

START_TEST(a_handler_installed_at_the_same_time_is_not_lost)
{
	fixture_start();
	installs = _i + 1;
	watching = true;
	vs_signal_start();
	watching = false;
	ck_assert_int_gt(calls, installs);
	ck_assert_ptr_eq(action_of(SIGUSR1).sa_handler, handlers[_i]);
	raise(SIGUSR1);
	ck_assert_int_eq(seen, SIGUSR1);
	ck_assert_uint_eq(stub_submitted(), 0);
	ck_assert_ptr_nonnull(strstr(fixture_log(), "the program's own"));
	assert_asks(SIGUSR2, VS_VERB_WAKE, 1);
}
END_TEST

START_TEST(a_child_that_lets_go_has_the_default_back)
{
	pid_t child;
	int status;

	fixture_start();
	vs_signal_start();
	signal(SIGUSR2, own_handler);
	child = fork();
	if (!child) {
		vs_signal_stop();
		if (action_of(SIGUSR2).sa_handler != own_handler)
			_exit(1);
		raise(SIGUSR1);
		_exit(2);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFSIGNALED(status));
	ck_assert_int_eq(WTERMSIG(status), SIGUSR1);
	assert_asks(SIGUSR1, VS_VERB_SLEEP, 1);
}
END_TEST

static void fill(TCase *tc)
{
	tcase_add_test(tc, the_first_signal_sleeps_and_the_second_wakes);
	tcase_add_test(tc, other_signals_can_be_chosen);
	tcase_add_test(tc, a_signal_of_the_programs_own_stays_its_own);
	tcase_add_test(tc,
		       one_signal_of_the_programs_own_leaves_the_other_to_us);
	tcase_add_test(tc, none_leaves_both_alone);
	tcase_add_loop_test(tc, a_wrong_setting_is_named_and_leaves_both_alone,
			    0, sizeof(wrong) / sizeof(wrong[0]));
	tcase_add_test(tc,
		       in_a_child_the_signal_does_what_it_does_by_default);
	tcase_add_test(tc, a_value_sets_the_marker_and_none_clears_it);
	tcase_add_test(tc, a_value_that_names_no_tag_is_said_and_changes_none);
	tcase_add_test(tc, the_marker_keeps_its_order_among_the_others);
	tcase_add_loop_test(tc, a_wrong_mark_signal_is_named_and_left_alone, 0,
			    sizeof(wrong_mark) / sizeof(wrong_mark[0]));
	tcase_add_loop_test(tc,
			    the_signal_may_come_while_the_thread_holds_a_lock,
			    0, 3);
	tcase_add_loop_test(tc,
			    a_handler_installed_at_the_same_time_is_not_lost,
			    0, 4);
	tcase_add_test(tc, a_child_that_lets_go_has_the_default_back);
}

int main(void)
{
	return fixture_main("signal", fill);
}
