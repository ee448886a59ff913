/* SPDX-License-Identifier: Apache-2.0 */
/*
 * restarts - one line for each blocking call: does it go on when SIGUSR1 and
 * SIGUSR2, for which this program does nothing, come while it waits?
 */
#include "drv.h"

#include <errno.h>
#include <linux/futex.h>
#include <limits.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

static int ends[2], pair[2], listener, poller, lock_fd[2], queue_id, set_id;
static sem_t semaphore;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int flag, futex_word;
static pid_t child, waiter;
static char path[108];
static atomic_int calling, returned;
static const struct timespec hour = { .tv_sec = 3600 };
static char buf[1 << 16];
static sigset_t none, winch;

/* ---- the calls; what ends the wait of those that go on ------------------ */

static long do_read(void) { return read(ends[0], buf, 1); }
static long do_readv(void)
{
	struct iovec one = { buf, 1 };

	return readv(ends[0], &one, 1);
}
static void put(void) { flag = (int)write(ends[1], "x", 1); }

static long do_write(void) { return write(ends[1], buf, 4096); }
static void take(void)
{
	for (int i = 0; i < 16; i++)
		flag = (int)read(ends[0], buf, 4096);
}
static void fill(void)
{
	fcntl(ends[1], F_SETFL, O_NONBLOCK);
	while (write(ends[1], buf, 4096) > 0)
		;
	fcntl(ends[1], F_SETFL, 0);
}
static void empty(void)
{
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
	while (read(ends[0], buf, sizeof(buf)) > 0)
		;
	fcntl(ends[0], F_SETFL, 0);
}

static long do_recv(void) { return recv(pair[0], buf, 1, 0); }
static void deliver(void) { send(pair[1], "x", 1, 0); }
static void limit(void)
{
	struct timeval tv = { .tv_sec = 3600 };

	setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
}

static void client(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	strcpy(address.sun_path, path);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)))
		perror("connect");
}
static void listening(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	snprintf(path, sizeof(path), "%s.listen", getenv("COUNT"));
	strcpy(address.sun_path, path);
	if (bind(listener, (struct sockaddr *)&address, sizeof(address)) ||
	    listen(listener, 1))
		perror("listen");
}
static long do_accept(void) { return accept(listener, NULL, NULL); }

static void fifo(void)
{
	snprintf(path, sizeof(path), "%s.fifo", getenv("COUNT"));
	if (mkfifo(path, 0600))
		perror("mkfifo");
}
static long do_open(void) { return open(path, O_RDONLY | O_CLOEXEC); }
static void open_other(void) { flag = open(path, O_WRONLY | O_CLOEXEC); }

static void bear(void)
{
	child = fork();
	if (!child)
		for (;;)
			pause();
}
static long do_waitpid(void) { return waitpid(child, NULL, 0); }
static long do_waitid(void)
{
	siginfo_t info;

	return waitid(P_PID, (id_t)child, &info, WEXITED);
}
static void end_child(void) { kill(child, SIGKILL); }

static void open_twice(const char *suffix)
{
	snprintf(path, sizeof(path), "%s.%s", getenv("COUNT"), suffix);
	lock_fd[0] = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	lock_fd[1] = open(path, O_RDWR | O_CLOEXEC);
}
static void locked(void)
{
	open_twice("flock");
	flock(lock_fd[0], LOCK_EX);
}
static long do_flock(void) { return flock(lock_fd[1], LOCK_EX); }
static void unlock(void) { flock(lock_fd[0], LOCK_UN); }
static long set_lock(int fd, int command, short type)
{
	struct flock range = { .l_type = type, .l_whence = SEEK_SET };

	return fcntl(fd, command, &range);
}
static void range_locked(void)
{
	open_twice("fcntl");
	set_lock(lock_fd[0], F_OFD_SETLKW, F_WRLCK);
}
static long do_fcntl(void)
{
	return set_lock(lock_fd[1], F_OFD_SETLKW, F_WRLCK);
}
static void range_unlock(void) { set_lock(lock_fd[0], F_OFD_SETLK, F_UNLCK); }

