/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/op.h"

#include <stddef.h>

#define QUEUE(member) .queue = offsetof(struct op, member)
#define ID(member) .id = offsetof(struct op, member)

static const struct op_info infos[OP_KIND_COUNT] = {
    [OP_ENQUEUE] = {"enqueue", CLASS_UNIT, REPLY_ENQUEUE, .away = AWAY_SPOOLED,
                    QUEUE(enqueue.queue)},
    [OP_CLAIM] = {"claim", CLASS_UNIT, REPLY_JOBS, .away = AWAY_SPOOLED},
    [OP_ACK] = {"ack", CLASS_UNIT, REPLY_CHANGE, .away = AWAY_BY_JOB, ID(lease.job)},
    [OP_FAIL] = {"fail", CLASS_UNIT, REPLY_CHANGE, .away = AWAY_BY_JOB, ID(lease.job)},
    [OP_EXTEND] = {"extend", CLASS_UNIT, REPLY_CHANGE, .away = AWAY_BY_JOB, ID(lease.job)},
    [OP_RELEASE] = {"release", CLASS_UNIT, REPLY_CHANGE, .away = AWAY_BY_JOB, ID(lease.job)},
    [OP_PROGRESS] = {"progress", CLASS_UNIT, REPLY_CHANGE, .away = AWAY_BY_JOB, ID(lease.job)},
    [OP_LOG] = {"log", CLASS_UNIT, REPLY_CHANGE, .away = AWAY_BY_JOB, ID(lease.job)},
    [OP_STEP] = {"step", CLASS_UNIT, REPLY_CHANGE, .away = AWAY_BY_JOB, ID(lease.job)},
    [OP_RELEASE_CLAIM] = {"release_claim", CLASS_UNIT, REPLY_BULK, .away = AWAY_BOTH},
    [OP_CANCEL] = {"cancel", CLASS_UNIT, REPLY_CHANGE, .away = AWAY_BY_JOB, ID(job.job)},
    [OP_REQUEUE] = {"requeue", CLASS_UNIT, REPLY_CHANGE, .away = AWAY_BY_JOB, ID(job.job)},
    [OP_PATCH] = {"patch", CLASS_UNIT, REPLY_CHANGE, .away = AWAY_BY_JOB, ID(patch.job)},
    [OP_REMOVE] = {"remove", CLASS_UNIT, REPLY_CHANGE, .away = AWAY_BY_JOB, ID(job.job)},
    [OP_QUEUE_PUT] = {"queue_put", CLASS_ALONE, REPLY_JOBS, .away = AWAY_SPOOLED,
                      QUEUE(queue.name)},
    [OP_QUEUE_DELETE] = {"queue_delete", CLASS_ALONE, REPLY_BULK, QUEUE(queue.name)},
    [OP_QUEUE_GET] = {"queue_get", CLASS_LOOK, REPLY_QUEUES, .query = true, .away = AWAY_SPOOLED},
    [OP_QUEUE_LIST] = {"queue_list", CLASS_LOOK, REPLY_QUEUES, .query = true, .away = AWAY_SPOOLED},
    [OP_PAUSE] = {"pause", CLASS_ALONE, REPLY_PLAIN, QUEUE(queue.name)},
    [OP_PURGE] = {"purge", CLASS_ALONE, REPLY_BULK, QUEUE(queue.name)},
    [OP_BULK] = {"bulk", CLASS_ALONE, REPLY_BULK, QUEUE(bulk.queue)},
    [OP_GET] = {"get", CLASS_LOOK, REPLY_JOBS, .query = true, .away = AWAY_BY_JOB, ID(job.job)},
    [OP_PEEK] = {"peek", CLASS_LOOK, REPLY_JOBS, .query = true, .away = AWAY_SPOOLED,
                 QUEUE(peek.queue)},
    [OP_LIST] = {"list", CLASS_SEARCH, REPLY_JOBS, .query = true, .away = AWAY_SPOOLED},
    [OP_WORKERS] = {"workers", CLASS_SEARCH, REPLY_WORKERS, .query = true, .away = AWAY_SPOOLED},
    [OP_REGISTRY] = {"registry", CLASS_SEARCH, REPLY_REGISTRY, .query = true},
    [OP_ACCEPT_CLOCK] = {"accept_clock", CLASS_UNIT, REPLY_CLOCK},
    [OP_EXCEPTIONS] = {"exceptions", CLASS_SEARCH, REPLY_ATTEMPTS, .query = true,
                       .away = AWAY_SPOOLED},
    [OP_KV_COMMIT] = {"kv_commit", CLASS_UNIT, REPLY_KV_COMMIT},
    [OP_KV_GET] = {"kv_get", CLASS_LOOK, REPLY_KV, .query = true},
    [OP_KV_LIST] = {"kv_list", CLASS_SEARCH, REPLY_KV, .query = true},
    [OP_ALERT_PUT] = {"alert_put", CLASS_ALONE, REPLY_PLAIN},
    [OP_ALERT_DELETE] = {"alert_delete", CLASS_ALONE, REPLY_ALERTS},
    [OP_ALERT_LIST] = {"alert_list", CLASS_LOOK, REPLY_ALERTS, .query = true, .away = AWAY_SPOOLED},
    [OP_ALERT_EDGE] = {"alert_edge", CLASS_NOTICE, REPLY_PLAIN, QUEUE(alert_edge.queue)},
    [OP_NOTICE_TAKE] = {"notice_take", CLASS_ALONE, REPLY_NOTICES, .away = AWAY_NOTICE},
    [OP_NOTICE_END] = {"notice_end", CLASS_NOTICE, REPLY_PLAIN, .away = AWAY_NOTICE},
    [OP_NOTICE_LIST] = {"notice_list", CLASS_LOOK, REPLY_NOTICES, .query = true,
                        .away = AWAY_NOTICE},
    [OP_NOTICE_AGAIN] = {"notice_again", CLASS_NOTICE, REPLY_PLAIN, .away = AWAY_NOTICE,
                         ID(notice.id)},
    [OP_NOTICE_DISCARD] = {"notice_discard", CLASS_NOTICE, REPLY_PLAIN, .away = AWAY_NOTICE,
                           ID(notice.id)},
    [OP_BREAKER_PUT] = {"breaker_put", CLASS_NOTICE, REPLY_BREAKERS},
    [OP_BREAKER_DELETE] = {"breaker_delete", CLASS_NOTICE, REPLY_BREAKERS},
    [OP_BREAKER_ALLOW] = {"breaker_allow", CLASS_NOTICE, REPLY_BREAKERS, .away = AWAY_SPOOLED},
    [OP_BREAKER_REPORT] = {"breaker_call_ended", CLASS_NOTICE, REPLY_BREAKERS,
                           .away = AWAY_SPOOLED},
    [OP_BREAKER_LIST] = {"breaker_list", CLASS_LOOK, REPLY_BREAKERS, .query = true,
                         .away = AWAY_SPOOLED},
    [OP_DEPENDENCIES] = {"dependencies", CLASS_UNIT, REPLY_CHANGE, ID(dependencies.job)},
    [OP_NOTE] = {"note", CLASS_UNIT, REPLY_CHANGE, .away = AWAY_BY_JOB, ID(note.job)},
    [OP_PAGE] = {"page", CLASS_SEARCH, REPLY_JOBS, .query = true, .away = AWAY_SPOOLED,
                 QUEUE(page.queue)},
    [OP_HISTORY] = {"history", CLASS_SEARCH, REPLY_HISTORY, .query = true, .away = AWAY_SPOOLED,
                    QUEUE(history.queue)},
    [OP_SCHEDULE_PUT] = {"schedule_put", CLASS_ALONE, REPLY_SCHEDULES},
    [OP_SCHEDULE_DELETE] = {"schedule_delete", CLASS_ALONE, REPLY_PLAIN},
    [OP_SCHEDULE_GET] = {"schedule_get", CLASS_LOOK, REPLY_SCHEDULES, .query = true},
    [OP_SCHEDULE_LIST] = {"schedule_list", CLASS_LOOK, REPLY_SCHEDULES, .query = true},
    [OP_SCHEDULE_PAUSE] = {"schedule_pause", CLASS_ALONE, REPLY_SCHEDULES},
    [OP_FIRE] = {"fire", CLASS_FIRE, REPLY_SCHEDULES},
    [OP_TRIGGER] = {"trigger", CLASS_FIRE, REPLY_SCHEDULES},
    [OP_PENDING] = {"pending", CLASS_SEARCH, REPLY_JOBS, .query = true},
    [OP_DISPATCHED] = {"dispatched", CLASS_UNIT, REPLY_PLAIN},
    [OP_TICK] = {"tick", CLASS_INTERNAL, REPLY_PLAIN},
};

