/* SPDX-License-Identifier: Apache-2.0 */
#include "api/v1/schedules/schedule_fields.h"

#include "api/fields/job_text_fields.h"
#include "api/json_members.h"
#include "api/v1/jobs/job_view.h"
#include "api/v1/queues/policy_fields.h"
#include "core/limits.h"
#include "core/schedules/cron.h"

static const char *const gaps[] = {"skip", "run_after", NULL};
static const char *const folds[] = {"once", "twice", NULL};
static const char *const misfires[] = {"skip", "once", "all", NULL};
static const char *const overlaps[] = {"allow", "skip", NULL};
static const char *const unique_modes[] = {"reject", "return", "replace", NULL};

#define AT(member) offsetof(struct schedule_in, member)
#define EVERY_MAX ((int64_t)LIMIT_EVERY_MS)
static const struct field rows[] = {
    {"queue", FIELD_TEXT, AT(queue), 0, LIMIT_QUEUE_NAME_BYTES, NULL, 0},
    {"cron", FIELD_TEXT, AT(cron), 0, CRON_BYTES_MAX, NULL, 0},
    {"timezone", FIELD_TEXT, AT(timezone), 0, 64, NULL, 0},
    {"dst_gap", FIELD_ENUM, AT(dst_gap), 0, 0, gaps, 0},
    {"dst_fold", FIELD_ENUM, AT(dst_fold), 0, 0, folds, 0},
    {"every_ms", FIELD_INT, AT(every_ms), LIMIT_EVERY_MS_MIN, EVERY_MAX, NULL, 0},
    {"start_at", FIELD_TIME, AT(start_at), 0, 0, NULL, 0},
    {"misfire", FIELD_ENUM, AT(misfire), MISFIRE_SKIP, 0, misfires, 0},
    {"misfire_window_ms", FIELD_INT, AT(misfire_window_ms), 0, EVERY_MAX, NULL, 0},
    {"overlap", FIELD_ENUM, AT(overlap), OVERLAP_ALLOW, 0, overlaps, 0},
    {"source_queue", FIELD_TEXT, AT(source_queue), 0, LIMIT_QUEUE_NAME_BYTES, NULL, 0},
    {"batch_size", FIELD_INT, AT(batch_size), 1, LIMIT_BATCH_SIZE, NULL, 0},
    {"interval_ms", FIELD_INT, AT(interval_ms), LIMIT_EVERY_MS_MIN, EVERY_MAX, NULL, 0},
    {"eager", FIELD_BOOL, AT(eager), 0, 0, NULL, 0},
    {"job", FIELD_RAW, AT(job_text), 0, 0, NULL, 0},
    {"paused", FIELD_BOOL, AT(paused), 0, 0, NULL, 0},
    {"description", FIELD_TEXT, AT(note), 0, LIMIT_NOTE_BYTES, NULL, 0},
    {"owner", FIELD_TEXT, AT(owner), 0, LIMIT_LABEL_BYTES, NULL, 0},
};
#undef AT

#define AT(member) offsetof(struct schedule_job_in, member)
static const struct field job_rows[] = {
    {"payload", FIELD_RAW, AT(payload), 0, 0, NULL, 0},
    {"priority", FIELD_PRIORITY, AT(priority), 0, 0, NULL, 0},
    {"delay_ms", FIELD_INT, AT(delay_ms), 0, LIMIT_WALL_MS, NULL, 0},
    {"expires_in_ms", FIELD_INT, AT(expires_in_ms), 1, LIMIT_WALL_MS, NULL, 0},
    JOB_TEXT_FIELDS JOB_OPTION_FIELDS /* of the job */
    {"unique_mode", FIELD_ENUM, AT(unique_mode), UNIQUE_REJECT, 0, unique_modes, 0},
    {"backoff_ms", FIELD_STEPS, AT(options.backoff), 0, 0, NULL, 0},
};
#undef AT

struct fields schedule_fields(void)
{
    return FIELDS(rows);
}

