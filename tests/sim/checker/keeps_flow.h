/* SPDX-License-Identifier: Apache-2.0 */
/* The policies of the queue with limits, for C21 and C22. */
#pragma once

#include "sim/checker/keeps.h"

/* Those that can be in force: a change without an answer adds one, a change that was answered
 * leaves itself alone. */
struct flow_policies {
    const struct queue_policy **list;
    size_t count, room;
};

void flow_policies_done(struct flow_policies *p);
/* Whether the queue is the one with limits. */
bool flow_limited(struct span queue);
/* Follows a change of its policy; false: the entry is none. */
bool flow_policy_changes(struct flow_policies *p, const struct hist_entry *e);
/* The only one; NULL = several are possible. */
const struct queue_policy *flow_sure(const struct flow_policies *p);
/* The highest limit that can be in force; 0 = there may be none. */
uint32_t flow_max_running(const struct flow_policies *p);
uint32_t flow_max_per_group(const struct flow_policies *p);
