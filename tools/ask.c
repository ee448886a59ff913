/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "ask.h"

/* @add may be NULL. */
static enum outcome ask_and_add(const struct selection *selection,
				const struct request *request,
				const struct style *style,
				void (*add)(struct answer *answer, pid_t pid))
{
	struct group group = { .count = 0 };
	enum outcome outcome = select_find(selection, false, &group);
	struct member *member;

	if (outcome == DONE) {
		group_ask_all(&group, request, PATIENCE_MS);
		for (member = group.members;
		     add && member < group.members + group.count; member++)
			if (member->answered)
				add(member->answer, member->connection.pid);
		outcome = print_group(&group, &selection->common, style);
	}
	group_free(&group);
	return outcome;
}

enum outcome ask_each(const struct selection *selection,
		      const struct request *request, const struct style *style)
{
	return ask_and_add(selection, request, style, NULL);
}

enum outcome ask_main(int argc, char **argv, const struct question *question)
{
	static const struct option options[] = {
		SELECT_OPTIONS,
		COMMON_OPTIONS
	};
	struct syntax syntax = { question->help, options, NULL };
	struct selection selection;
	struct request request;
	enum outcome outcome;

	if (!select_options(argc, argv, &syntax, NULL, &selection, &outcome))
		return outcome;
	request_start(&request, question->verb);
	return ask_and_add(&selection, &request, &question->style,
			   question->add);
}