void schedule_in_new(struct schedule_in *in)
{
    *in = (struct schedule_in){
        .queue = SPAN_LITERAL(SCHEDULE_QUEUE_DEFAULT),
        .interval_ms = SCHEDULE_LOOK_MS,
        .batch_size = 1,
        .misfire = MISFIRE_ONCE,
        .misfire_window_ms = (int64_t)SCHEDULE_WINDOW_MS,
    };
}

int schedule_in_from(struct schedule_in *in, const struct schedule_spec *s)
{
    struct job_options o = {0};
    if (s->extra.options.len > 0 && options_decode(s->extra.options, &o) < 0)
        return -ERR_CORRUPT;
    *in = (struct schedule_in){
        .queue = s->queue,
        .cron = s->cron,
        .timezone = s->zone,
        .source_queue = s->source,
        .every_ms = (int64_t)s->every_ms,
        .interval_ms = s->kind == SCHEDULE_QUEUE ? (int64_t)s->every_ms : SCHEDULE_LOOK_MS,
        .batch_size = s->kind == SCHEDULE_QUEUE ? s->batch_size : 1,
        .misfire_window_ms = (int64_t)s->misfire_window_ms,
        .start_at = s->start_at,
        .dst_gap = s->run_after_gap,
        .dst_fold = s->fold_twice,
        .misfire = s->misfire,
        .overlap = s->overlap,
        .eager = s->eager,
        .kind = s->kind,
        .job = {.payload = s->payload,
                .priority = {.value = s->priority},
                .has_priority = s->has_priority,
                .delay_ms = s->delay_ms,
                .expires_in_ms = s->expires_in_ms,
                .unique_mode = s->unique_mode,
                .options = {.max_attempts = o.max_attempts,
                            .max_crashes = o.max_crashes,
                            .lease_ms = o.lease_ms,
                            .timeout_ms = o.timeout_ms,
                            .backoff = o.backoff},
                .has_backoff = o.has_backoff},
    };
    job_texts_set(&in->job, &s->extra);
    return 0;
}

/* ---- taking ---- */

/* Members that determine the kind of the schedule. */
static const struct {
    const char *name;
    uint8_t kind;
} kinds[] = {
    {"cron", SCHEDULE_CRON}, {"every_ms", SCHEDULE_INTERVAL}, {"source_queue", SCHEDULE_QUEUE}};

static int take_kind(struct schedule_in *in, const struct field_reader *r)
{
    uint8_t kind = 0;
    for (size_t i = 0; i < 3; i++) {
        if (!fields_has(r, kinds[i].name))
            continue;
        if (kind) {
            problem_set(r->problem, r->arena, PROBLEM_INVALID_FIELD, kinds[i].name,
                        "a schedule has one of cron, every_ms and source_queue, not several");
            return -ERR_INVALID;
        }
        kind = kinds[i].kind;
    }
    if (!kind && !in->kind) {
        problem_set(
            r->problem, r->arena, PROBLEM_MISSING_FIELD, "cron",
            "one of cron, every_ms and source_queue is missing: it says when the schedule is due");
        return -ERR_INVALID;
    }
    in->kind = kind ? kind : in->kind;
    return 0;
}

#define K(kind) (1u << SCHEDULE_##kind)
static const struct {
    const char *name;
    unsigned kinds;
    const char *where;
} only[] = {
    {"timezone", K(CRON), "cron"},
    {"dst_gap", K(CRON), "cron"},
    {"dst_fold", K(CRON), "cron"},
    {"start_at", K(INTERVAL) | K(QUEUE), "every_ms or source_queue"},
    {"misfire", K(CRON) | K(INTERVAL), "cron or every_ms"},
    {"misfire_window_ms", K(CRON) | K(INTERVAL), "cron or every_ms"},
    {"batch_size", K(QUEUE), "source_queue"},
    {"interval_ms", K(QUEUE), "source_queue"},
    {"eager", K(QUEUE), "source_queue"},
};

/* A member that has no effect is refused, not ignored. */
static int check_fit(const struct schedule_in *in, const struct field_reader *r)
{
    for (size_t i = 0; i < sizeof only / sizeof *only; i++) {
        if (!fields_has(r, only[i].name) || (only[i].kinds >> in->kind & 1))
            continue;
        problem_set(r->problem, r->arena, PROBLEM_INVALID_FIELD, only[i].name,
                    "%s is only for a schedule with %s", only[i].name, only[i].where);
        return -ERR_INVALID;
    }
    return 0;
}

