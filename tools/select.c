/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "select.h"

#include "gpu.h"
#include "proc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TREE_MAX 65536

/* What the words of a selection mean. */
struct criteria {
	const struct selection *selection;
	pid_t *tree;		/* all that descend from the roots */
	int tree_count;
	struct gpu gpus[CHOICES_MAX];
	struct group *group;
};

static void add_choice(struct choices *choices, const char *text)
{
	if (choices->count < CHOICES_MAX)
		choices->items[choices->count] = text;
	choices->count++;
}

static bool take_choice(int value, struct selection *selection)
{
	switch (value) {
	case OPT_NAME:
		add_choice(&selection->names, optarg);
		return true;
	case OPT_GPU:
		add_choice(&selection->gpus, optarg);
		return true;
	case OPT_TREE:
		add_choice(&selection->trees, optarg);
		return true;
	case OPT_ALL:
		selection->all = true;
		return true;
	default:
		return false;
	}
}

bool select_options(int argc, char **argv, const struct syntax *syntax,
		    void *arg, struct selection *out, enum outcome *outcome)
{
	int value;

	memset(out, 0, sizeof(*out));
	*outcome = USAGE;
	while ((value = getopt_long(argc, argv, "", syntax->options,
				    NULL)) != -1) {
		if (value >= OPT_OWN) {
			if (!syntax->own(value, arg))
				return false;
		} else if (!take_choice(value, out) &&
			   !common_option(value, syntax->help, &out->common,
					  outcome)) {
			return false;
		}
	}
	common_settle(&out->common);
	out->pids = argv + optind;
	return true;
}

static bool has_pids(const struct selection *selection)
{
	return selection->pids && selection->pids[0];
}

static bool known(const struct group *group, pid_t pid)
{
	int i;

	for (i = 0; i < group->count; i++)
		if (pid && group->members[i].connection.pid == pid)
			return true;
	return false;
}

static void add(struct connection *connection, void *arg)
{
	group_add(arg, connection);
}

static bool in_tree(const struct criteria *criteria, pid_t pid)
{
	int i;

	for (i = 0; i < criteria->tree_count; i++)
		if (criteria->tree[i] == pid)
			return true;
	return false;
}

static int by_number(const void *a, const void *b)
{
	pid_t left = *(const pid_t *)a, right = *(const pid_t *)b;

	return (left > right) - (left < right);
}

static bool living(pid_t pid)
{
	struct proc proc;

	return pid != getpid() && proc_look(pid, &proc) &&
	       proc.state != 'Z' && proc.state != 'X';
}

/* In the order of the numbers, each once, without what has ended and us. */
static enum outcome find_trees(struct criteria *criteria)
{
	const struct choices *roots = &criteria->selection->trees;
	struct proc proc;
	pid_t root;
	int i, count, kept = 0;

	criteria->tree = calloc(TREE_MAX, sizeof(*criteria->tree));
	if (!criteria->tree)
		return FAILED;
	for (i = 0; i < roots->count; i++) {
		if (!parse_pid(roots->items[i], &root))
			return usage_error("--tree %s: must be the PID of a "
					   "process", roots->items[i]);
		if (!proc_look(root, &proc)) {
			fprintf(stderr, "vsleepctl: --tree %s: there is no "
				"such process\n", roots->items[i]);
			return NO_PROCESS;
		}
		count = criteria->tree_count;
		criteria->tree_count += proc_tree(proc.pid,
						  criteria->tree + count,
						  TREE_MAX - count);
	}
	qsort(criteria->tree, criteria->tree_count, sizeof(pid_t), by_number);
	for (i = 0; i < criteria->tree_count; i++)
		if (!in_tree(&(struct criteria){ .tree = criteria->tree,
						 .tree_count = kept },
			     criteria->tree[i]) &&
		    living(criteria->tree[i]))
			criteria->tree[kept++] = criteria->tree[i];
	criteria->tree_count = kept;
	return DONE;
}

static enum outcome parse(struct criteria *criteria)
{
	const struct selection *selection = criteria->selection;
	pid_t pid;
	int i;