static long do_sem_wait(void) { return sem_wait(&semaphore); }
static long do_sem_timedwait(void)
{
	struct timespec at;

	clock_gettime(CLOCK_REALTIME, &at);
	at.tv_sec += 3600;
	return sem_timedwait(&semaphore, &at);
}
static void post(void) { sem_post(&semaphore); }

static long do_futex(void)
{
	return syscall(SYS_futex, &futex_word, FUTEX_WAIT, 0, NULL);
}
static void wake(void)
{
	while (!atomic_load(&returned))
		syscall(SYS_futex, &futex_word, FUTEX_WAKE, 1);
}

static long do_cond(void)
{
	pthread_mutex_lock(&mutex);
	while (!flag)
		pthread_cond_wait(&cond, &mutex);
	pthread_mutex_unlock(&mutex);
	return 0;
}
static void lower_flag(void) { flag = 0; }
static void announce(void)
{
	pthread_mutex_lock(&mutex);
	flag = 1;
	pthread_cond_signal(&cond);
	pthread_mutex_unlock(&mutex);
}

static long do_poll(void)
{
	struct pollfd one = { .fd = ends[0], .events = POLLIN };

	return poll(&one, 1, -1);
}
static long do_ppoll(void)
{
	struct pollfd one = { .fd = ends[0], .events = POLLIN };

	return ppoll(&one, 1, NULL, NULL);
}
static long do_select(void)
{
	fd_set set;

	FD_ZERO(&set);
	FD_SET(ends[0], &set);
	return select(ends[0] + 1, &set, NULL, NULL, NULL);
}
static long do_pselect(void)
{
	fd_set set;

	FD_ZERO(&set);
	FD_SET(ends[0], &set);
	return pselect(ends[0] + 1, &set, NULL, NULL, NULL, NULL);
}
static long do_epoll(void)
{
	struct epoll_event event;

	return epoll_wait(poller, &event, 1, -1);
}
static long do_nanosleep(void) { return nanosleep(&hour, NULL); }
static long do_clock_nanosleep(void)
{
	errno = clock_nanosleep(CLOCK_MONOTONIC, 0, &hour, NULL);
	return errno ? -1 : 0;
}
static long do_usleep(void) { return usleep(3600u * 1000000u); }
static long do_sleep(void)
{
	if (!sleep(3600))
		return 0;
	errno = EINTR;
	return -1;
}
static long do_pause(void) { return pause(); }
static long do_sigsuspend(void) { return sigsuspend(&none); }
static long do_sigwaitinfo(void) { return sigwaitinfo(&winch, NULL); }
static long do_sigtimedwait(void) { return sigtimedwait(&winch, NULL, &hour); }
static void make_queue(void) { queue_id = msgget(IPC_PRIVATE, 0600); }
static long do_msgrcv(void)
{
	long rc = msgrcv(queue_id, buf, 64, 0, 0);
	int saved = errno;

	msgctl(queue_id, IPC_RMID, NULL);
	errno = saved;
	return rc;
}
static void make_set(void) { set_id = semget(IPC_PRIVATE, 1, 0600); }
static long do_semop(void)
{
	struct sembuf down = { .sem_op = -1 };
	long rc = semop(set_id, &down, 1);
	int saved = errno;

	semctl(set_id, 0, IPC_RMID);
	errno = saved;
	return rc;
}
static void nothing(void) { }

