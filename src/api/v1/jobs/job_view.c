/* SPDX-License-Identifier: Apache-2.0 */
#include "api/v1/jobs/job_view.h"

#include "api/json_members.h"
#include "api/v1/jobs/depends.h"
#include "api/v1/jobs/reports.h"
#include "api/v1/queues/policy_fields.h"
#include "core/jobs/job_error.h"
#include "core/jobs/job_texts.h"

const char *error_kind_name(uint8_t kind)
{
    return kind == ERROR_BUSINESS ? "business" : "app";
}

static struct wall_time lease_until(int64_t left_ms, struct wall_time now)
{
    return (struct wall_time){now.ms + left_ms};
}

void cancel_write(struct json_writer *w, const struct lease_news *lease)
{
    if (lease->cancel_by.ms == 0)
        return;
    write_bool(w, "cancel", true);
    write_time(w, "cancel_deadline", lease->cancel_by);
}

static void write_state(struct json_writer *w, const struct job_view *v)
{
    const struct job *j = &v->job;
    write_text(w, "state", state_name((enum job_state)j->state));
    if (j->reason != REASON_NONE)
        write_text(w, "reason", reason_name((enum job_reason)j->reason));
    write_int(w, "priority", view_priority(v));
}

static void write_counts(struct json_writer *w, const struct job_view *v)
{
    write_uint(w, "attempts", job_attempts(&v->job));
    write_uint(w, "failures", v->job.failures);
    write_uint(w, "crashes", v->job.crashes);
}

void job_options_write(struct json_writer *w, struct span encoded)
{
    struct job_options o;
    if (encoded.len == 0 || options_decode(encoded, &o) < 0)
        return;
    if (o.max_attempts != 0)
        write_uint(w, "max_attempts", o.max_attempts);
    if (o.max_crashes != 0)
        write_uint(w, "max_crashes", o.max_crashes);
    if (o.lease_ms != 0)
        write_uint(w, "lease_ms", o.lease_ms);
    if (o.timeout_ms != 0)
        write_uint(w, "timeout_ms", o.timeout_ms);
    if (o.has_backoff)
        backoff_write(w, &o.backoff);
}

static void write_times(struct json_writer *w, const struct job_view *v, struct wall_time now)
{
    write_time(w, "created_at", id_time(v->job.id_hi));
    write_time(w, "state_since", v->job.since);
    write_time_if(w, "run_at", v->job.run_at);
    write_time_if(w, "due_at", view_due(v));
    write_time_if(w, "started_at", v->started_at);
    if (v->job.state == STATE_RUNNING) {
        bool ends = v->lease_ms != 0 || v->holder.seq == 0;
        if (ends && v->lease_left_ms >= 0)
            write_time(w, "lease_until", lease_until(v->lease_left_ms, now));
        write_span_if(w, "worker", v->worker);
        write_time_if(w, "timeout_at", timeout_at(&v->limits, v->started_at));
        write_time_if(w, "cancel_requested_at", v->limits.cancel_at);
        write_time_if(w, "cancel_deadline", cancel_deadline(&v->limits));
    }
    if (v->holder.seq != 0)
        write_id(w, "job", v->holder.hi, v->holder.seq);
}

static void write_keys(struct json_writer *w, const struct job_view *v)
{
    job_texts_write(w, &v->extra, false);
    write_time_if(w, "expires_at", v->expires_at);
    write_kv_keys_if(w, "keys_if_undelivered", v->extra.undelivered);
}

static void write_attributes(struct json_writer *w, const struct job_view *v)
{
    if (v->extra.attributes.len == 0)
        return;
    json_write_key(w, "attributes");
    json_write_raw(w, v->extra.attributes);
}

/* Names the parts that are not shown because the store returned damaged bytes. */
static void write_damage(struct json_writer *w, unsigned damage)
{
    if (damage == 0)
        return;
    json_write_key(w, "damaged");
    json_write_array(w);
    for (unsigned bit = 1; bit <= damage; bit <<= 1)
        if (damage & bit)
            json_write_text(w, span_text(damage_name(bit)));
    json_write_array_end(w);
}

