/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "control_fixture.h"
#include "stub_operation.h"

#include "base/lock.h"
#include "control/command.h"
#include "control/server.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define STATUS "vsleep 1 status\n\n"
#define SLEEP "vsleep 1 sleep\n\n"
#define CLIENTS 64	/* as many as the server serves */

static bool starts(const char *text, const char *start)
{
	return !strncmp(text, start, strlen(start));
}

static void assert_answers(void)
{
	int fd = fixture_connect();
	const char *answer = fixture_ask(fd, STATUS);

	ck_assert_msg(starts(answer, "status=ok\n"), "%s", answer);
	close(fd);
}

static void assert_nothing_to_read(int fd)
{
	char byte;

	ck_assert_int_eq(recv(fd, &byte, 1, MSG_DONTWAIT), -1);
	ck_assert_int_eq(errno, EAGAIN);
}

static const char *shared_path;

static void *ask_in_thread(void *answered)
{
	int fd = fixture_try(shared_path);
	char text[16] = "";
	ssize_t n;

	if (fd < 0)
		return NULL;
	if (send(fd, STATUS, strlen(STATUS), MSG_NOSIGNAL) > 0) {
		n = recv(fd, text, 10, MSG_WAITALL);
		if (n == 10 && !strcmp(text, "status=ok\n"))
			*(bool *)answered = true;
	}
	close(fd);
	return NULL;
}

START_TEST(fifty_clients_at_once_are_all_answered)
{
	bool answered[50] = { false };
	pthread_t threads[50];
	int i;

	fixture_start();
	shared_path = fixture_path();
	for (i = 0; i < 50; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL,
						ask_in_thread, &answered[i]),
				 0);
	for (i = 0; i < 50; i++) {
		pthread_join(threads[i], NULL);
		ck_assert_msg(answered[i], "client %d", i);
	}
}
END_TEST

START_TEST(half_a_request_and_silence_hold_up_nobody)
{
	int silent;

	fixture_start();
	silent = fixture_connect();
	fixture_send(silent, "vsleep 1 sta");
	assert_answers();
	assert_nothing_to_read(silent);
	ck_assert(starts(fixture_ask(silent, "tus\n\n"), "status=ok\n"));
}
END_TEST

START_TEST(status_is_answered_while_an_operation_runs)
{
	int fd;

	fixture_start();
	fd = fixture_connect();
	fixture_send(fd, SLEEP);
	stub_wait_submitted(1, NULL);
	assert_answers();
	assert_nothing_to_read(fd);
	stub_finish(VS_NOHOST, "12 MiB of host memory");
	ck_assert(starts(fixture_read(fd), "status=no-host-memory\n"
			 "message=12 MiB of host memory\n"));
	stub_wait_forgotten(1);
}
END_TEST

START_TEST(the_operation_of_a_client_that_vanished_goes_on)
{
	int gone, fd;

	fixture_start();
	gone = fixture_connect();
	fixture_send(gone, SLEEP);
	stub_wait_submitted(1, NULL);
	close(gone);
	stub_wait_forgotten(1);
	fd = fixture_connect();
	fixture_send(fd, SLEEP);
	stub_wait_submitted(2, NULL);
	stub_finish(VS_OK, "");
	ck_assert(starts(fixture_read(fd), "status=ok\n"));
}
END_TEST

START_TEST(a_request_is_carried_out_though_its_client_left_at_once)
{
	int fd;

	fixture_start();
	fd = fixture_connect();
	fixture_send(fd, SLEEP);
	close(fd);
	stub_wait_submitted(1, NULL);
	stub_wait_forgotten(1);
	assert_answers();
}
END_TEST

START_TEST(a_client_that_was_killed_costs_nothing)
{
	const char *path = fixture_path();
	pid_t child;
	int status;

	fixture_start();
	child = fork();
	if (!child) {
		fixture_send(fixture_try(path), SLEEP);
		kill(getpid(), SIGKILL);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFSIGNALED(status));
	stub_wait_submitted(1, NULL);
	stub_wait_forgotten(1);
	assert_answers();
}
END_TEST

