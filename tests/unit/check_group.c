/* SPDX-License-Identifier: Apache-2.0 */
/* A program at rest for a client is so for as long as the connection is. */
#include <config.h>

#include "control_fixture.h"
#include "stub_operation.h"

#include "control/server.h"

#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define CLIENTS 64	/* as many as the server serves */
#define STATUS "vsleep 1 status\n\n"
#define QUIESCE "vsleep 1 quiesce\n\n"

static void assert_ok(const char *answer)
{
	ck_assert_msg(!strncmp(answer, "status=ok\n", 10), "%s", answer);
}

/* A client for which the program is at rest, the only one so far. */
static int start(void)
{
	int fd;

	fixture_start();
	fd = fixture_connect();
	fixture_send(fd, QUIESCE);
	stub_wait_submitted(1, NULL);
	stub_finish(VS_OK, "");
	assert_ok(fixture_read(fd));
	ck_assert_uint_eq(stub_let_go(), 0);
	return fd;
}

static void wait_let_go(unsigned count)
{
	stub_wait_forgotten(count);
	ck_assert_uint_eq(stub_let_go(), count);
}

START_TEST(closing_the_connection_lets_go)
{
	int fd = start();

	if (_i)
		shutdown(fd, SHUT_WR);
	else
		close(fd);
	wait_let_go(1);
}
END_TEST

START_TEST(a_killed_client_lets_go)
{
	const char *path = fixture_path();
	pid_t child;
	int fd, status;

	fixture_start();
	child = fork();
	if (!child) {
		fd = fixture_try(path);
		fixture_send(fd, QUIESCE);
		fixture_read(fd);
		kill(getpid(), SIGKILL);
	}
	stub_wait_submitted(1, NULL);
	stub_finish(VS_OK, "");
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFSIGNALED(status));
	wait_let_go(1);
}
END_TEST

START_TEST(others_are_answered_and_status_changes_nothing)
{
	int fd = start(), other = fixture_connect();

	assert_ok(fixture_ask(other, STATUS));
	assert_ok(fixture_ask(fd, STATUS));
	ck_assert_ptr_nonnull(strstr(fixture_ask(fd, "vsleep 1 nap\n\n"),
				     "bad-request"));
	ck_assert_ptr_nonnull(strstr(fixture_ask(fd,
				     "vsleep 1 sleep\nlevel=3\n\n"),
				     "bad-request"));
	close(other);
	assert_ok(fixture_ask(fd, STATUS));
	ck_assert_uint_eq(stub_let_go(), 0);
	close(fd);
	wait_let_go(1);
}
END_TEST

/* _i: 0 sleep, 1 pause. */
START_TEST(the_next_request_takes_the_rest_over)
{
	struct vs_request request;
	int fd = start();

	fixture_send(fd, _i ? "vsleep 1 pause\n\n" : "vsleep 1 sleep\n\n");
	stub_wait_submitted(2, &request);
	ck_assert_ptr_nonnull(request.rest);
	stub_wait_forgotten(1);
	stub_finish(VS_OK, "");
	assert_ok(fixture_read(fd));
	ck_assert_uint_eq(stub_let_go(), 1);	/* the sleep's own job */
	fixture_send(fd, "vsleep 1 sleep\n\n");
	stub_wait_submitted(3, &request);
	ck_assert_ptr_null(request.rest);
}
END_TEST

START_TEST(another_clients_sleep_takes_nothing_over)
{
	int fd = start(), other = fixture_connect();
	struct vs_request request;

	fixture_send(other, "vsleep 1 sleep\n\n");
	stub_wait_submitted(2, &request);
	ck_assert_ptr_null(request.rest);
	ck_assert_uint_eq(stub_let_go(), 0);
	close(fd);
	wait_let_go(1);
}
END_TEST

