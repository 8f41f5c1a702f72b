/* SPDX-License-Identifier: Apache-2.0 */
/* Short helpers for schedules. */
#pragma once

#include "conform/conform.h"

struct schedule_spec cron_spec(const char *queue); /* every minute, UTC */
struct schedule_spec queue_spec(const char *source, const char *queue, uint32_t batch_size);
struct op schedule_op(enum op_kind kind, const char *name);
/* Creates or replaces it; it is next due at this time. */
const struct reply *schedule_put(struct env *e, const char *name, const struct schedule_spec *spec,
                                 struct wall_time next_at);
/* NULL if it does not exist. */
const struct schedule_view *schedule_get(struct env *e, const char *name);
/* Fires or triggers the time `at`; the schedule is next due a minute later. */
struct op fire_op(enum op_kind kind, const char *name, struct wall_time at);