static void write_error(struct json_writer *w, struct span packed, uint8_t kind)
{
    struct job_error e = job_error_split(packed);
    if (packed.len == 0)
        return;
    write_span(w, "error", e.text);
    write_text(w, "error_kind", error_kind_name(kind));
    write_span_if(w, "error_type", e.type);
    write_span_if(w, "stack", e.stack);
}

static void write_result(struct json_writer *w, const struct job_view *v, unsigned flags)
{
    if (v->has_body && (flags & VIEW_PAYLOAD)) {
        write_bytes(w, "payload", v->job.payload_kind, v->payload);
        if (v->result_kind != PAYLOAD_NONE)
            write_bytes(w, "result", v->result_kind, v->result);
    }
    /* A done job succeeded in the end; errors of earlier attempts are in its history. */
    if (v->job.state != STATE_DONE)
        write_error(w, v->error, v->error_kind);
    write_damage(w, v->damage);
}

void attempt_write(struct json_writer *w, const struct attempt_view *a)
{
    json_write_object(w);
    write_uint(w, "number", a->number);
    write_span(w, "worker", a->worker);
    write_time(w, "started_at", a->started_at);
    write_time(w, "ended_at", a->ended_at);
    write_text(w, "outcome", attempt_outcome_name((enum attempt_outcome)a->outcome));
    write_error(w, a->error, a->error_kind);
    json_write_object_end(w);
}

static void write_history(struct json_writer *w, const struct job_view *v)
{
    json_write_key(w, "history");
    json_write_array(w);
    for (uint32_t i = 0; i < v->attempt_count; i++)
        attempt_write(w, &v->attempts[i]);
    json_write_array_end(w);
}

void job_view_write(struct json_writer *w, const struct job_view *v, struct wall_time now,
                    unsigned flags)
{
    char uuid[ID_UUID_BYTES];
    json_write_object(w);
    write_job_name(w, v->job.id_hi, v->job.seq);
    id_uuid(id_make(v->job.id_hi, v->job.seq), uuid);
    write_text(w, "uuid", uuid);
    write_span(w, "queue", v->queue);
    write_state(w, v);
    write_counts(w, v);
    job_options_write(w, v->extra.options);
    write_times(w, v, now);
    write_keys(w, v);
    depends_write(w, v);
    write_attributes(w, v);
    write_uint(w, "payload_bytes", v->job.payload_bytes);
    write_result(w, v, flags);
    progress_write(w, v->progress);
    steps_write(w, v->steps);
    if (flags & VIEW_HISTORY)
        write_history(w, v);
    if ((flags & VIEW_LOG) && v->log.len)
        joblog_write(w, "log", v->log);
    json_write_object_end(w);
}

void job_claim_write(struct json_writer *w, const struct job_view *v, struct wall_time now)
{
    char token[TOKEN_TEXT_BYTES];
    json_write_object(w);
    write_job_name(w, v->job.id_hi, v->job.seq);
    write_span(w, "queue", v->queue);
    token_text(v->token, token);
    write_text(w, "token", token);
    write_uint(w, "attempt", job_attempts(&v->job));
    write_uint(w, "max_attempts", v->max_attempts);
    write_int(w, "priority", view_priority(v));
    write_uint(w, "lease_ms", v->lease_ms);
    write_time(w, "lease_until", lease_until(v->lease_left_ms, now));
    if (v->limits.timeout_ms != 0) {
        write_uint(w, "timeout_ms", v->limits.timeout_ms);
        write_time(w, "timeout_at", lease_until(v->limits.timeout_ms, now));
    }
    write_time(w, "created_at", id_time(v->job.id_hi));
    write_bytes(w, "payload", v->job.payload_kind, v->payload);
    write_keys(w, v);
    steps_write(w, v->steps);
    json_write_object_end(w);
}

void enqueued_write(struct json_writer *w, const struct enqueued_view *v)
{
    bool created = v->created && !v->repeat;
    if (v->seq == 0) {
        json_write_null(w);
        return;
    }
    json_write_object(w);
    write_job_name(w, v->id_hi, v->seq);
    write_text(w, "state", state_name(v->state));
    write_bool(w, "created", created);
    if (!created)
        write_id(w, "duplicate_of", v->id_hi, v->seq);
    if (v->replaced_seq != 0)
        write_uint(w, "replaced", v->replaced_seq);
    write_time_if(w, "run_at", v->run_at);
    json_write_object_end(w);
}