	if (!has_pids(selection) && !selection->all &&
	    !selection->names.count && !selection->gpus.count &&
	    !selection->trees.count)
		return usage_error("no process is named: give its PID, or "
				   "--name, --gpu, --tree or --all");
	for (i = 0; has_pids(selection) && selection->pids[i]; i++)
		if (!parse_pid(selection->pids[i], &pid))
			return usage_error("\"%s\" is not the PID of a process",
					   selection->pids[i]);
	if (selection->names.count > CHOICES_MAX ||
	    selection->gpus.count > CHOICES_MAX ||
	    selection->trees.count > CHOICES_MAX)
		return usage_error("--name, --gpu and --tree may be given %d "
				   "times each", CHOICES_MAX);
	for (i = 0; i < selection->gpus.count; i++)
		if (!gpu_parse(selection->gpus.items[i], &criteria->gpus[i]))
			return USAGE;
	return selection->trees.count ? find_trees(criteria) : DONE;
}

static void add_numbers(struct criteria *criteria)
{
	char **pids = criteria->selection->pids;
	struct connection connection;
	pid_t pid;

	for (; *pids; pids++) {
		parse_pid(*pids, &pid);
		client_connect(pid, &connection);
		if (known(criteria->group, connection.pid))
			client_close(&connection);
		else
			group_add(criteria->group, &connection);
	}
}

static void add_tree(struct criteria *criteria)
{
	struct connection connection;
	struct member *member;
	int i;

	for (i = 0; i < criteria->tree_count; i++) {
		client_connect(criteria->tree[i], &connection);
		member = group_add(criteria->group, &connection);
		member->absent = member_ended(member);
	}
}

/* In answers a byte that is not printable ASCII is "?". */
static bool same_name(const char *name, const char *wanted)
{
	while (*wanted && (*name == *wanted ||
			   (*name == '?' &&
			    (*wanted < ' ' || *wanted > '~')))) {
		name++;
		wanted++;
	}
	return !*name && !*wanted;
}

/* One that does not answer may still be known by its command line. */
static bool name_fits(const struct choices *names, const struct member *member)
{
	struct proc proc = { .name = "" };
	const char *name = proc.name;
	int i;

	if (member->answered)
		name = answer_text(member->answer, "name");
	else
		proc_look(member->connection.pid, &proc);
	for (i = 0; i < names->count; i++)
		if (same_name(name, names->items[i]))
			return true;
	return !names->count;
}

/* Where one that does not answer has its memory cannot be told: anywhere. */
static bool gpu_fits(const struct criteria *criteria,
		     const struct member *member)
{
	int count = criteria->selection->gpus.count;
	int i;

	if (!count)
		return true;
	if (!member->answered)
		return !member->absent;
	for (i = 0; i < count; i++)
		if (gpu_used(&criteria->gpus[i], member->answer))
			return true;
	return false;
}

static bool fits(const struct criteria *criteria, const struct member *member)
{
	const struct selection *selection = criteria->selection;

	/* A number that is wrong is an error whatever else is asked for. */
	if (has_pids(selection) && member_ended(member))
		return true;
	if (!has_pids(selection) && !selection->trees.count &&
	    member_ended(member))
		return false;
	if (selection->trees.count &&
	    !in_tree(criteria, member->connection.pid))
		return false;
	return name_fits(&selection->names, member) &&
	       gpu_fits(criteria, member);
}

static void filter(struct criteria *criteria)
{
	const struct selection *selection = criteria->selection;
	struct group *group = criteria->group;
	struct request request;
	int i;

	if (selection->names.count || selection->gpus.count) {
		request_start(&request, "status");
		group_ask_all(group, &request, PATIENCE_EACH_MS);
	}
	for (i = group->count - 1; i >= 0; i--)
		if (!fits(criteria, &group->members[i]))
			group_remove(group, i);
}

enum outcome select_find(const struct selection *selection, bool allowed,
			 struct group *group)
{
	struct criteria criteria = { .selection = selection, .group = group };
	enum outcome outcome = parse(&criteria);

	if (outcome == DONE) {
		if (has_pids(selection))
			add_numbers(&criteria);
		else if (selection->trees.count)
			add_tree(&criteria);
		else
			client_each(add, group);
		filter(&criteria);
		if (!allowed && !group_applicable(group)) {
			outcome = NO_PROCESS;
			fprintf(stderr, "vsleepctl: nothing is selected: no "
				"process with vsleep fits\n");
		}
	}
	free(criteria.tree);
	return outcome;
}
