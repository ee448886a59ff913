/* SPDX-License-Identifier: Apache-2.0 */
/*
 * orders - every order of four sleeps and wakes of different kinds, against a
 * model: what each answers, what then sleeps, is backed up and is on the
 * device, and which bytes come back.  Shorter orders are those that begin by
 * waking what is awake.  The last of each is given twice.
 *
 * Tag "a" is offloaded, "d" discarded, "default" has what no marker covers.
 */
#include "drv.h"
#include "own_socket.h"
#include "sim.h"

#include <stdbool.h>

#define SIZE 100000

enum { A, D, REST, TAGS };

static const char *const names[TAGS] = { "a", "d", "default" };

static struct tag {
	CUdeviceptr p;
	bool asleep;
	int level;
	bool lost;		/* since its bytes were last written */
} tags[TAGS];

static const struct order {
	const char *name, *lines;
	bool wake;
	int level;
	unsigned set;		/* bit per tag */
} orders[] = {
	{ "S", "sleep\nlevel=1", false, 1, 7 },
	{ "W", "wake", true, 0, 7 },
	{ "Sa", "sleep\ntags=a", false, 1, 1 << A },
	{ "Wa", "wake\ntags=a", true, 0, 1 << A },
	{ "Sd", "sleep\ntags=d", false, 1, 1 << D },
	{ "S2a", "sleep\nlevel=2\ntags=a", false, 2, 1 << A },
};

#define ORDERS ((int)(sizeof(orders) / sizeof(*orders)))
#define LENGTH 4

static char trace[128];
static int control;

static void expect(bool good, const char *what)
{
	if (good)
		return;
	printf("after%s: %s\n%s", trace, what, own_answer);
	exit(1);
}

static void fill(int t)
{
	CK(cuMemsetD8(tags[t].p, 0xa0 + t, SIZE));
	CK(cuCtxSynchronize());
	tags[t].lost = false;
}

static void check_bytes(int t)
{
	static unsigned char out[SIZE];
	unsigned char value = tags[t].lost ? 0 : (unsigned char)(0xa0 + t);
	size_t i;

	CK(cuMemcpyDtoH(out, tags[t].p, SIZE));
	for (i = 0; i < SIZE && out[i] == value; i++)
		;
	expect(i == SIZE, names[t]);
}

/* The model; false where the order is to be refused. */
static bool apply(const struct order *o)
{
	int t;

	for (t = 0; t < TAGS; t++)
		if (o->set >> t & 1 && o->level == 1 && tags[t].level == 2)
			return false;
	for (t = 0; t < TAGS; t++) {
		if (!(o->set >> t & 1))
			continue;
		if (o->wake) {
			tags[t].asleep = false;
			tags[t].level = 0;
			continue;
		}
		tags[t].lost |= t == D || o->level == 2;
		tags[t].asleep = true;
		if (tags[t].level < o->level)
			tags[t].level = o->level;
	}
	return true;
}

static void check_state(void)
{
	uint64_t resident = 0;
	int t, count = 0;

	for (t = 0; t < TAGS; t++) {
		uint64_t awake = own_tag_number(names[t], "resident-bytes");
		uint64_t gone = own_tag_number(names[t], "evicted-bytes");
		uint64_t host = own_tag_number(names[t], "backed-up-bytes");
		bool copied = tags[t].asleep && t != D && tags[t].level == 1;

		count += tags[t].asleep;
		resident += awake;
		expect((awake == 0) == tags[t].asleep, "resident");
		expect((gone != 0) == tags[t].asleep, "evicted");
		expect(host == (copied ? gone : 0), "backed up");
	}
	expect(resident == own_number("resident-bytes"), "sum");
	expect(resident == sim_used(0), "bytes by the driver's count");
	expect(!strcmp(own_value("state"), !count ? "awake" :
		       count == TAGS ? "asleep" : "partial"), "state");
	expect(!strcmp(own_value("holds"), count ? "asleep" : ""), "holds");
	for (t = 0; t < TAGS && !count; t++)
		check_bytes(t);
}

static void give(const struct order *o)
{
	bool accepted = apply(o);
	uint64_t sequence;

	own_ask(control, "status");
	sequence = own_number("sequence");
	own_ask(control, o->lines);
	expect(!strcmp(own_value("status"), accepted ? "ok" : "refused"),
	       "status");
	expect(own_number("sequence") <= sequence + accepted, "sequence");
	check_state();
}

static void run(int number)
{
	const struct order *o = orders;
	uint64_t sequence;
	int i, t;

	trace[0] = '\0';
	for (i = 0; i < LENGTH; i++, number /= ORDERS) {
		o = &orders[number % ORDERS];
		strcat(strcat(trace, " "), o->name);
		give(o);
	}
	strcat(trace, " and again");
	sequence = own_number("sequence");
	give(o);
	expect(own_number("sequence") == sequence, "a repeat did something");
	strcat(trace, " W");
	give(&orders[1]);
	for (t = 0; t < TAGS; t++)
		if (tags[t].lost)
			fill(t);
}

static void make(int t)
{
	char lines[64];

	snprintf(lines, sizeof(lines), t == REST ? "tag\nclear=yes" :
		 "tag\nname=%s", names[t]);
	own_ask(control, lines);
	CK(cuMemAlloc(&tags[t].p, SIZE));
	fill(t);
}

int main(void)
{
	int i, count = 1;

	drv_open();
	control = own_connect();
	for (i = 0; i < TAGS; i++)
		make(i);
	for (i = 0; i < LENGTH; i++)
		count *= ORDERS;
	for (i = 0; i < count; i++)
		run(i);
	for (i = 0; i < TAGS; i++)
		CK(cuMemFree(tags[i].p));
	CK(cuMemFree(drv.bad));
	own_ask(control, "sleep");
	own_ask(control, "wake");
	printf("%d orders\n", count);
	return 0;
}