int schedule_spec_keep(struct arena *arena, struct schedule_spec *s)
{
    struct span *texts[] = {&s->cron,  &s->zone,    &s->source,
                            &s->queue, &s->payload, &s->extra.options};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (!arena_keep(arena, texts[i]))
            return -ERR_NOMEM;
    return job_texts_keep(arena, &s->extra);
}

static int take_job(struct schedule_in *in, const struct field_reader *outer)
{
    struct schedule_job_in *job = &in->job;
    if (!fields_has(outer, "job"))
        return 0;
    struct field_reader r = {.table = FIELDS(job_rows),
                             .broker = outer->broker,
                             .arena = outer->arena,
                             .problem = outer->problem,
                             .into = job};
    r.name = "job";
    int err = fields_read(&r, in->job_text);
    if (err == 0)
        err = fields_exclude(&r, "backoff_ms", "backoff");
    if (err < 0)
        return err;
    job->has_priority = job->has_priority || fields_has(&r, "priority");
    job->has_backoff =
        job->has_backoff || fields_has(&r, "backoff") || fields_has(&r, "backoff_ms");
    if (job->priority.label.len > 0 && !fields_has(&r, "priority_label"))
        job->label = job->priority.label;
    return 0;
}

static int take_options(const struct schedule_job_in *job, const struct field_reader *r,
                        struct span *ret)
{
    struct job_options o = job_options_of(&job->options, job->has_backoff);
    struct buf encoded;
    *ret = (struct span){NULL, 0};
    if (options_empty(&o))
        return 0;
    buf_init(&encoded);
    int err = options_encode(&o, &encoded);
    char *copy = err == 0 ? arena_copy(r->arena, encoded.data, encoded.len) : NULL;
    *ret = span_of(copy, copy ? encoded.len : 0);
    buf_done(&encoded);
    if (copy)
        return 0;
    problem_of_error(r->problem, -ERR_NOMEM);
    return -ERR_INVALID;
}

static void fill_spec(const struct schedule_in *in, struct schedule_spec *s)
{
    const struct schedule_job_in *job = &in->job;
    *s = (struct schedule_spec){
        .kind = in->kind,
        .overlap = in->overlap,
        .misfire = in->misfire,
        .misfire_window_ms = (uint64_t)in->misfire_window_ms,
        .queue = in->queue,
        .payload = job->payload,
        .payload_kind = job->payload.len > 0 ? PAYLOAD_JSON : PAYLOAD_NONE,
        .has_priority = job->has_priority,
        .priority = job->priority.value,
        .delay_ms = job->delay_ms,
        .expires_in_ms = job->expires_in_ms,
        .unique_mode = job->unique_mode,
    };
    job_texts_set(&s->extra, job);
    if (in->kind == SCHEDULE_CRON) {
        s->cron = in->cron;
        s->zone = in->timezone;
        s->run_after_gap = in->dst_gap != 0;
        s->fold_twice = in->dst_fold != 0;
    } else {
        s->start_at = in->start_at;
        s->every_ms = (uint64_t)(in->kind == SCHEDULE_QUEUE ? in->interval_ms : in->every_ms);
    }
    if (in->kind == SCHEDULE_QUEUE) {
        s->source = in->source_queue;
        s->batch_size = (uint32_t)in->batch_size;
        s->eager = in->eager;
    }
}

int schedule_in_take(struct schedule_in *in, const struct field_reader *r, struct broker *b,
                     struct schedule_spec *ret)
{
    struct err_note note = {""};
    uint8_t before = in->kind;
    int err = take_kind(in, r);
    if (err == 0)
        err = check_fit(in, r);
    if (err == 0)
        err = take_job(in, r);
    if (err < 0)
        return err;
    fill_spec(in, ret);
    if (take_options(&in->job, r, &ret->extra.options) < 0)
        return -ERR_INVALID;
    /* A changed expression gets the matching defaults, unless they are given. */
    bool kept = before == SCHEDULE_CRON && !fields_has(r, "cron");
    if (broker_schedule_fill(b, ret, kept || fields_has(r, "dst_gap"),
                             kept || fields_has(r, "dst_fold"), &note) == 0)
        return 0;
    problem_set(r->problem, r->arena, PROBLEM_INVALID_FIELD,
                problem_note_field(r->arena, note.text), "%s", note.text);
    return -ERR_INVALID;
}

