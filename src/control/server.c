/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "control/server.h"

#include "base/lock.h"
#include "base/log.h"
#include "base/thread.h"
#include "control/client.h"
#include "control/command.h"
#include "control/signal.h"
#include "control/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CLIENTS 64
#define ACCEPT_PAUSE 0.1	/* seconds, when there is no descriptor left */
#define JOIN_SECONDS 2

enum { POLL_POKE, POLL_NOTIFY, POLL_LISTEN, POLL_CLIENT };

static pid_t owner;		/* the process whose thread runs; 0: none */
static pthread_t thread;
static int listener = -1;
static int notify_fd = -1;	/* operations say here that they are done */
static int poke_in = -1;	/* a pipe: pokes keep their order */
static _Atomic int poke_out = -1;
static char socket_path[VS_SOCKET_PATH_MAX];

/* Of the server thread alone. */
static struct vs_client clients[CLIENTS];
static uint64_t turn;
static double accept_at;

enum poke_kind { POKE_VERB, POKE_MARK, POKE_GIVEN, POKE_STOP };

struct poke {
	int kind;
	int value;
};

static void poke(enum poke_kind kind, int value)
{
	struct poke one = { .kind = kind, .value = value };
	int saved = errno;
	int fd = atomic_load_explicit(&poke_out, memory_order_relaxed);

	/* A full pipe holds thousands of requests that say the same. */
	if (fd >= 0 && write(fd, &one, sizeof(one)) < 0)
		errno = saved;
	errno = saved;
}

void vs_server_poke(enum vs_verb verb)
{
	poke(POKE_VERB, verb);
}

void vs_server_poke_mark(int n)
{
	poke(POKE_MARK, n);
}

void vs_server_poke_given(int number)
{
	poke(POKE_GIVEN, number);
}

/* Nobody waits for what a signal asked for: the ledger keeps its error. */
static void submit(enum vs_verb verb)
{
	struct vs_request request;
	struct vs_why why = { 0 };
	struct vs_job *job;

	vs_command_preset(verb, &request);
	job = vs_operation_submit(&request, -1, &why);
	if (job)
		vs_operation_forget(job);
	else
		vs_ledger_failed(&why);
	vs_log_debug("a signal asked for a %s",
		     verb == VS_VERB_SLEEP ? "sleep" : "wake");
}

static void mark(int n)
{
	struct vs_why why = { 0 };

	if (!vs_tag_mark_nth(n, &why))
		return;
	vs_log_warn("%s; it stays as it was", why.text);
	vs_ledger_failed(&why);
}

/* False when the thread shall end. */
static bool take_pokes(void)
{
	struct poke pokes[64];
	ssize_t n = read(poke_in, pokes, sizeof(pokes));
	ssize_t i;

	/* A write of so few bytes is whole or not there. */
	for (i = 0; i < n / (ssize_t)sizeof(pokes[0]); i++) {
		if (pokes[i].kind == POKE_STOP)
			return false;
		if (pokes[i].kind == POKE_MARK)
			mark(pokes[i].value);
		else if (pokes[i].kind == POKE_GIVEN)
			vs_signal_tell_given(pokes[i].value);
		else
			submit((enum vs_verb)pokes[i].value);
	}
	return true;
}

/* The program is kept at rest for it: not when its lease is over. */
static bool rests(const struct vs_client *client)
{
	return client->rest && vs_operation_rests(client->rest);
}

/* A free slot; else that of the client which has been silent the longest and
 * for which nothing is done. */
static struct vs_client *find_slot(void)
{
	struct vs_client *oldest = NULL;
	int i;

	for (i = 0; i < CLIENTS; i++) {
		if (clients[i].fd < 0)
			return &clients[i];
		if (!clients[i].job && !rests(&clients[i]) &&
		    !clients[i].lending.peer &&
		    (!oldest || clients[i].turn < oldest->turn))
			oldest = &clients[i];
	}
	if (oldest)
		vs_client_close(oldest);
	return oldest;
}

