/* SPDX-License-Identifier: Apache-2.0 */
/* Lending while the driver blocks: nobody else waits, and nothing is left. */
#include <config.h>

#include "ipc_fixture.h"

#include "base/config.h"
#include "base/lock.h"
#include "control/server.h"
#include "control/pass.h"

#include <dirent.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define SOON 1.0		/* seconds, where nobody is waited for */
#define PATIENCE 30.0

static pthread_mutex_t door = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;
static bool shut;		/* under door, as both */
static int inside;

static __typeof__(vs_real.cuMemExportToShareableHandle) plain;

static CUresult slow_export(void *out, CUmemGenericAllocationHandle handle,
			    CUmemAllocationHandleType type,
			    unsigned long long flags)
{
	pthread_mutex_lock(&door);
	inside++;
	pthread_cond_broadcast(&moved);
	while (shut)
		pthread_cond_wait(&moved, &door);
	inside--;
	pthread_mutex_unlock(&door);
	return plain(out, handle, type, flags);
}

static void set_door(bool closed)
{
	pthread_mutex_lock(&door);
	shut = closed;
	pthread_cond_broadcast(&moved);
	pthread_mutex_unlock(&door);
}

static void wait_inside(void)
{
	pthread_mutex_lock(&door);
	while (!inside)
		pthread_cond_wait(&moved, &door);
	pthread_mutex_unlock(&door);
}

static void pause_shortly(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
}

/* ---- a client ----------------------------------------------------------- */

static char dir[] = "/tmp/vsleep-check-XXXXXX";

struct said {
	char text[16384];
	int fds[VS_PASS_MAX];
	unsigned count;
};

static int client(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct dirent *entry;
	DIR *list = opendir(dir);

	ck_assert_ptr_nonnull(list);
	while ((entry = readdir(list)))
		if (strstr(entry->d_name, ".sock"))
			snprintf(address.sun_path, sizeof(address.sun_path),
				 "%s/%.60s", dir, entry->d_name);
	closedir(list);
	ck_assert_int_eq(connect(fd, (struct sockaddr *)&address,
				 sizeof(address)), 0);
	return fd;
}

static void send_text(int fd, const char *text)
{
	ck_assert_int_eq(send(fd, text, strlen(text), MSG_NOSIGNAL),
			 (ssize_t)strlen(text));
}

static void hear(int fd, struct said *said)
{
	size_t len = 0;
	ssize_t n;

	said->count = 0;
	said->text[0] = '\0';
	while (!strstr(said->text, "\n\n")) {
		n = vs_pass_receive(fd, said->text + len,
				    sizeof(said->text) - 1 - len, said->fds,
				    VS_PASS_MAX, &said->count);
		ck_assert_int_gt(n, 0);
		len += (size_t)n;
		said->text[len] = '\0';
	}
}

static void drop(struct said *said)
{
	while (said->count)
		vs_ipc_close_fd(said->fds[--said->count]);
}

static bool is(const struct said *said, const char *status)
{
	return !strncmp(said->text, status, strlen(status));
}

/* Of the fixture's allocation, and the text of its key. */
static struct vs_ipc_handle own_handle(char key[2 * VS_IPC_KEY + 1])
{
	struct vs_ipc_handle h;
	CUipcMemHandle own;
	int i;

	ck_ok(vs_ipc_get(&own, ipc_base));
	memcpy(&h, &own, sizeof(h));
	for (i = 0; i < VS_IPC_KEY; i++)
		snprintf(key + 2 * i, 3, "%02x", h.key[i]);
	return h;
}

static void ask_to_lend(int fd, unsigned first)
{
	char text[512], key[2 * VS_IPC_KEY + 1];
	struct vs_ipc_handle h = own_handle(key);

	snprintf(text, sizeof(text), "vsleep 1 lend\nkey=%s\nsegment=%" PRIu64
		 "\noffset=%" PRIu64 "\nallocation=%" PRIu64 "\nfirst=%u\n\n",
		 key, h.segment, h.offset, h.block, first);
	send_text(fd, text);
}

static void give_all_back(int fd)
{
	char text[512], key[2 * VS_IPC_KEY + 1];
	struct vs_ipc_handle h = own_handle(key);
	struct said said;

	snprintf(text, sizeof(text), "vsleep 1 return\nkey=%s\nsegment=%"
		 PRIu64 "\nfrom=0\nto=%" PRIi64 "\n\n", key, h.segment,
		 INT64_MAX);
	send_text(fd, text);
	hear(fd, &said);
	ck_assert(is(&said, "status=ok\n"));
}

static void status_comes_soon(void)
{
	double start = vs_lock_now();
	struct said said;
	int fd = client();

	send_text(fd, "vsleep 1 status\n\n");
	hear(fd, &said);
	ck_assert(is(&said, "status=ok\n"));
	ck_assert(vs_lock_now() - start < SOON);
	close(fd);
}

/* Descriptors of device memory. */
static int memory_files(void)
{
	DIR *list = opendir("/proc/self/fd");
	char path[300], target[64];
	struct dirent *entry;
	int count = 0;
	ssize_t n;

	ck_assert_ptr_nonnull(list);
	while ((entry = readdir(list))) {
		snprintf(path, sizeof(path), "/proc/self/fd/%s",
			 entry->d_name);
		n = readlink(path, target, sizeof(target) - 1);
		target[n > 0 ? n : 0] = '\0';
		count += strstr(target, "memfd:") != NULL;
	}
	closedir(list);
	return count;
}

static void wait_for_files(int count)
{
	double end = vs_lock_now() + PATIENCE;
	int is;

	while ((is = memory_files()) != count && vs_lock_now() < end)
		pause_shortly();
	ck_assert_int_eq(is, count);
}

