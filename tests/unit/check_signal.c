/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "control_fixture.h"
#include "stub_operation.h"

#include "base/config.h"
#include "control/server.h"
#include "control/signal.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
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

/* The child writes to the pipe that the parent's thread reads, if it does. */
START_TEST(a_forked_child_does_not_put_its_parent_to_sleep)
{
	pid_t child;
	int status;

	fixture_start();
	vs_signal_start();
	child = fork();
	if (!child) {
		raise(SIGUSR1);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
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
	tcase_add_test(tc, a_forked_child_does_not_put_its_parent_to_sleep);
	tcase_add_test(tc, a_child_that_lets_go_has_the_default_back);
}

int main(void)
{
	return fixture_main("signal", fill);
}
