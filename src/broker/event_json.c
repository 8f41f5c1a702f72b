/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/event_json.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/digest/base64.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "broker/alerts/notice_text.h"
#include "core/jobs/job_texts.h"
#include "core/kvkey.h"

/* ---- selecting ---- */

static bool about_alert(enum event_kind kind)
{
    return kind == EVENT_ALERT_RAISED || kind == EVENT_ALERT_CLEARED;
}

void event_of_stream(struct event_view *ret, const struct broker_event *from)
{
    const struct backend_event *e = &from->event;
    *ret = (struct event_view){
        .event = event_name(e->kind),
        .at = e->at,
        .queue = e->queue,
        .job = {.id_hi = e->id_hi,
                .seq = e->seq,
                .state = e->state,
                .reason = e->reason,
                .attempts = e->attempts},
        .schedule = e->schedule,
        .alert = e->alert,
        .has_value = about_alert(e->kind),
        .value = e->count,
        .count = about_alert(e->kind) ? 0 : e->count,
        .key = e->key,
        .version = e->version,
    };
    job_texts_set(&ret->job, from);
    snprintf(ret->id, sizeof ret->id, "%" PRIu64, e->id);
}

/* The event that a notice reports. */
static enum event_kind notice_event(const struct rec_notice_new *n)
{
    if (n->edge != EDGE_NONE)
        return n->edge == EDGE_RAISED ? EVENT_ALERT_RAISED : EVENT_ALERT_CLEARED;
    return n->on == ALERT_DEAD ? EVENT_DEAD : EVENT_SCHEDULE_FAILED;
}

void event_of_notice(struct event_view *ret, const struct notice_view *from,
                     const struct job_view *job)
{
    const struct rec_notice_new *n = &from->notice;
    enum event_kind kind = notice_event(n);
    *ret = (struct event_view){
        .event = event_name(kind),
        .at = n->at,
        .queue = n->queue,
        .job = {.id_hi = n->job_hi,
                .seq = n->job_seq,
                .state = STATE_DEAD,
                .reason = (enum job_reason)n->reason,
                .attempts = n->attempts,
                .error = n->text,
                .payload = from->with_payload ? job : NULL},
        .schedule = n->subject,
        .alert = n->alert,
        .on = about_alert(kind) ? alert_on_name(n->on) : NULL,
        .has_value = about_alert(kind),
        .value = n->value,
        .limit = n->mark,
        .error = n->job_seq || about_alert(kind) ? (struct span){NULL, 0} : n->text,
        .detail = about_alert(kind) ? n->text : (struct span){NULL, 0},
    };
    if (job)
        job_texts_set(&ret->job, &job->extra);
    id_ulid(id_make(n->id_hi, n->number), ret->id);
}

/* ---- writing ---- */

static void put_text(struct json_writer *w, const char *key, struct span value)
{
    if (value.len == 0)
        return;
    json_write_key(w, key);
    json_write_text(w, value);
}

static void put_uint(struct json_writer *w, const char *key, uint64_t value)
{
    json_write_key(w, key);
    json_write_uint(w, value);
}

static void put_base64(struct json_writer *w, struct span bytes)
{
    size_t len = base64_len(bytes.len);
    char *text = mem_alloc(len);
    if (!text) {
        if (w->error == 0)
            w->error = -ERR_NOMEM;
        return;
    }
    base64_encode(bytes, text);
    put_text(w, "payload_base64", span_of(text, len));
    mem_free(text);
}

/* JSON unchanged, a text as a string, other bytes as base64. */
static void put_payload(struct json_writer *w, const struct job_view *job)
{
    if (!job->has_body || (job->damage & DAMAGE_PAYLOAD) || job->payload.len > NOTICE_PAYLOAD_MAX) {
        json_write_key(w, "payload_omitted");
        json_write_bool(w, true);
    } else if (job->job.payload_kind == PAYLOAD_JSON) {
        json_write_key(w, "payload");
        json_write_raw(w, job->payload);
    } else if (job->payload.len && utf8_valid(job->payload) &&
               !memchr(job->payload.at, '\0', job->payload.len)) {
        put_text(w, "payload_text", job->payload);
    } else if (job->payload.len) {
        put_base64(w, job->payload);
    }
}

static void put_job(struct json_writer *w, const struct event_job *job)
{
    char id[ID_ULID_BYTES];
    id_ulid(id_make(job->id_hi, job->seq), id);
    json_write_key(w, "job");
    json_write_object(w);
    put_text(w, "id", span_text(id));
    put_uint(w, "seq", job->seq);
    put_text(w, "state", span_text(state_name(job->state)));
    if (job->reason != REASON_NONE)
        put_text(w, "reason", span_text(reason_name(job->reason)));
    put_uint(w, "attempts", job->attempts);
    put_text(w, "error", job->error);
    job_texts_write(w, job, true);
    if (job->payload)
        put_payload(w, job->payload);
    json_write_object_end(w);
}

static void put_alert(struct json_writer *w, const struct event_view *v)
{
    put_text(w, "alert", v->alert);
    if (v->on)
        put_text(w, "on", span_text(v->on));
    if (v->has_value)
        put_uint(w, "value", v->value);
    if (v->has_value && v->limit)
        put_uint(w, "limit", v->limit);
}

void event_members_write(struct json_writer *w, const struct event_view *v)
{
    char at[WALL_TEXT_BYTES];
    wall_text(v->at, at);
    put_text(w, "id", span_text(v->id));
    put_text(w, "event", span_text(v->event));
    put_text(w, "at", span_text(at));
    put_text(w, "queue", v->queue);
    if (v->job.seq)
        put_job(w, &v->job);
    put_text(w, "schedule", v->schedule);
    put_alert(w, v);
    if (v->count)
        put_uint(w, "count", v->count);
    if (v->key.len) {
        json_write_key(w, "key");
        kvkey_write(w, v->key);
    }
    if (v->version)
        put_uint(w, "version", v->version);
    put_text(w, "error", v->error);
    put_text(w, "detail", v->detail);
}
