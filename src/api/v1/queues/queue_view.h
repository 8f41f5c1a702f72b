/* SPDX-License-Identifier: Apache-2.0 */
/* Views of queues. The folder v1/queues has the endpoints of queues, statistics and workers; what
 * it may use is in v1_impl.h. */
#pragma once

#include "base/json/json.h"
#include "broker/broker.h"

/* Writes the queue as an object. A pause that ended before `now` is not shown. */
void queue_view_write(struct json_writer *w, const struct queue_view *q, struct wall_time now);
/* Writes the members of the queue without the braces. */
void queue_view_members(struct json_writer *w, const struct queue_view *q, struct wall_time now);
/* Writes the members "counts", "oldest_ready_ms" and "next_due". */
void queue_counts_write(struct json_writer *w, const struct queue_counts *c);
