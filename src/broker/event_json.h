/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON object of an event: {"event", "at", "queue", "job": {…}, …}.
 *
 * Event streams, webhooks and the list of notices show the same object, so only this file writes
 * it. A member that has no value is left out. */
#pragma once

#include "base/json/json.h"
#include "broker/broker.h"
#include "core/jobs/id.h"
#include "ops/op.h"

/* The job of an event. */
struct event_job {
    struct job_texts;    /* those that events show; its members are members of this struct */
    uint64_t id_hi, seq; /* seq 0 = the event concerns no job */
    enum job_state state;
    enum job_reason reason;
    uint32_t attempts;
    struct span error;
    const struct job_view *payload; /* NULL = the payload is not wanted */
};

struct event_view {
    char id[ID_ULID_BYTES]; /* the id of the event or of the notice */
    const char *event;
    struct wall_time at;
    struct span queue;
    struct event_job job;
    struct span schedule, alert;
    const char *on; /* of an alert that was raised or cleared: its condition; NULL = not known */
    bool has_value; /* of such an alert: */
    uint64_t value, limit; /* what was measured, and the limit of the rule; limit 0 = not known */
    uint64_t count;        /* number of jobs concerned; 0 = left out */
    struct span key;       /* of the key-value store, encoded */
    uint64_t version;      /* of the key */
    struct span error;     /* of a schedule that failed */
    struct span detail;    /* of an alert on failover: which node, and why */
};

/* Both borrow what they are given. */
void event_of_stream(struct event_view *ret, const struct broker_event *from);
/* job: its present state; NULL = not read, or removed. */
void event_of_notice(struct event_view *ret, const struct notice_view *from,
                     const struct job_view *job);

/* Writes the members of an object that was begun. */
void event_members_write(struct json_writer *w, const struct event_view *v);
