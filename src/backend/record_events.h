/* SPDX-License-Identifier: Apache-2.0 */
/* Events, as far as their rules are the same for every store: which event a record means, when the
 * depth of a queue is an event, and the ids of events. */
#pragma once

#include "backend/backend.h"
#include "core/records/record.h"

/* By kind of record: the event + 1; 0 = none. */
extern const uint8_t record_event_kinds[UINT8_MAX + 1];

/* The event that tells of a job's record; EVENT_KIND_COUNT = none does. */
static inline enum event_kind record_event(const struct record *r)
{
    unsigned found = record_event_kinds[(uint8_t)r->kind]; /* a kind is one byte on disk */
    if (!found)
        return EVENT_KIND_COUNT;
    if (r->kind != REC_JOB_BACK)
        return found - 1;
    if (r->job_back.reason == REASON_FAILED || r->job_back.reason == REASON_TIMED_OUT)
        return EVENT_RETRIED;
    return r->job_back.reason == REASON_LEASE_EXPIRED ? EVENT_CRASHED : EVENT_RELEASED;
}

/* Whether the depth of a queue is to be told: it has reached the policy's warn_depth (0 = never)
 * for the first time since it was below 90 % of it. *deep says that it was told, and is kept by the
 * caller. */
bool depth_warns(uint64_t warn_depth, uint64_t depth, bool *deep);

/* Event number n of a boot; ids also rise from one boot to the next. */
static inline uint64_t event_id(uint32_t epoch, uint64_t number)
{
    return ((uint64_t)epoch << 40) + number;
}
