/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "gate_guest.h"
#include "memory_fixture.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int woken;

static void wake_up(void)
{
	struct vs_why why;

	woken++;
	errno = EXDEV;
	ck_assert_int_eq(vs_gate_start(&why), VS_OK);
}

START_TEST(the_first_call_of_a_cold_process_starts_the_library)
{
	vs_gate_on_cold = wake_up;
	ck_assert(vs_gate_cold());
	ck_assert(!vs_gate_mine());
	errno = EBADF;
	ck_assert(vs_gate_enter("cuOne"));
	ck_assert_int_eq(errno, EBADF);
	ck_assert_int_eq(woken, 1);
	ck_assert_int_eq(vs_gate_self->depth, 1);
	vs_gate_leave();
	ck_assert(vs_gate_enter("cuTwo"));
	vs_gate_leave();
	ck_assert_int_eq(woken, 1);
}
END_TEST

START_TEST(a_process_that_passes_through_is_never_asked_again)
{
	vs_gate_on_cold = wake_up;
	vs_gate_pass_through();
	ck_assert(!vs_gate_cold());
	ck_assert(!vs_gate_mine());
	ck_assert(vs_gate_enter("cuOne"));
	vs_gate_leave();
	ck_assert_int_eq(woken, 0);
}
END_TEST