START_TEST(a_client_that_only_reads_on_gets_its_answer)
{
	int fd;

	fixture_start();
	fd = fixture_connect();
	fixture_send(fd, SLEEP);
	shutdown(fd, SHUT_WR);
	stub_wait_submitted(1, NULL);
	assert_answers();
	stub_finish(VS_OK, "");
	ck_assert(starts(fixture_read(fd), "status=ok\n"));
	fixture_assert_closed(fd);
}
END_TEST

START_TEST(a_request_cut_off_in_the_middle_is_bad)
{
	int fd;

	fixture_start();
	fd = fixture_connect();
	fixture_send(fd, "vsleep 1 sleep\nlevel=2\n");
	shutdown(fd, SHUT_WR);
	ck_assert(starts(fixture_read(fd), "status=bad-request\n"));
	fixture_assert_closed(fd);
	ck_assert_uint_eq(stub_submitted(), 0);
}
END_TEST

START_TEST(garbage_is_answered_and_its_client_dropped)
{
	int fd;

	fixture_start();
	fd = fixture_connect();
	fixture_send(fd, "\x16\x03\x01\x02");
	ck_assert(starts(fixture_read(fd), "status=bad-request\n"));
	fixture_assert_closed(fd);
	assert_answers();
}
END_TEST

START_TEST(a_request_without_end_is_answered_and_its_client_dropped)
{
	char text[VS_COMMAND_MAX + 1];
	int fd;

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	fixture_start();
	fd = fixture_connect();
	fixture_send(fd, text);
	ck_assert_ptr_nonnull(strstr(fixture_read(fd), "longer than 8192"));
	fixture_assert_closed(fd);
	assert_answers();
}
END_TEST

START_TEST(a_bad_request_does_not_end_the_conversation)
{
	int fd;

	fixture_start();
	fd = fixture_connect();
	ck_assert(starts(fixture_ask(fd, "vsleep 1 nap\n\n"),
			 "status=bad-request\n"));
	ck_assert(starts(fixture_ask(fd, STATUS), "status=ok\n"));
}
END_TEST

START_TEST(one_who_does_not_read_is_held_back_and_loses_nothing)
{
	int fd;
	int sent = 0;
	int i;

	fixture_start();
	fd = fixture_connect();
	while (send(fd, STATUS, strlen(STATUS), MSG_DONTWAIT | MSG_NOSIGNAL) ==
	       (ssize_t)strlen(STATUS))
		sent++;
	ck_assert_int_eq(errno, EAGAIN);
	assert_answers();
	for (i = 0; i < sent; i++)
		ck_assert(starts(fixture_read(fd), "status=ok\n"));
}
END_TEST

START_TEST(where_all_places_are_taken_the_longest_silent_client_gives_way)
{
	int fds[CLIENTS];
	int i;

	fixture_start();
	for (i = 0; i < CLIENTS; i++) {
		fds[i] = fixture_connect();
		ck_assert(starts(fixture_ask(fds[i], STATUS), "status=ok\n"));
	}
	ck_assert(starts(fixture_ask(fds[0], STATUS), "status=ok\n"));
	assert_answers();
	fixture_assert_closed(fds[1]);
	ck_assert(starts(fixture_ask(fds[0], STATUS), "status=ok\n"));
	ck_assert(starts(fixture_ask(fds[2], STATUS), "status=ok\n"));
}
END_TEST

