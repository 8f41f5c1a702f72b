/* SPDX-License-Identifier: Apache-2.0 */
/* Records made at random, every field used, each such as the server could write it. */
#pragma once

#include <stdbool.h>

#include "base/containers/arena.h"
#include "base/digest/random.h"
#include "core/queues/policy.h"
#include "core/records/record.h"

extern const enum record_kind sample_kinds[];
extern const size_t sample_kind_count;

void sample_backoff(struct random *random, struct backoff *ret);
void sample_policy(struct random *random, struct queue_policy *ret);
void sample_options(struct random *random, struct job_options *ret);
/* Texts live in the arena. */
void sample_record(struct random *random, struct arena *arena, enum record_kind kind,
                   struct record *ret);
/* Field by field; the bytes of spans, not their addresses. On a difference *ret_field names it. */
bool sample_equal(const struct record *a, const struct record *b, const char **ret_field);

/* Runs fn in a child process and says whether it was ended by an assertion. */
bool sample_aborts(void (*fn)(void *ctx), void *ctx);

/* A definition that schedule_check takes; of its texts those that few have are in the arena. */
void sample_spec(struct random *random, struct arena *arena, struct schedule_spec *ret);
