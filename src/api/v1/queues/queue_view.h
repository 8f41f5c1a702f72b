/* SPDX-License-Identifier: Apache-2.0 */
/* Queues as answers show them. */
#pragma once

#include "base/json/json.h"
#include "broker/broker.h"

/* The queue object. now: a pause that has passed is no pause. */
void queue_view_write(struct json_writer *w, const struct queue_view *q, struct wall_time now);
/* Its members without the braces. */
void queue_view_members(struct json_writer *w, const struct queue_view *q, struct wall_time now);
/* "counts", "oldest_ready_ms" and "next_due" as members. */
void queue_counts_write(struct json_writer *w, const struct queue_counts *c);