START_TEST(one_who_waits_for_an_operation_never_gives_way)
{
	int fds[CLIENTS];
	int extra;
	int i;

	fixture_start();
	for (i = 0; i < CLIENTS; i++) {
		fds[i] = fixture_connect();
		fixture_send(fds[i], SLEEP);
	}
	stub_wait_submitted(CLIENTS, NULL);
	extra = fixture_connect();
	ck_assert(starts(fixture_read(extra), "status=busy\n"));
	fixture_assert_closed(extra);
	stub_finish(VS_OK, "");
	for (i = 0; i < CLIENTS; i++)
		ck_assert(starts(fixture_read(fds[i]), "status=ok\n"));
}
END_TEST

START_TEST(progress_comes_five_times_a_second_to_those_who_ask_for_it)
{
	double start = vs_lock_now();
	int quiet, told;
	int i;

	fixture_start();
	quiet = fixture_connect();
	fixture_send(quiet, SLEEP);
	stub_wait_submitted(1, NULL);
	told = fixture_connect();
	fixture_send(told, "vsleep 1 sleep\nprogress=yes\n\n");
	for (i = 0; i < 4; i++)
		ck_assert_str_eq(fixture_line(told),
				 "progress phase=copying-out done-bytes=5 "
				 "total-bytes=9");
	ck_assert_double_ge(vs_lock_now() - start, 0.8);
	assert_nothing_to_read(quiet);
	stub_finish(VS_OK, "");
	ck_assert(starts(fixture_read(quiet), "status=ok\n"));
	ck_assert_ptr_nonnull(strstr(fixture_read(told), "status=ok\n"));
}
END_TEST

START_TEST(stopping_answers_what_is_done)
{
	int fd;

	fixture_start();
	fd = fixture_connect();
	fixture_send(fd, SLEEP);
	stub_wait_submitted(1, NULL);
	stub_finish(VS_OK, "");
	vs_server_stop();
	ck_assert(starts(fixture_read(fd), "status=ok\n"));
	fixture_assert_closed(fd);
}
END_TEST

START_TEST(pokes_are_carried_out_in_their_order_and_keep_errno)
{
	struct vs_request request;

	fixture_start();
	errno = ENOTTY;
	vs_server_poke(VS_VERB_SLEEP);
	vs_server_poke(VS_VERB_WAKE);
	ck_assert_int_eq(errno, ENOTTY);
	stub_wait_submitted(2, &request);
	ck_assert_int_eq(request.verb, VS_VERB_WAKE);
	ck_assert(request.all_tags);
	vs_server_poke(VS_VERB_SLEEP);
	stub_wait_submitted(3, &request);
	ck_assert_int_eq(request.verb, VS_VERB_SLEEP);
	ck_assert_int_eq(request.level, 1);
	stub_wait_forgotten(3);
}
END_TEST

/* The SigBlk line of the thread that is called @name, or of this one. */
static unsigned long long blocked_in(const char *name)
{
	char path[300], line[256];
	unsigned long long mask = 0;
	struct dirent *entry;
	bool ours;
	FILE *file;
	DIR *dir = opendir("/proc/self/task");

	while (!mask && (entry = readdir(dir))) {
		snprintf(path, sizeof(path), "/proc/self/task/%s/status",
			 entry->d_name);
		file = fopen(path, "r");
		ours = false;
		while (file && fgets(line, sizeof(line), file)) {
			if (!strncmp(line, "Name:\t", 6))
				ours = starts(line + 6, name);
			if (ours)
				sscanf(line, "SigBlk: %llx", &mask);
		}
		if (file)
			fclose(file);
	}
	closedir(dir);
	return mask;
}

START_TEST(the_thread_blocks_every_signal_and_its_maker_none)
{
	sigset_t before, after;
	int number;

	pthread_sigmask(SIG_SETMASK, NULL, &before);
	fixture_start();
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	assert_answers();
	for (number = 1; number < 32; number++) {
		ck_assert_int_eq(sigismember(&before, number),
				 sigismember(&after, number));
		if (number != SIGKILL && number != SIGSTOP)
			ck_assert(blocked_in("vsleep-server") >>
				  (number - 1) & 1);
	}
}
END_TEST