const struct op_info *op_info(enum op_kind kind)
{
    return &infos[kind];
}

static const char *const attempt_outcomes[ATTEMPT_OUTCOME_COUNT] = {
    [ATTEMPT_RUNNING] = "running",
    [ATTEMPT_DONE] = "done",
    [ATTEMPT_FAILED] = "failed",
    [ATTEMPT_LEASE_EXPIRED] = "lease_expired",
    [ATTEMPT_TIMED_OUT] = "timed_out",
    [ATTEMPT_RELEASED] = "released",
    [ATTEMPT_RELEASED_WITH_ERROR] = "released_with_error",
    [ATTEMPT_CANCELLED] = "cancelled",
};

const char *attempt_outcome_name(enum attempt_outcome o)
{
    return (unsigned)o < ATTEMPT_OUTCOME_COUNT ? attempt_outcomes[o] : "invalid_outcome";
}

const char *damage_name(unsigned bit)
{
    return bit == DAMAGE_PAYLOAD  ? "payload"
           : bit == DAMAGE_RESULT ? "result"
           : bit == DAMAGE_TEXTS  ? "keys"
           : bit == DAMAGE_STEPS  ? "steps"
                                  : "history";
}

static const char *const outcomes[OUT_COUNT] = {
    [OUT_OK] = "ok",
    [OUT_DUPLICATE] = "duplicate",
    [OUT_NOT_FOUND] = "not_found",
    [OUT_NO_QUEUE] = "no_queue",
    [OUT_LEASE_LOST] = "lease_lost",
    [OUT_GONE] = "gone",
    [OUT_CANCELLED] = "cancelled",
    [OUT_ILLEGAL] = "illegal",
    [OUT_QUEUE_FULL] = "queue_full",
    [OUT_SERVER_FULL] = "server_full",
    [OUT_QUEUES_FULL] = "queues_full",
    [OUT_REFUSED_NEW] = "refused_new",
    [OUT_TOO_BIG] = "too_big",
    [OUT_INVALID] = "invalid",
    [OUT_KEY_REUSED] = "key_reused",
    [OUT_KEYS_FULL] = "keys_full",
    [OUT_DISK_FULL] = "disk_full",
    [OUT_EXISTS] = "exists",
    [OUT_VERSION] = "version",
    [OUT_KV_FULL] = "kv_full",
    [OUT_STEPS_FULL] = "steps_full",
    [OUT_DAMAGED] = "damaged",
    [OUT_RATE_LIMIT] = "rate_limited",
    [OUT_NO_SCHEDULE] = "no_schedule",
    [OUT_BREAKERS_FULL] = "breakers_full",
    [OUT_NOT_DUE] = "not_due",
    [OUT_UNAVAILABLE] = "unavailable",
    [OUT_UNKNOWN] = "unknown",
};

const char *outcome_name(enum outcome o)
{
    return (unsigned)o < OUT_COUNT ? outcomes[o] : "invalid_outcome";
}
