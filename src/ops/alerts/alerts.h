/* SPDX-License-Identifier: Apache-2.0 */
/* src/ops/alerts has the operations on alert rules, notices and breakers. Like all of src/ops it
 * may use core and base.
 *
 * Which events alert rules match, and what a notice contains. */
#pragma once

#include "ops/ops.h"

/* Whether the rule gives a notice when this happens in the queue. */
bool alert_hears(const struct alert_state *a, enum alert_on on, struct span queue);

/* The notice of a job that has died; of another event, about `subject`. The store numbers it, and
 * says when. */
struct rec_notice_new notice_of_dead(const struct job *j, struct span queue,
                                     const struct rec_job_dead *dead);
struct rec_notice_new notice_of_event(enum alert_on on, struct span queue, struct span subject,
                                      struct span text);
/* One notice for each rule that matches; the store has reserved memory. */
void ops_notify(struct ops *o, struct rec_notice_new *n);

/* The view of a notice of this rule, with copies of its texts. False: no memory. */
bool notice_show(struct ops *o, const struct notice_entry *n, const struct alert_state *a,
                 bool secret, struct notice_view *ret);

/* The notices that one reply has at most; 0 = as many as may be. */
static inline uint32_t notice_limit(uint32_t asked)
{
    return asked == 0 || asked > LIMIT_BATCH ? LIMIT_BATCH : asked;
}
