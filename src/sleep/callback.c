/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "sleep/callback.h"
#include "sleep/operation.h"
#include "base/lock.h"

#include <stdbool.h>

#define PAIRS 16

struct pair {
	vs_callback_fn *before, *after;
	void *arg;
	bool told;		/* before was called, and after not yet */
};

static struct vs_lock callback_lock = VS_LOCK(VS_RANK_CALLBACK);
static pthread_cond_t idle = PTHREAD_COND_INITIALIZER;
static struct pair pairs[PAIRS];	/* under callback_lock, as all below */
static int count;
static bool running;			/* a function is being called */
static bool asleep;			/* between a before and an after */

static bool is(const struct pair *pair, vs_callback_fn *before,
	       vs_callback_fn *after, void *arg)
{
	return pair->before == before && pair->after == after &&
	       pair->arg == arg;
}

enum vs_status vs_callback_add(vs_callback_fn *before, vs_callback_fn *after,
			       void *arg, struct vs_why *why)
{
	enum vs_status st = VS_OK;

	vs_lock_take(&callback_lock);
	if (count < PAIRS)
		pairs[count++] = (struct pair){ before, after, arg, false };
	else
		st = vs_why_set(why, VS_REFUSED, "no room for a callback: %d "
				"are in use", PAIRS);
	vs_lock_drop(&callback_lock);
	return st;
}

/* A callback may take itself or another one off. */
enum vs_status vs_callback_remove(vs_callback_fn *before,
				  vs_callback_fn *after, void *arg,
				  struct vs_why *why)
{
	enum vs_status st = VS_OK;
	int i;

	vs_lock_take(&callback_lock);
	while (running && !vs_operation_is_self())
		vs_lock_wait(&callback_lock, &idle, 0);
	for (i = 0; i < count && !is(&pairs[i], before, after, arg); i++)
		;
	if (i == count)
		st = vs_why_set(why, VS_REFUSED, "no such callback was added");
	else
		count--;
	for (; i < count; i++)
		pairs[i] = pairs[i + 1];
	vs_lock_drop(&callback_lock);
	return st;
}

static void call(vs_callback_fn *function, void *arg)
{
	if (!function)
		return;
	running = true;
	vs_lock_drop(&callback_lock);
	function(arg);
	vs_lock_take(&callback_lock);
	running = false;
	pthread_cond_broadcast(&idle);
}

/* The first that is still to be told: the table may change while one runs. */
static struct pair *next_before(void)
{
	int i;

	for (i = 0; i < count; i++)
		if (!pairs[i].told)
			return &pairs[i];
	return NULL;
}

static struct pair *next_after(void)
{
	int i;

	for (i = count; i > 0; i--)
		if (pairs[i - 1].told)
			return &pairs[i - 1];
	return NULL;
}

void vs_callback_before(void)
{
	struct pair *pair;

	vs_lock_take(&callback_lock);
	while (!asleep && (pair = next_before())) {
		pair->told = true;
		call(pair->before, pair->arg);
	}
	asleep = true;
	vs_lock_drop(&callback_lock);
}

void vs_callback_after(void)
{
	struct pair *pair;

	vs_lock_take(&callback_lock);
	while (asleep && (pair = next_after())) {
		pair->told = false;
		call(pair->after, pair->arg);
	}
	asleep = false;
	vs_lock_drop(&callback_lock);
}
