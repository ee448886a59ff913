/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "gate_guest.h"
#include "memory_fixture.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS 1000

/* A kernel without MADV_WIPEONFORK, where a test wants one. */
static bool old_kernel;

int madvise(void *address, size_t size, int advice)
{
	if (old_kernel && advice == MADV_WIPEONFORK) {
		errno = EINVAL;
		return -1;
	}
	return (int)syscall(SYS_madvise, address, size, advice);
}

/* What threads need for records of their own; a test may let it lack. */
static atomic_bool no_maps;

void *__real_mmap(void *address, size_t size, int protection, int flags,
		  int fd, off_t offset);
void *__wrap_mmap(void *address, size_t size, int protection, int flags,
		  int fd, off_t offset);
void *__wrap_mmap(void *address, size_t size, int protection, int flags,
		  int fd, off_t offset)
{
	if (!atomic_load(&no_maps))
		return __real_mmap(address, size, protection, flags, fd,
				   offset);
	errno = ENOMEM;
	return MAP_FAILED;
}

static void *die_inside(void *record)
{
	int i;

	for (i = 0; i < 3; i++)
		ck_assert(vs_gate_enter("cuNeverReturns"));
	*(struct vs_gate_thread **)record = vs_gate_self;
	return NULL;
}

static void *pass_by(void *record)
{
	ck_assert(vs_gate_enter("cuOne"));
	ck_assert_int_eq(vs_gate_self->depth, 1);
	*(struct vs_gate_thread **)record = vs_gate_self;
	vs_gate_leave();
	return NULL;
}

static struct vs_gate_thread *run_thread(void *(*fn)(void *record))
{
	struct vs_gate_thread *record = NULL;
	pthread_t thread;

	ck_assert_int_eq(pthread_create(&thread, NULL, fn, &record), 0);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert_ptr_nonnull(record);
	return record;
}

START_TEST(a_thread_that_dies_inside_is_forgotten_and_its_record_used_again)
{
	struct vs_gate_thread *first;
	int i;

	guest_start_gate();
	first = run_thread(die_inside);
	ck_assert_int_eq(first->depth, 0);
	ck_assert_int_eq(guest_shut(VS_HOLD_OPERATION), VS_OK);
	vs_gate_open(VS_HOLD_OPERATION);
	for (i = 0; i < 200; i++)
		ck_assert_ptr_eq(run_thread(i % 2 ? die_inside : pass_by),
				 first);
	ck_assert_int_eq(guest_shut(VS_HOLD_OPERATION), VS_OK);
}
END_TEST

static void enter_late(void *record)
{
	(void)record;
	ck_assert(vs_gate_enter("cuFromDestructor"));
	ck_assert_int_eq(vs_gate_self->depth, 1);
	ck_assert_int_eq(vs_gate_self->tid, (pid_t)syscall(SYS_gettid));
	vs_gate_leave();
}

static void *leave_work_to_a_destructor(void *key)
{
	ck_assert(vs_gate_enter("cuOne"));
	vs_gate_leave();
	ck_assert_int_eq(pthread_setspecific(*(pthread_key_t *)key, key), 0);
	return NULL;
}

/* One key is made before the gate's own, one after it. */
START_TEST(a_thread_may_enter_while_its_destructors_run)
{
	pthread_t threads[2];
	pthread_key_t keys[2];
	int i;

	ck_assert_int_eq(pthread_key_create(&keys[0], enter_late), 0);
	guest_start_gate();
	ck_assert_int_eq(pthread_key_create(&keys[1], enter_late), 0);
	for (i = 0; i < 2; i++) {
		pthread_create(&threads[i], NULL, leave_work_to_a_destructor,
			       &keys[i]);
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
	}
	ck_assert_int_eq(guest_shut(VS_HOLD_OPERATION), VS_OK);
}
END_TEST