static const struct call {
	const char *name;
	void (*prepare)(void);
	long (*go)(void);
	void (*end)(void);
} calls[] = {
	{ "read", nothing, do_read, put },
	{ "readv", nothing, do_readv, put },
	{ "write", fill, do_write, take },
	{ "recv", empty, do_recv, deliver },
	{ "accept", listening, do_accept, client },
	{ "open", fifo, do_open, open_other },
	{ "waitpid", bear, do_waitpid, end_child },
	{ "waitid", bear, do_waitid, end_child },
	{ "flock", locked, do_flock, unlock },
	{ "fcntl", range_locked, do_fcntl, range_unlock },
	{ "sem_wait", nothing, do_sem_wait, post },
	{ "sem_timedwait", nothing, do_sem_timedwait, post },
	{ "futex", nothing, do_futex, wake },
	{ "pthread_cond_wait", lower_flag, do_cond, announce },
	{ "recv-with-timeout", limit, do_recv, deliver },
	{ "poll", nothing, do_poll, put },
	{ "ppoll", nothing, do_ppoll, put },
	{ "select", nothing, do_select, put },
	{ "pselect", nothing, do_pselect, put },
	{ "epoll_wait", nothing, do_epoll, put },
	{ "nanosleep", nothing, do_nanosleep, nothing },
	{ "clock_nanosleep", nothing, do_clock_nanosleep, nothing },
	{ "usleep", nothing, do_usleep, nothing },
	{ "sleep", nothing, do_sleep, nothing },
	{ "pause", nothing, do_pause, nothing },
	{ "sigsuspend", nothing, do_sigsuspend, nothing },
	{ "sigwaitinfo", nothing, do_sigwaitinfo, nothing },
	{ "sigtimedwait", nothing, do_sigtimedwait, nothing },
	{ "msgrcv", make_queue, do_msgrcv, nothing },
	{ "semop", make_set, do_semop, nothing },
};

/* ---- the other side ----------------------------------------------------- */

static int line_of(const char *file, const char *key, char *out, size_t size)
{
	char name[64];
	FILE *f;
	int found = 0;

	snprintf(name, sizeof(name), "/proc/self/task/%d/%s", (int)waiter,
		 file);
	f = fopen(name, "re");
	while (f && !found && fgets(out, (int)size, f))
		found = !strncmp(out, key, strlen(key));
	if (f)
		fclose(f);
	return found;
}

static int waits(void)
{
	char line[256];

	return line_of("status", "State:", line, sizeof(line)) &&
	       strchr(line, 'S') && strstr(line, "(sleeping)");
}

static int pending(void)
{
	char line[256];

	return line_of("status", "SigPnd:", line, sizeof(line)) &&
	       strtoull(line + 7, NULL, 16);
}

static void until_it_waits(void)
{
	while (!atomic_load(&returned) && !waits())
		usleep(100);
}

static void *disturb(void *arg)
{
	static const int numbers[] = { SIGUSR1, SIGUSR2 };
	const struct call *c = arg;
	int i;

	while (!atomic_load(&calling))
		;
	for (i = 0; i < 6 && !atomic_load(&returned); i++) {
		until_it_waits();
		if (atomic_load(&returned))
			break;
		syscall(SYS_tgkill, getpid(), waiter, numbers[i % 2]);
		while (!atomic_load(&returned) && pending())
			usleep(100);
	}
	until_it_waits();
	if (!atomic_load(&returned))
		c->end();
	return NULL;
}

static void try_call(const struct call *c)
{
	pthread_t thread;
	long rc;
	int code;

	c->prepare();
	atomic_store(&calling, 0);
	atomic_store(&returned, 0);
	if (pthread_create(&thread, NULL, disturb, (void *)c))
		exit(3);
	atomic_store(&calling, 1);
	rc = c->go();
	code = errno;
	atomic_store(&returned, 1);
	pthread_join(thread, NULL);
	printf("%s %s\n", c->name, rc >= 0 ? "goes on" :
	       code == EINTR ? "EINTR" : strerror(code));
}

int main(void)
{
	struct epoll_event event = { .events = EPOLLIN };
	CUdeviceptr block;
	size_t i;

	setvbuf(stdout, NULL, _IOLBF, 0);
	waiter = (pid_t)syscall(SYS_gettid);
	sigemptyset(&none);
	sigemptyset(&winch);
	sigaddset(&winch, SIGWINCH);
	sigprocmask(SIG_BLOCK, &winch, NULL);
	sem_init(&semaphore, 0, 0);
	drv_open();
	CK(cuMemAlloc(&block, 1 << 20));
	if (pipe(ends) || socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		return 3;
	poller = epoll_create1(EPOLL_CLOEXEC);
	epoll_ctl(poller, EPOLL_CTL_ADD, ends[0], &event);
	for (i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		try_call(&calls[i]);
	raise(SIGUSR2);
	CK(cuMemFree(block));
	return 0;
}