START_TEST(a_closed_connection_ends_though_a_forked_child_holds_it)
{
	pid_t child;
	int fd;

	fixture_start();
	fd = fixture_connect();
	ck_assert(starts(fixture_ask(fd, STATUS), "status=ok\n"));
	child = fork();
	if (!child)
		for (;;)
			pause();
	ck_assert(starts(fixture_ask(fd, "\x01"), "status=bad-request\n"));
	fixture_assert_closed(fd);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}
END_TEST

/* A program that has the server, a child of it that outlives it. */
static pid_t start_parent(int ready, int hold)
{
	pid_t parent = fork();
	char byte = 0;

	if (parent)
		return parent;
	fixture_start();
	if (!fork()) {
		vs_server_stop();
		if (write(ready, &byte, 1) == 1)
			_exit(read(hold, &byte, 1) != 0);
		_exit(1);
	}
	for (;;)
		pause();
}

START_TEST(the_socket_of_a_killed_program_is_not_kept_alive_by_its_child)
{
	int ready[2], hold[2];
	char path[128];
	pid_t parent;
	char byte;
	int fd;

	ck_assert_int_eq(pipe(ready), 0);
	ck_assert_int_eq(pipe(hold), 0);
	parent = start_parent(ready[1], hold[0]);
	ck_assert_int_eq(read(ready[0], &byte, 1), 1);
	snprintf(path, sizeof(path), "%s/%d%s", fixture_dir, (int)parent,
		 strpbrk(strrchr(fixture_path(), '/'), "-."));
	fd = fixture_try(path);
	ck_assert_int_ge(fd, 0);
	ck_assert(starts(fixture_ask(fd, STATUS), "status=ok\n"));
	kill(parent, SIGKILL);
	waitpid(parent, NULL, 0);
	fixture_assert_closed(fd);
	ck_assert_int_eq(fixture_try(path), -1);
	ck_assert_int_eq(errno, ECONNREFUSED);
	close(hold[1]);
}
END_TEST

static void fill(TCase *tc)
{
	tcase_add_test(tc, fifty_clients_at_once_are_all_answered);
	tcase_add_test(tc, half_a_request_and_silence_hold_up_nobody);
	tcase_add_test(tc, status_is_answered_while_an_operation_runs);
	tcase_add_test(tc, the_operation_of_a_client_that_vanished_goes_on);
	tcase_add_test(tc,
		a_request_is_carried_out_though_its_client_left_at_once);
	tcase_add_test(tc, a_client_that_was_killed_costs_nothing);
	tcase_add_test(tc, a_client_that_only_reads_on_gets_its_answer);
	tcase_add_test(tc, a_request_cut_off_in_the_middle_is_bad);
	tcase_add_test(tc, garbage_is_answered_and_its_client_dropped);
	tcase_add_test(tc,
		a_request_without_end_is_answered_and_its_client_dropped);
	tcase_add_test(tc, a_bad_request_does_not_end_the_conversation);
	tcase_add_test(tc,
		one_who_does_not_read_is_held_back_and_loses_nothing);
	tcase_add_test(tc,
		where_all_places_are_taken_the_longest_silent_client_gives_way);
	tcase_add_test(tc, one_who_waits_for_an_operation_never_gives_way);
	tcase_add_test(tc,
		progress_comes_five_times_a_second_to_those_who_ask_for_it);
	tcase_add_test(tc, stopping_answers_what_is_done);
	tcase_add_test(tc, pokes_are_carried_out_in_their_order_and_keep_errno);
	tcase_add_test(tc, the_thread_blocks_every_signal_and_its_maker_none);
	tcase_add_test(tc,
		a_closed_connection_ends_though_a_forked_child_holds_it);
	tcase_add_test(tc,
		the_socket_of_a_killed_program_is_not_kept_alive_by_its_child);
}

int main(void)
{
	return fixture_main("server", fill);
}