START_TEST(a_dry_run_keeps_the_rest)
{
	struct vs_request request;
	int fd = start();

	fixture_send(fd, "vsleep 1 sleep\ndry-run=yes\n\n");
	stub_wait_submitted(2, &request);
	ck_assert_ptr_null(request.rest);
	stub_finish(VS_OK, "");
	assert_ok(fixture_read(fd));
	fixture_send(fd, "vsleep 1 sleep\n\n");
	stub_wait_submitted(3, &request);
	ck_assert_ptr_nonnull(request.rest);
}
END_TEST

static const char *const others[] = {
	"vsleep 1 wake\n\n", "vsleep 1 resume\n\n", "vsleep 1 quiesce\n\n",
	"vsleep 1 cancel\n\n", "vsleep 1 config\n\n",
	"vsleep 1 tag\nclear=yes\n\n",
};

START_TEST(any_other_request_lets_go_first)
{
	struct vs_request request;
	int fd = start();

	stub_at_once();
	assert_ok(fixture_ask(fd, others[_i]));
	ck_assert_uint_ge(stub_let_go(), 1);
	fixture_send(fd, "vsleep 1 sleep\n\n");
	fixture_read(fd);
	stub_wait_submitted(2, &request);
	ck_assert_int_eq(request.verb, VS_VERB_SLEEP);
	/* Of the first one; there may be another. */
	ck_assert_int_eq(request.rest != NULL, _i == 2);
}
END_TEST

START_TEST(a_quiesce_that_failed_holds_nothing)
{
	struct vs_request request;
	int fd;

	fixture_start();
	fd = fixture_connect();
	fixture_send(fd, QUIESCE);
	stub_wait_submitted(1, NULL);
	stub_finish(VS_BUSY, "it works");
	ck_assert_ptr_nonnull(strstr(fixture_read(fd), "status=busy\n"));
	stub_wait_forgotten(1);
	fixture_send(fd, "vsleep 1 sleep\n\n");
	stub_wait_submitted(2, &request);
	ck_assert_ptr_null(request.rest);
}
END_TEST

START_TEST(one_for_whom_the_program_rests_never_gives_way)
{
	int fd = start(), other, i;

	for (i = 0; i < 2 * CLIENTS; i++) {
		other = fixture_connect();
		assert_ok(fixture_ask(other, STATUS));
	}
	ck_assert_uint_eq(stub_let_go(), 0);
	assert_ok(fixture_ask(fd, STATUS));
}
END_TEST

START_TEST(one_whose_lease_is_over_gives_way)
{
	int fds[CLIENTS], i;

	fixture_start();
	stub_at_once();
	for (i = 0; i < CLIENTS; i++) {
		fds[i] = fixture_connect();
		assert_ok(fixture_ask(fds[i], QUIESCE));
	}
	stub_end_leases();
	assert_ok(fixture_ask(fixture_connect(), STATUS));
	ck_assert_uint_eq(stub_let_go(), 1);
}
END_TEST

START_TEST(the_end_of_the_server_lets_go)
{
	start();
	vs_server_stop();
	wait_let_go(1);
}
END_TEST

static void fill(TCase *tc)
{
	tcase_add_loop_test(tc, closing_the_connection_lets_go, 0, 2);
	tcase_add_test(tc, a_killed_client_lets_go);
	tcase_add_test(tc, others_are_answered_and_status_changes_nothing);
	tcase_add_loop_test(tc, the_next_request_takes_the_rest_over, 0, 2);
	tcase_add_test(tc, another_clients_sleep_takes_nothing_over);
	tcase_add_test(tc, a_dry_run_keeps_the_rest);
	tcase_add_loop_test(tc, any_other_request_lets_go_first, 0,
			    sizeof(others) / sizeof(others[0]));
	tcase_add_test(tc, a_quiesce_that_failed_holds_nothing);
	tcase_add_test(tc, one_for_whom_the_program_rests_never_gives_way);
	tcase_add_test(tc, one_whose_lease_is_over_gives_way);
	tcase_add_test(tc, the_end_of_the_server_lets_go);
}

int main(void)
{
	return fixture_main("group", fill);
}
