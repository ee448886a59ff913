/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "sleep/transition.h"
#include "sleep/plan.h"
#include "memory/managed.h"

void vs_transition_managed_out(const struct vs_request *request,
			       struct vs_plan *plan, struct vs_transition *t,
			       struct vs_ledger_last *result)
{
	vs_tag_set tags = vs_plan_tags(request);
	struct vs_managed_report done;

	if (vs_managed_awake(tags))
		vs_transition_phase(t, "moving managed memory", 0);
	vs_managed_sleep(tags, &done);
	result->released_bytes += done.moved;
	result->copied_bytes += done.moved;
	vs_ledger_keep(result, done.wished, "policy keep", true);
	vs_ledger_keep(result, done.kept, done.why, false);
	plan->kept_against_wish |= done.kept != 0;
}

void vs_transition_managed_back(const struct vs_request *request,
				struct vs_transition *t,
				struct vs_ledger_last *result)
{
	vs_tag_set tags = vs_plan_tags(request);
	struct vs_managed_report done;

	if (vs_managed_asleep(tags))
		vs_transition_phase(t, "moving managed memory", 0);
	vs_managed_wake(tags, &done);
	result->restored_bytes += done.moved;
	result->copied_bytes += done.moved;
}