/* What a child finds; it may not wait for anything. */
static int in_child(void)
{
	alarm(10);
	if (!vs_gate_enter("cuOne"))
		return 2;
	vs_gate_leave();
	return vs_gate_mine() ? 3 : 0;
}

static void assert_child_passes(bool raw)
{
	int status;
	pid_t child;

	child = raw ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : fork();
	if (!child)
		syscall(SYS_exit_group, in_child());
	ck_assert_int_gt(child, 0);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
}

/* _i: 1 raw clone, 2 an old kernel. */
START_TEST(a_child_passes_the_shut_gate_of_its_parent)
{
	struct guest g;

	old_kernel = _i & 2;
	guest_start_gate();
	ck_assert(vs_gate_enter("cuBefore"));
	assert_child_passes(_i & 1);
	vs_gate_leave();
	ck_assert_int_eq(guest_shut(VS_HOLD_OPERATION), VS_OK);
	assert_child_passes(_i & 1);
	guest_send_in(&g, "cuOne");
	guest_wait_held(1);
	ck_assert(vs_gate_mine());
	ck_assert(!atomic_load(&g.inside));
	vs_gate_open(VS_HOLD_OPERATION);
	guest_send_out(&g);
}
END_TEST

START_TEST(threads_without_a_record_are_held_and_counted)
{
	struct guest g, other;
	struct vs_why why;

	guest_start_gate();
	atomic_store(&no_maps, true);
	guest_send_in(&g, "cuOne");
	guest_wait_inside(&g);
	ck_assert_int_eq(g.depth, 0);	/* of its own record */
	guest_send_in(&other, "cuTwo");
	guest_wait_inside(&other);
	guest_send_out(&g);
	ck_assert_int_eq(vs_gate_shut(VS_HOLD_OPERATION, vs_lock_now() + 0.05,
				      NULL, &why), VS_BUSY);
	ck_assert_ptr_nonnull(strstr(why.text, "cuTwo"));
	guest_send_out(&other);
	ck_assert_int_eq(guest_shut(VS_HOLD_OPERATION), VS_OK);
	guest_send_in(&g, "cuOne");
	guest_send_in(&other, "cuTwo");
	guest_wait_held(2);
	ck_assert(!atomic_load(&g.inside) && !atomic_load(&other.inside));
	vs_gate_open(VS_HOLD_OPERATION);
	guest_send_out(&g);
	guest_send_out(&other);
	atomic_store(&no_maps, false);
	ck_assert_int_eq(guest_shut(VS_HOLD_OPERATION), VS_OK);
}
END_TEST

/* What it lacked is there again while it is inside. */
START_TEST(a_thread_without_a_record_leaves_as_often_as_it_has_entered)
{
	struct vs_why why;

	guest_start_gate();
	atomic_store(&no_maps, true);
	ck_assert(vs_gate_enter("cuOuter"));
	ck_assert_ptr_null(vs_gate_self);
	atomic_store(&no_maps, false);
	ck_assert(vs_gate_enter("cuInner"));
	vs_gate_leave();
	ck_assert_int_eq(vs_gate_shut(VS_HOLD_OPERATION, vs_lock_now(), NULL,
				      &why), VS_BUSY);
	ck_assert_ptr_nonnull(strstr(why.text, "cuOuter"));
	vs_gate_leave();
	ck_assert_int_eq(guest_shut(VS_HOLD_OPERATION), VS_OK);
	vs_gate_open(VS_HOLD_OPERATION);
	ck_assert(vs_gate_enter("cuTwo"));
	ck_assert_int_eq(vs_gate_self->depth, 1);
	vs_gate_leave();
}
END_TEST