START_TEST(a_child_is_not_the_process_even_with_its_memory)
{
	static volatile bool ours;	/* not where a sanitizer forks */
	pid_t child;
	int status = 0;

	guest_start_gate();
	ck_assert(vs_gate_own_process());
	child = vfork();
	if (!child) {
		ours = true;
		_exit(vs_gate_own_process() + 2 * !vs_gate_mine());
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	if (ours)
		ck_assert_int_eq(status, 0);
	ck_assert(vs_gate_own_process());
}
END_TEST

START_TEST(an_open_gate_is_passed_without_waiting)
{
	guest_start_gate();
	ck_assert(vs_gate_mine());
	ck_assert(!vs_gate_cold());
	ck_assert(vs_gate_enter("cuOne"));
	ck_assert_int_eq(vs_gate_self->depth, 1);
	vs_gate_leave();
	ck_assert_int_eq(vs_gate_self->depth, 0);
	ck_assert_uint_eq(vs_gate_holds(), 0);
	ck_assert_uint_eq(vs_gate_held_total(), 0);
}
END_TEST

START_TEST(a_shut_gate_holds_a_call_until_it_opens)
{
	struct guest g;

	guest_start_gate();
	ck_assert_int_eq(guest_shut(VS_HOLD_OPERATION), VS_OK);
	guest_send_in(&g, "cuOne");
	guest_wait_held(1);
	ck_assert(!atomic_load(&g.inside));
	vs_gate_open(VS_HOLD_OPERATION);
	guest_wait_inside(&g);
	ck_assert_int_eq(g.depth, 1);
	ck_assert_uint_eq(vs_gate_held_now(), 0);
	ck_assert_uint_eq(vs_gate_held_total(), 1);
	guest_send_out(&g);
}
END_TEST

START_TEST(a_step_lets_one_held_call_go_and_the_gate_stays_shut)
{
	struct guest g[2];
	int first;

	guest_start_gate();
	ck_assert_int_eq(guest_shut(VS_HOLD_OPERATION), VS_OK);
	guest_send_in(&g[0], "cuOne");
	guest_send_in(&g[1], "cuTwo");
	guest_wait_held(2);
	vs_gate_step(GUEST_LONG);
	ck_assert_uint_eq(vs_gate_held_now(), 1);
	ck_assert_uint_eq(vs_gate_holds(), VS_HOLD_OPERATION);
	while (!atomic_load(&g[0].inside) && !atomic_load(&g[1].inside))
		sched_yield();
	first = !atomic_load(&g[0].inside);
	ck_assert_int_eq(g[first].depth, 1);
	guest_send_out(&g[first]);
	ck_assert_int_eq(guest_shut(VS_HOLD_OPERATION), VS_OK);
	ck_assert(!atomic_load(&g[!first].inside));
	vs_gate_open(VS_HOLD_OPERATION);
	guest_wait_inside(&g[!first]);
	guest_send_out(&g[!first]);
	ck_assert_uint_eq(vs_gate_held_total(), 2);
}
END_TEST

START_TEST(a_step_is_for_calls_that_come_in_time_and_find_memory)
{
	struct guest g;

	guest_start_gate();
	ck_assert_int_eq(guest_shut(VS_HOLD_OPERATION), VS_OK);
	vs_gate_step(0.001);
	guest_send_in(&g, "cuOne");
	guest_wait_held(1);
	ck_assert(!atomic_load(&g.inside));
	vs_gate_keep(VS_HOLD_ASLEEP);
	vs_gate_step(GUEST_LONG);
	ck_assert_uint_eq(vs_gate_held_now(), 1);
	vs_gate_open(VS_HOLD_OPERATION);
	vs_gate_step(GUEST_LONG);
	ck_assert_uint_eq(vs_gate_held_now(), 1);
	ck_assert(!atomic_load(&g.inside));
	vs_gate_open(VS_HOLD_ASLEEP);
	guest_wait_inside(&g);
	guest_send_out(&g);
}
END_TEST

START_TEST(who_is_still_inside_at_the_deadline_is_named_and_nothing_changes)
{
	struct guest g, other;
	struct vs_why why;
	char tid[32];

	guest_start_gate();
	guest_send_in(&g, "cuLaunchKernel");
	guest_wait_inside(&g);
	ck_assert_int_eq(vs_gate_shut(VS_HOLD_OPERATION,
				      vs_lock_now() + 0.05, NULL, &why),
			 VS_BUSY);
	ck_assert_int_eq(why.status, VS_BUSY);
	ck_assert_ptr_nonnull(strstr(why.text, "cuLaunchKernel"));
	snprintf(tid, sizeof(tid), "thread %d ", (int)g.tid);
	ck_assert_ptr_nonnull(strstr(why.text, tid));
	ck_assert_uint_eq(vs_gate_holds(), 0);
	guest_send_in(&other, "cuOne");
	guest_wait_inside(&other);
	guest_send_out(&other);
	ck_assert_uint_eq(vs_gate_held_total(), 0);
	guest_send_out(&g);
	ck_assert_int_eq(guest_shut(VS_HOLD_OPERATION), VS_OK);
}
END_TEST

/* Shuts with all the time it may take. */
struct porter {
	pthread_t thread;
	enum vs_status status;
	atomic_bool done;
};

static void *shut_slowly(void *arg)
{
	struct porter *p = arg;

	p->status = guest_shut(VS_HOLD_OPERATION);
	atomic_store(&p->done, true);
	return NULL;
}

static void begin_shut(struct porter *p)
{
	memset(p, 0, sizeof(*p));
	ck_assert_int_eq(pthread_create(&p->thread, NULL, shut_slowly, p), 0);
	while (!(vs_gate_holds() & VS_HOLD_OPERATION))
		sched_yield();
}

static void end_shut(struct porter *p)
{
	ck_assert_int_eq(pthread_join(p->thread, NULL), 0);
	ck_assert_int_eq(p->status, VS_OK);
}

START_TEST(shutting_waits_for_who_is_inside)
{
	struct porter porter;
	struct guest g, late;

	guest_start_gate();
	guest_send_in(&g, "cuOne");
	guest_wait_inside(&g);
	begin_shut(&porter);
	guest_send_in(&late, "cuTwo");
	guest_wait_held(1);
	ck_assert(!atomic_load(&porter.done));
	guest_send_out(&g);
	end_shut(&porter);
	ck_assert(!atomic_load(&late.inside));
	vs_gate_open(VS_HOLD_OPERATION);
	guest_send_out(&late);
}
END_TEST

START_TEST(a_call_inside_a_call_passes_a_gate_that_is_being_shut)
{
	struct porter porter;

	guest_start_gate();
	ck_assert(vs_gate_enter("cuOuter"));
	begin_shut(&porter);
	ck_assert(vs_gate_enter("cuInner"));
	ck_assert_int_eq(vs_gate_self->depth, 2);
	ck_assert_str_eq(vs_gate_self->call, "cuOuter");
	vs_gate_leave();
	ck_assert_int_eq(vs_gate_self->depth, 1);
	ck_assert(!atomic_load(&porter.done));
	vs_gate_leave();
	end_shut(&porter);
	ck_assert_uint_eq(vs_gate_held_total(), 0);
}
END_TEST

START_TEST(a_call_inside_a_call_leaves_the_outer_ones_name)
{
	struct vs_why why;

	guest_start_gate();
	ck_assert(vs_gate_enter("cuOuter"));
	ck_assert(vs_gate_enter("cuInner"));
	ck_assert_int_eq(vs_gate_shut(VS_HOLD_OPERATION, vs_lock_now(), NULL,
				      &why),
			 VS_BUSY);
	ck_assert_ptr_nonnull(strstr(why.text, "cuOuter"));
	vs_gate_leave();
	ck_assert_int_eq(vs_gate_shut(VS_HOLD_OPERATION, vs_lock_now(), NULL,
				      &why),
			 VS_BUSY);
	vs_gate_leave();
	ck_assert_int_eq(guest_shut(VS_HOLD_OPERATION), VS_OK);
}
END_TEST

START_TEST(the_gate_opens_with_the_last_hold_only)
{
	struct guest g;

	guest_start_gate();
	ck_assert(vs_gate_enter("cuBefore"));
	vs_gate_leave();
	ck_assert_int_eq(guest_shut(VS_HOLD_OPERATION), VS_OK);
	vs_gate_keep(VS_HOLD_ASLEEP);
	vs_gate_keep(VS_HOLD_OPERATOR);
	ck_assert_uint_eq(vs_gate_holds(), 7);
	guest_send_in(&g, "cuOne");
	guest_wait_held(1);
	vs_gate_open(VS_HOLD_OPERATION);
	vs_gate_open(VS_HOLD_OPERATOR);
	ck_assert_uint_eq(vs_gate_holds(), VS_HOLD_ASLEEP);
	ck_assert_uint_eq(vs_gate_held_now(), 1);
	ck_assert(!vs_gate_try("cuTwo"));
	ck_assert(!atomic_load(&g.inside));
	vs_gate_open(VS_HOLD_ASLEEP);
	guest_wait_inside(&g);
	guest_send_out(&g);
}
END_TEST

START_TEST(a_second_hold_comes_off_alone_when_shutting_succeeds_twice)
{
	guest_start_gate();
	ck_assert_int_eq(guest_shut(VS_HOLD_ASLEEP), VS_OK);
	ck_assert_int_eq(guest_shut(VS_HOLD_OPERATION), VS_OK);
	vs_gate_open(VS_HOLD_OPERATION);
	ck_assert_uint_eq(vs_gate_holds(), VS_HOLD_ASLEEP);
	vs_gate_open(VS_HOLD_OPERATION);
	ck_assert_uint_eq(vs_gate_holds(), VS_HOLD_ASLEEP);
}
END_TEST

START_TEST(exit_lets_go_of_who_is_held_and_of_all_later_ones)
{
	struct vs_why why;
	struct guest g;

	guest_start_gate();
	ck_assert_int_eq(guest_shut(VS_HOLD_ASLEEP), VS_OK);
	guest_send_in(&g, "cuOne");
	guest_wait_held(1);
	vs_gate_exit(false);
	guest_wait_inside(&g);
	guest_send_out(&g);
	ck_assert(!g.refused);
	ck_assert(vs_gate_enter("cuTwo"));
	vs_gate_leave();
	ck_assert_int_eq(vs_gate_shut(VS_HOLD_OPERATION,
				      vs_lock_now() + GUEST_LONG, NULL, &why),
			 VS_REFUSED);
	ck_assert(vs_gate_try("cuThree"));
}
END_TEST

/* Between its begin and its end an exit waits for those that hold. */
START_TEST(no_hold_is_added_once_the_process_exits)
{
	struct vs_why why;

	guest_start_gate();
	vs_gate_close();
	ck_assert(vs_gate_closing());
	ck_assert_int_eq(vs_gate_shut(VS_HOLD_OPERATION,
				      vs_lock_now() + GUEST_LONG, NULL, &why),
			 VS_REFUSED);
	ck_assert_str_eq(why.text, "the process exits");
	ck_assert_uint_eq(vs_gate_holds(), 0);
	ck_assert(vs_gate_enter("cuOne"));
	vs_gate_leave();
}
END_TEST

START_TEST(exit_refuses_who_is_held_and_all_later_ones)
{
	struct guest g;

	guest_start_gate();
	ck_assert_int_eq(guest_shut(VS_HOLD_ASLEEP), VS_OK);
	guest_send_in(&g, "cuOne");
	guest_wait_held(1);
	vs_gate_exit(true);
	ck_assert_int_eq(pthread_join(g.thread, NULL), 0);
	ck_assert(g.refused);
	ck_assert_int_eq(g.depth, 0);
	ck_assert(!vs_gate_enter("cuTwo"));
	ck_assert_int_eq(vs_gate_self->depth, 0);
}
END_TEST

/* A transition that ends late takes its hold off a process that has given
 * up: what is refused then stays refused. */
START_TEST(a_hold_that_comes_off_late_lets_nobody_in_again)
{
	struct guest g;

	guest_start_gate();
	ck_assert_int_eq(guest_shut(VS_HOLD_ASLEEP), VS_OK);
	vs_gate_exit(true);
	vs_gate_open(VS_HOLD_ASLEEP);
	ck_assert_uint_eq(vs_gate_holds(), 0);
	ck_assert(!vs_gate_enter("cuTwo"));
	guest_send_in(&g, "cuOne");
	ck_assert_int_eq(pthread_join(g.thread, NULL), 0);
	ck_assert(g.refused);
}
END_TEST

START_TEST(shutting_is_given_up_when_it_is_cancelled)
{
	atomic_bool cancel = true;
	struct vs_why why;
	struct guest g;

	guest_start_gate();
	guest_send_in(&g, "cuLaunchKernel");
	guest_wait_inside(&g);
	ck_assert_int_eq(vs_gate_shut(VS_HOLD_OPERATION,
				      vs_lock_now() + GUEST_LONG, &cancel,
				      &why), VS_CANCELLED);
	ck_assert_uint_eq(vs_gate_holds(), 0);
	guest_send_out(&g);
	ck_assert(vs_gate_enter("cuTwo"));
	vs_gate_leave();
}
END_TEST

START_TEST(who_is_inside_is_named_while_the_gate_is_open)
{
	struct guest g;
	char text[64], expected[64];

	guest_start_gate();
	ck_assert(!vs_gate_inside(text, sizeof(text)));
	guest_send_in(&g, "cuOne");
	guest_wait_inside(&g);
	ck_assert(vs_gate_inside(text, sizeof(text)));
	snprintf(expected, sizeof(expected), "thread %d is inside cuOne",
		 (int)g.tid);
	ck_assert_str_eq(text, expected);
	ck_assert_uint_eq(vs_gate_holds(), 0);
	guest_send_out(&g);
	ck_assert(!vs_gate_inside(text, sizeof(text)));
}
END_TEST

static void fill(TCase *tc)
{
	tcase_add_test(tc, the_first_call_of_a_cold_process_starts_the_library);
	tcase_add_test(tc, a_process_that_passes_through_is_never_asked_again);
	tcase_add_test(tc, a_child_is_not_the_process_even_with_its_memory);
	tcase_add_test(tc, an_open_gate_is_passed_without_waiting);
	tcase_add_test(tc, a_shut_gate_holds_a_call_until_it_opens);
	tcase_add_test(tc,
	who_is_still_inside_at_the_deadline_is_named_and_nothing_changes);
	tcase_add_test(tc, shutting_waits_for_who_is_inside);
	tcase_add_test(tc,
		a_call_inside_a_call_passes_a_gate_that_is_being_shut);
	tcase_add_test(tc, a_call_inside_a_call_leaves_the_outer_ones_name);
	tcase_add_test(tc, the_gate_opens_with_the_last_hold_only);
	tcase_add_test(tc,
		a_second_hold_comes_off_alone_when_shutting_succeeds_twice);
	tcase_add_test(tc, exit_lets_go_of_who_is_held_and_of_all_later_ones);
	tcase_add_test(tc,
		a_step_lets_one_held_call_go_and_the_gate_stays_shut);
	tcase_add_test(tc,
		a_step_is_for_calls_that_come_in_time_and_find_memory);
	tcase_add_test(tc, no_hold_is_added_once_the_process_exits);
	tcase_add_test(tc, exit_refuses_who_is_held_and_all_later_ones);
	tcase_add_test(tc, a_hold_that_comes_off_late_lets_nobody_in_again);
	tcase_add_test(tc, shutting_is_given_up_when_it_is_cancelled);
	tcase_add_test(tc, who_is_inside_is_named_while_the_gate_is_open);
}

int main(void)
{
	return fixture_main("gate", fill);
}