/* ---- tests -------------------------------------------------------------- */

static void begin(void)
{
	struct vs_why why;

	ipc_start();
	plain = vs_real.cuMemExportToShareableHandle;
	vs_real.cuMemExportToShareableHandle = slow_export;
	ck_assert_ptr_nonnull(mkdtemp(dir));
	vs_config.dir = dir;
	ck_assert_int_eq(vs_server_start(&why), VS_OK);
}

static void finish(void)
{
	vs_server_stop();
	rmdir(dir);
	fixture_assert_sound();
}

/* Asked for until it is there, as borrowers do. */
static void lent_in_the_end(int fd, struct said *said)
{
	double end = vs_lock_now() + PATIENCE;

	for (;;) {
		ask_to_lend(fd, 0);
		hear(fd, said);
		if (!is(said, "status=busy\n") || vs_lock_now() > end)
			break;
		pause_shortly();
	}
	ck_assert(is(said, "status=ok\n"));
	ck_assert_uint_gt(said->count, 1);
}

START_TEST(an_export_that_blocks_blocks_no_answer)
{
	struct said said;
	int fd, other;

	begin();
	fd = client();
	other = client();
	set_door(true);
	ask_to_lend(fd, 0);
	wait_inside();
	status_comes_soon();
	/* What comes next is answered next, though the driver is at it. */
	hear(fd, &said);
	ck_assert(is(&said, "status=busy\nmessage=the driver takes long"));
	ck_assert_uint_eq(said.count, 0);
	send_text(fd, "vsleep 1 status\n\n");
	hear(fd, &said);
	ck_assert(is(&said, "status=ok\n"));
	/* Others are not waited for any more, */
	ask_to_lend(other, 0);
	hear(other, &said);
	ck_assert(is(&said, "status=busy\n"));
	status_comes_soon();
	/* and get it once the driver goes on. */
	set_door(false);
	lent_in_the_end(fd, &said);
	drop(&said);
	lent_in_the_end(other, &said);
	drop(&said);
	ck_assert_uint_gt(ipc_lent(), 1);
	give_all_back(fd);
	ck_assert_uint_eq(ipc_lent(), 0);
	close(fd);
	close(other);
	finish();
}
END_TEST

START_TEST(a_client_that_vanishes_leaves_no_descriptor)
{
	struct said said;
	int fd, files;

	begin();
	files = memory_files();
	ck_assert_int_gt(files, 0);
	set_door(true);
	fd = client();
	ask_to_lend(fd, 0);
	wait_inside();
	close(fd);
	status_comes_soon();
	set_door(false);
	wait_for_files(files);
	/* Nobody knows what it has got: what it has not it gives back. */
	fd = client();
	give_all_back(fd);
	ck_assert_uint_eq(ipc_lent(), 0);
	lent_in_the_end(fd, &said);
	drop(&said);
	give_all_back(fd);
	close(fd);
	wait_for_files(files);
	finish();
}
END_TEST

/* What was given back is not handed out, though it was asked for before. */
START_TEST(what_was_given_back_meanwhile_is_lent_anew)
{
	struct said said;
	int fd;

	begin();
	fd = client();
	set_door(true);
	ask_to_lend(fd, 0);
	hear(fd, &said);
	ck_assert(is(&said, "status=busy\n"));
	give_all_back(fd);
	ck_assert_uint_eq(ipc_lent(), 0);
	set_door(false);
	lent_in_the_end(fd, &said);
	ck_assert_uint_eq(ipc_lent(), said.count);
	drop(&said);
	give_all_back(fd);
	ck_assert_uint_eq(ipc_lent(), 0);
	close(fd);
	finish();
}
END_TEST

START_TEST(only_so_many_wait_for_the_driver)
{
	struct said said;
	int fd, files;
	unsigned i;

	begin();
	fd = client();
	files = memory_files();
	set_door(true);
	for (i = 0; i < 40; i++) {
		ask_to_lend(fd, i % 2 ? 0 : i);
		hear(fd, &said);
		ck_assert(is(&said, "status=busy\n"));
	}
	status_comes_soon();
	set_door(false);
	lent_in_the_end(fd, &said);
	drop(&said);
	wait_for_files(files);
	give_all_back(fd);
	ck_assert_uint_eq(ipc_lent(), 0);
	close(fd);
	finish();
}
END_TEST

/* A sleep counts what is being lent as lent, and leaves it. */
START_TEST(what_is_being_lent_stays_for_a_sleep)
{
	struct vs_reply reply;
	struct said said;
	int fd;

	begin();
	fd = client();
	set_door(true);
	ask_to_lend(fd, 0);
	hear(fd, &said);
	ck_assert(is(&said, "status=busy\n"));
	reply = fixture_sleep(1, NULL);
	ck_assert_int_eq(reply.status, VS_PARTIAL);
	ck_assert_uint_ge(reply.ledger.last.kept_bytes, LARGE);
	set_door(false);
	lent_in_the_end(fd, &said);
	drop(&said);
	give_all_back(fd);
	fixture_wake(NULL);
	fixture_assert_filled(ipc_base, LARGE);
	close(fd);
	finish();
}
END_TEST

static void fill(TCase *tc)
{
	tcase_add_test(tc, an_export_that_blocks_blocks_no_answer);
	tcase_add_test(tc, a_client_that_vanishes_leaves_no_descriptor);
	tcase_add_test(tc, what_was_given_back_meanwhile_is_lent_anew);
	tcase_add_test(tc, only_so_many_wait_for_the_driver);
	tcase_add_test(tc, what_is_being_lent_stays_for_a_sleep);
}

int main(void)
{
	return fixture_main("ipc lender", fill);
}