static void vfork_and_call(void)
{
	int status = 0;
	pid_t child = vfork();

	if (!child) {
		alarm(10);
		if (!vs_gate_enter("cuOne"))
			_exit(1);
		vs_gate_leave();
		_exit(0);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
}

/* Nobody may call CUDA there, but some do. */
START_TEST(a_child_with_our_memory_changes_nothing)
{
	struct guest g;

	guest_start_gate();
	ck_assert(vs_gate_enter("cuBefore"));
	vs_gate_leave();
	vfork_and_call();
	ck_assert_int_eq(guest_shut(VS_HOLD_OPERATION), VS_OK);
	vfork_and_call();
	ck_assert(vs_gate_mine());
	ck_assert_int_eq(vs_gate_self->depth, 0);
	guest_send_in(&g, "cuOne");
	guest_wait_held(1);
	ck_assert(!atomic_load(&g.inside));
	vs_gate_open(VS_HOLD_OPERATION);
	guest_send_out(&g);
}
END_TEST

/* A sandbox that the program has set up since. */
static void refuse_membarrier(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {
		.len = sizeof(code) / sizeof(code[0]), .filter = code,
	};

	ck_assert_int_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	ck_assert_int_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program),
			 0);
}

START_TEST(a_gate_that_cannot_be_shut_for_certain_stays_open)
{
	struct vs_why why;

	guest_start_gate();
	refuse_membarrier();
	ck_assert_int_eq(vs_gate_shut(VS_HOLD_OPERATION,
				      vs_lock_now() + GUEST_LONG, NULL, &why),
			 VS_REFUSED);
	ck_assert_ptr_nonnull(strstr(why.text, "membarrier"));
	ck_assert_uint_eq(vs_gate_holds(), 0);
	ck_assert(vs_gate_enter("cuOne"));
	vs_gate_leave();
}
END_TEST

static atomic_bool is_shut, over;
static _Atomic unsigned long wrong;

/* Relaxed accesses, which cannot make up for what the gate itself lacks. */
static void *hammer(void *passes)
{
	while (!atomic_load_explicit(&over, memory_order_relaxed)) {
		ck_assert(vs_gate_enter("cuOne"));
		if (atomic_load_explicit(&is_shut, memory_order_relaxed))
			wrong++;
		vs_gate_leave();
		atomic_store_explicit((atomic_bool *)passes, true,
				      memory_order_relaxed);
	}
	return NULL;
}

/* _i: 1 on an old kernel. */
START_TEST(nobody_is_inside_while_it_is_shut)
{
	atomic_bool passed[2] = { false, false };
	pthread_t threads[2];
	int i;

	old_kernel = _i;
	guest_start_gate();
	for (i = 0; i < 2; i++) {
		pthread_create(&threads[i], NULL, hammer, &passed[i]);
		while (!atomic_load(&passed[i]))
			sched_yield();
	}
	for (i = 0; i < ROUNDS; i++) {
		ck_assert_int_eq(guest_shut(VS_HOLD_OPERATION), VS_OK);
		atomic_store(&is_shut, true);
		if (i % 8 == 0)
			guest_wait_held(2);
		atomic_store(&is_shut, false);
		vs_gate_open(VS_HOLD_OPERATION);
	}
	atomic_store(&over, true);
	for (i = 0; i < 2; i++)
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
	ck_assert_uint_eq(wrong, 0);
	ck_assert_uint_ge(vs_gate_held_total(), 2);
}
END_TEST

static void fill(TCase *tc)
{
	tcase_add_test(tc,
	a_thread_that_dies_inside_is_forgotten_and_its_record_used_again);
	tcase_add_test(tc, a_thread_may_enter_while_its_destructors_run);
	tcase_add_loop_test(tc, a_child_passes_the_shut_gate_of_its_parent, 0,
			    4);
	tcase_add_test(tc, threads_without_a_record_are_held_and_counted);
	tcase_add_test(tc,
		a_thread_without_a_record_leaves_as_often_as_it_has_entered);
	tcase_add_test(tc, a_child_with_our_memory_changes_nothing);
	tcase_add_test(tc, a_gate_that_cannot_be_shut_for_certain_stays_open);
	tcase_add_loop_test(tc, nobody_is_inside_while_it_is_shut, 0, 2);
}

int main(void)
{
	return fixture_main("gate_threads", fill);
}