static void refuse(int fd)
{
	static const char answer[] = "status=busy\nmessage=too many clients "
				     "wait for an operation\n\n";

	if (send(fd, answer, sizeof(answer) - 1,
		 MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		vs_log_debug("a client was turned away: %s", strerror(errno));
	close(fd);
}

static void take_client(void)
{
	struct vs_client *slot;
	int fd;

	fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0) {
		if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
			accept_at = vs_lock_now() + ACCEPT_PAUSE;
		return;
	}
	slot = find_slot();
	if (slot)
		vs_client_open(slot, fd, ++turn);
	else
		refuse(fd);
}

/* Fill @polls; returns the milliseconds until something is due, or -1. */
static int prepare(struct pollfd polls[POLL_CLIENT + CLIENTS])
{
	double now = vs_lock_now();
	double due = 0;
	int i;

	polls[POLL_POKE] = (struct pollfd){ .fd = poke_in, .events = POLLIN };
	polls[POLL_NOTIFY] = (struct pollfd){ .fd = notify_fd,
					      .events = POLLIN };
	polls[POLL_LISTEN] = (struct pollfd){ .fd = listener,
					      .events = POLLIN };
	if (accept_at > now) {
		polls[POLL_LISTEN].fd = -1;
		due = accept_at;
	}
	for (i = 0; i < CLIENTS; i++) {
		polls[POLL_CLIENT + i] = (struct pollfd){
			.fd = clients[i].fd,
			.events = vs_client_events(&clients[i]),
		};
		if (clients[i].job && clients[i].progress &&
		    (!due || clients[i].progress_at < due))
			due = clients[i].progress_at;
	}
	if (!due)
		return -1;
	return due > now ? (int)((due - now) * 1000) + 1 : 0;
}

static void settle_clients(void)
{
	uint64_t count;
	int i;

	if (read(notify_fd, &count, sizeof(count)) < 0)
		return;
	for (i = 0; i < CLIENTS; i++)
		vs_client_settle(&clients[i], notify_fd);
}

/*
 * The program may have closed descriptors that it did not open.  Their
 * numbers are not ours any more, so they are not closed again.
 */
static bool lost(const struct pollfd *polls)
{
	if (!((polls[POLL_POKE].revents | polls[POLL_NOTIFY].revents |
	       polls[POLL_LISTEN].revents) & POLLNVAL) &&
	    !(polls[POLL_POKE].revents & POLLHUP))
		return false;
	vs_log_error("the program closed a descriptor of vsleep: no control "
		     "from here on");
	atomic_store(&poke_out, -1);
	poke_in = -1;
	notify_fd = -1;
	listener = -1;
	return true;
}

/* False when the thread shall end. */
static bool serve_once(void)
{
	struct pollfd polls[POLL_CLIENT + CLIENTS];
	double now;
	int i;

	if (poll(polls, POLL_CLIENT + CLIENTS, prepare(polls)) < 0)
		return errno == EINTR || errno == ENOMEM || errno == EAGAIN;
	if (lost(polls))
		return false;
	if (polls[POLL_NOTIFY].revents)
		settle_clients();
	for (i = 0; i < CLIENTS; i++)
		if (clients[i].fd >= 0 && polls[POLL_CLIENT + i].revents)
			vs_client_ready(&clients[i],
					polls[POLL_CLIENT + i].revents,
					notify_fd, ++turn);
	now = vs_lock_now();
	for (i = 0; i < CLIENTS; i++)
		vs_client_tell(&clients[i], now);
	if (polls[POLL_LISTEN].revents)
		take_client();
	return !polls[POLL_POKE].revents || take_pokes();
}

static void *serve(void *unused)
{
	int i;

	(void)unused;
	while (serve_once())
		;
	for (i = 0; i < CLIENTS; i++) {
		vs_client_settle(&clients[i], notify_fd);
		vs_client_close(&clients[i]);
	}
	return NULL;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static int open_pipe(void)
{
	int ends[2];

	if (poke_in >= 0)
		return 0;
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK))
		return -1;
	poke_in = ends[0];
	atomic_store(&poke_out, ends[1]);
	return 0;
}

enum vs_status vs_server_start(struct vs_why *why)
{
	int rc;
	int i;

	if (owner)
		return VS_OK;
	if (open_pipe())
		return vs_why_set(why, VS_REFUSED, "server: pipe: %s",
				  strerror(errno));
	notify_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (notify_fd < 0) {
		vs_why_set(why, VS_REFUSED, "server: eventfd: %s",
			   strerror(errno));
		goto undo_open;
	}
	for (i = 0; i < CLIENTS; i++)
		clients[i].fd = -1;
	listener = vs_socket_listen(socket_path);
	rc = vs_thread_start(&thread, "vsleep-server", serve, NULL);
	if (rc) {
		vs_why_set(why, VS_REFUSED, "server: thread: %s",
			   strerror(rc));
		goto undo_listen;
	}
	owner = getpid();
	return VS_OK;

undo_listen:
	if (socket_path[0])
		unlink(socket_path);
undo_open:
	close_fd(&notify_fd);
	close_fd(&listener);
	return VS_REFUSED;
}

/* The parent's thread does not exist here, its descriptors do. */
static void stop_forked(void)
{
	int out = atomic_exchange(&poke_out, -1);
	int i;

	for (i = 0; i < CLIENTS; i++)
		close_fd(&clients[i].fd);
	close_fd(&out);
	close_fd(&poke_in);
	close_fd(&notify_fd);
	close_fd(&listener);
}

void vs_server_stop(void)
{
	struct timespec deadline;
	bool forked = owner && owner != getpid();

	if (!owner)
		return;
	owner = 0;
	if (forked) {
		stop_forked();
		return;
	}
	if (socket_path[0])
		unlink(socket_path);
	poke(POKE_STOP, 0);
	clock_gettime(CLOCK_REALTIME, &deadline);
	deadline.tv_sec += JOIN_SECONDS;
	/* A thread that does not end still uses its descriptors. */
	if (pthread_timedjoin_np(thread, NULL, &deadline))
		return;
	/* The pipe stays: a handler may be about to write to it, and the
	 * number must not become another file's meanwhile. */
	close_fd(&notify_fd);
	close_fd(&listener);
}
