/* SPDX-License-Identifier: Apache-2.0 */
/* src/core/schedules has the rules of schedules and of cron expressions. It may use core and base,
 * and reads no clock.
 *
 * A schedule: a rule that enqueues jobs at certain times (cron, interval) or when another queue has
 * items.
 *
 * Its definition (struct schedule_spec) changes only by request and is stored encoded. Its state
 * says when it is due next and what it did last; every firing creates a new state. A time is fired
 * at most once: it must be the schedule's next time or later, and becomes its last one, in the same
 * commit as the job that it creates. The broker, which knows zones, computes the times; the engine
 * only compares. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"
#include "base/system/clock.h"
#include "core/jobs/job.h"

/* All numbers here are on disk: never renumber. */
enum schedule_kind { SCHEDULE_CRON = 1, SCHEDULE_INTERVAL = 2, SCHEDULE_QUEUE = 3 };
const char *schedule_kind_name(uint8_t kind); /* "cron", "interval", "queue" */

/* What happens to times that passed while the schedule could not be fired. */
enum schedule_misfire {
    MISFIRE_SKIP = 0,
    MISFIRE_ONCE = 1, /* one job, for the newest of them */
    MISFIRE_ALL = 2,  /* one job for each of them within the window */
};
/* What happens if the last job is still waiting or running. */
enum schedule_overlap { OVERLAP_ALLOW = 0, OVERLAP_SKIP = 1 };

/* Why the last firing failed. */
enum schedule_error {
    SCHEDULE_OK = 0,
    SCHEDULE_QUEUE_FULL = 1,
    SCHEDULE_SERVER_FULL = 2,
    SCHEDULE_REFUSED_NEW = 3,
    SCHEDULE_TOO_BIG = 4,
    SCHEDULE_NO_QUEUE = 5,
    SCHEDULE_INVALID = 6, /* the job that it would enqueue is refused */
    SCHEDULE_OTHER = 7,
    SCHEDULE_RATE_LIMITED = 8,
    SCHEDULE_ERROR_COUNT
};
const char *schedule_error_name(uint8_t error); /* "queue_full" …; NULL = none */

struct schedule_spec {
    uint8_t kind;
    struct span cron, zone;    /* cron; an empty zone is UTC */
    uint64_t every_ms;         /* interval; queue: between two checks */
    struct wall_time start_at; /* interval, queue: times are start_at + n × every_ms */
    bool run_after_gap, fold_twice;
    uint8_t misfire, overlap;
    uint64_t misfire_window_ms;
    /* queue */
    struct span source; /* the queue whose items are taken */
    uint32_t batch_size;
    bool eager; /* as soon as items arrive */
    /* The job that is enqueued; extra.expires_at is not used, extra.options is encoded. */
    struct span queue;
    struct job_extra extra;
    uint8_t payload_kind, unique_mode;
    bool has_priority;
    int64_t priority, delay_ms, expires_in_ms; /* expires_in_ms 0 = never */
    struct span payload;
};

#define SCHEDULE_QUEUE_DEFAULT "jobs"
#define SCHEDULE_LOOK_MS 30000 /* every_ms of a trigger that does not set it */
#define SCHEDULE_WINDOW_MS (UINT64_C(3600) * 1000)

/* The defaults of this kind. */
void schedule_default(struct schedule_spec *s, uint8_t kind);
/* 0, or -ERR_INVALID with a note that names the member. The cron text is parsed, its zone is not
 * resolved. */
MUST_CHECK int schedule_check(const struct schedule_spec *s, struct err_note *note);

/* A compact encoding, with a version; decoding is strict (-ERR_CORRUPT), spans point into it. */
size_t schedule_bytes_max(const struct schedule_spec *s);
MUST_CHECK int schedule_encode(const struct schedule_spec *s, struct buf *out);
MUST_CHECK int schedule_decode(struct span in, struct schedule_spec *ret);

struct schedule_state {
    struct wall_time next_at;  /* due; for a trigger: not before; LIMIT_WALL_MS = never */
    struct wall_time retry_at; /* after a failure: not before; 0 = none */
    struct wall_time last_at;  /* the newest time that was fired or passed; 0 = none yet */
    struct wall_time fired_at; /* when the last job was created; 0 = never */
    uint64_t seq, id_hi;       /* that job; 0 = none yet */
    uint64_t item;             /* queue: the last item taken; 0 = none yet */
    uint64_t fired, missed;    /* jobs created; times that passed without one */
    uint32_t failures;         /* in a row */
    uint8_t error;             /* enum schedule_error of the last of them */
};

/* When it is due next, seen from now; 0 = never. The repeated checks of a trigger that waits for
 * items are not stored. */
struct wall_time schedule_next(const struct schedule_spec *spec, const struct schedule_state *state,
                               struct wall_time now);
/* The wait before another attempt after failure number n (1 = the first): 1 s, doubling to 5
 * min. */
int64_t schedule_retry_ms(uint32_t failures);