/* ---- writing ---- */

static void write_timing(struct json_writer *w, const struct schedule_spec *s)
{
    if (s->kind == SCHEDULE_CRON) {
        write_span(w, "cron", s->cron);
        write_span(w, "timezone", s->zone.len ? s->zone : SPAN_LITERAL("UTC"));
        write_text(w, "dst_gap", gaps[s->run_after_gap]);
        write_text(w, "dst_fold", folds[s->fold_twice]);
    } else if (s->kind == SCHEDULE_INTERVAL) {
        write_uint(w, "every_ms", s->every_ms);
        write_time(w, "start_at", s->start_at);
    } else {
        write_span(w, "source_queue", s->source);
        write_uint(w, "batch_size", s->batch_size);
        write_uint(w, "interval_ms", s->every_ms);
        write_time(w, "start_at", s->start_at);
        write_bool(w, "eager", s->eager);
    }
    if (s->kind != SCHEDULE_QUEUE) {
        write_text(w, "misfire", misfires[s->misfire]);
        write_uint(w, "misfire_window_ms", s->misfire_window_ms);
    }
    write_text(w, "overlap", overlaps[s->overlap]);
}

static void write_job(struct json_writer *w, const struct schedule_spec *s)
{
    write_object(w, "job");
    if (s->payload_kind != PAYLOAD_NONE)
        write_bytes(w, "payload", s->payload_kind, s->payload);
    if (s->has_priority)
        write_int(w, "priority", s->priority);
    if (s->delay_ms != 0)
        write_int(w, "delay_ms", s->delay_ms);
    if (s->expires_in_ms != 0)
        write_int(w, "expires_in_ms", s->expires_in_ms);
    job_texts_write(w, &s->extra, false);
    if (s->unique_mode != UNIQUE_QUEUE_DEFAULT)
        write_text(w, "unique_mode", unique_modes[s->unique_mode - UNIQUE_REJECT]);
    job_options_write(w, s->extra.options);
    json_write_object_end(w);
}

void schedule_spec_write(struct json_writer *w, const struct schedule_spec *s)
{
    write_text(w, "type", schedule_kind_name(s->kind));
    write_span(w, "queue", s->queue);
    write_timing(w, s);
    write_job(w, s);
}

static void write_state(struct json_writer *w, const struct schedule_view *v, struct wall_time now)
{
    const struct schedule_state *s = &v->state;
    struct wall_time next = v->paused ? (struct wall_time){0} : schedule_next(&v->spec, s, now);
    write_time(w, "next_at", next);
    write_time(w, "last_at", s->last_at);
    write_time(w, "last_fired_at", s->fired_at);
    json_write_key(w, "last_job");
    if (s->seq != 0) {
        json_write_object(w);
        write_job_name(w, s->id_hi, s->seq);
        write_bool(w, "live", v->last_live);
        json_write_object_end(w);
    } else {
        json_write_null(w);
    }
    if (v->spec.kind == SCHEDULE_QUEUE)
        write_uint(w, "last_item", s->item);
    write_uint(w, "fired", s->fired);
    write_uint(w, "missed", s->missed);
    write_uint(w, "consecutive_failures", s->failures);
    if (s->failures > 0) {
        write_text(w, "last_error", schedule_error_name(s->error));
        write_time(w, "retry_at", s->retry_at);
    }
}

void schedule_view_write(struct json_writer *w, const struct schedule_view *v, struct wall_time now)
{
    json_write_object(w);
    write_span(w, "name", v->name);
    write_span_if(w, "owner", v->owner);
    write_bool(w, "paused", v->paused);
    schedule_spec_write(w, &v->spec);
    write_span(w, "description", v->note);
    write_time(w, "created_at", v->created_at);
    write_time(w, "updated_at", v->updated_at);
    write_state(w, v, now);
    json_write_object_end(w);
}
