/* SPDX-License-Identifier: Apache-2.0 */
/* Triggers in the document's terms: schedules that this API owns. The id is the schedule's
 * number, polling_interval the schedule's interval in seconds, enabled the opposite of paused.
 * Members of the schedule that were set through /v1 and that the document does not have stay
 * unchanged. */
#include "api/json_members.h"
#include "api/orchestrator/orchestrator_impl.h"
#include "core/limits.h"
#include "core/schedules/cron.h"
#include "core/validate.h"

#define INTERVAL_MAX ((int64_t)(LIMIT_EVERY_MS / 1000))

#define AT(member) offsetof(struct orc_trigger, member)
static const struct field rows[] = {
    {"name", FIELD_TEXT, AT(name), 0, LIMIT_QUEUE_NAME_BYTES, NULL, FIELD_OPTIONAL},
    {"type", FIELD_TEXT, AT(type), 0, LIMIT_LABEL_BYTES, NULL, FIELD_OPTIONAL},
    {"description", FIELD_TEXT, AT(description), 0, LIMIT_NOTE_BYTES, NULL, FIELD_OPTIONAL},
    {"queue_id", FIELD_INT, AT(queue_id), INT64_MIN, INT64_MAX, NULL, FIELD_OPTIONAL},
    {"cron", FIELD_TEXT, AT(cron), 0, CRON_BYTES_MAX, NULL, FIELD_OPTIONAL},
    {"timezone", FIELD_TEXT, AT(timezone), 0, 64, NULL, FIELD_OPTIONAL},
    {"target_queue", FIELD_TEXT, AT(target_queue), 0, LIMIT_QUEUE_NAME_BYTES, NULL, FIELD_OPTIONAL},
    {"batch_size", FIELD_INT, AT(batch_size), 1, LIMIT_BATCH_SIZE, NULL, FIELD_OPTIONAL},
    {"polling_interval", FIELD_INT, AT(polling_interval), 1, INTERVAL_MAX, NULL, FIELD_OPTIONAL},
    {"eager", FIELD_BOOL, AT(eager), 0, 0, NULL, FIELD_OPTIONAL},
    {"enabled", FIELD_BOOL, AT(enabled), 0, 0, NULL, FIELD_OPTIONAL},
    {"payload", FIELD_RAW, AT(payload), 0, 0, NULL, FIELD_OPTIONAL},
};

static const char *const types[] = {"TIME", "QUEUE", NULL};

static bool takes_items(const struct orc_trigger *t)
{
    return t->spec.kind == SCHEDULE_QUEUE;
}

void orc_trigger_new(struct orc_trigger *t)
{
    *t = (struct orc_trigger){.fresh = true,
                              .target_queue = SPAN_LITERAL(SCHEDULE_QUEUE_DEFAULT),
                              .batch_size = 1,
                              .polling_interval = SCHEDULE_LOOK_MS / 1000,
                              .enabled = true};
}

void orc_trigger_from(struct orc_trigger *t, const struct schedule_view *v)
{
    const struct schedule_spec *s = &v->spec;
    *t = (struct orc_trigger){
        .name = v->name,
        .type = span_text(types[s->kind == SCHEDULE_QUEUE]),
        .description = v->note,
        .cron = s->cron,
        .timezone = s->zone,
        .target_queue = s->queue,
        .payload = s->payload,
        .batch_size = s->batch_size,
        .polling_interval = (int64_t)(s->every_ms / 1000),
        .eager = s->eager,
        .enabled = !v->paused,
        .spec = *s,
    };
}

/* ---- reading ---- */

static int wrong(const struct field_reader *r, enum problem_code code, const char *field,
                 const char *detail)
{
    problem_set(r->problem, r->arena, code, field, "%s", detail);
    return -ERR_INVALID;
}

/* A new trigger gets its kind from the request; an existing one keeps it. */
static int take_type(const struct field_reader *r, struct orc_trigger *t)
{
    bool queue = orc_same_name(t->type, types[1]);
    if (!fields_has(r, "type") && !t->fresh)
        return 0;
    if (!fields_has(r, "type"))
        return wrong(r, PROBLEM_MISSING_FIELD, "type", "type is missing: TIME or QUEUE");
    if (!queue && !orc_same_name(t->type, types[0])) {
        int err = wrong(r, PROBLEM_INVALID_FIELD, "type", "type must be TIME or QUEUE");
        r->problem->allowed = types;
        r->problem->allowed_count = 2;
        return err;
    }
    if (t->fresh)
        schedule_default(&t->spec, queue ? SCHEDULE_QUEUE : SCHEDULE_CRON);
    else if (queue != takes_items(t))
        return wrong(r, PROBLEM_INVALID_FIELD, "type",
                     "type cannot be changed; create another trigger");
    return 0;
}

/* A member that has no effect is refused, not ignored. */
static int check_fit(const struct field_reader *r, const struct orc_trigger *t)
{
    static const struct {
        const char *name;
        bool queue;
    } only[] = {{"queue_id", true}, {"batch_size", true}, {"polling_interval", true},
                {"eager", true},    {"cron", false},      {"timezone", false}};
    for (size_t i = 0; i < sizeof only / sizeof *only; i++) {
        if (!fields_has(r, only[i].name) || only[i].queue == takes_items(t))
            continue;
        problem_set(r->problem, r->arena, PROBLEM_INVALID_FIELD, only[i].name,
                    "%s is only for a trigger of type %s", only[i].name, types[only[i].queue]);
        return -ERR_INVALID;
    }
    return 0;
}

static int check_needs(const struct field_reader *r, const struct orc_trigger *t)
{
    if (t->fresh && takes_items(t) && !t->has_queue)
        return wrong(r, PROBLEM_MISSING_FIELD, "queue_id",
                     "queue_id is missing: a QUEUE trigger takes the items of a queue");
    if (t->fresh && !takes_items(t) && !t->has_cron)
        return wrong(r, PROBLEM_MISSING_FIELD, "cron",
                     "cron is missing: a TIME trigger fires at the times of a cron expression");
    return 0;
}

static int check_name(const struct field_reader *r, const struct orc_trigger *t, struct span before)
{
    struct err_note note;
    if (!fields_has(r, "name"))
        return 0;
    if (!t->fresh && !span_equal(t->name, before))
        return wrong(r, PROBLEM_INVALID_FIELD, "name",
                     "name cannot be changed; create another trigger");
    if (t->fresh && validate_queue_name(t->name, &note) != 0)
        return wrong(r, PROBLEM_INVALID_FIELD, "name", note.text);
    return 0;
}

bool orc_trigger_take(struct call *c, struct orc_trigger *t)
{
    struct problem p;
    struct span before = t->name;
    struct field_reader r = reader_of(c->broker, c->x, FIELDS(rows), t, &p);
    int err = fields_read(&r, http_request(c->x)->body);
    if (err == 0)
        err = check_name(&r, t, before);
    if (err == 0)
        err = take_type(&r, t);
    if (err == 0)
        err = check_fit(&r, t);
    if (err == 0) {
        t->has_queue = fields_has(&r, "queue_id");
        t->has_cron = fields_has(&r, "cron");
        err = check_needs(&r, t);
    }
    if (err < 0)
        problem_answer(c->x, &p);
    return err == 0;
}

/* ---- as a schedule ---- */

void orc_trigger_problem(struct arena *arena, struct problem *p, const char *note)
{
    const char *field = problem_note_field(arena, note);
    if (field && span_equal(span_text(field), SPAN_LITERAL("queue")))
        problem_set(p, arena, PROBLEM_INVALID_FIELD, "target_queue", "target_%s", note);
    else if (field && span_equal(span_text(field), SPAN_LITERAL("source_queue")))
        problem_set(p, arena, PROBLEM_INVALID_FIELD, "target_queue",
                    "target_queue must not be the queue of queue_id, nor lead back to it through "
                    "other triggers: the loop would never end");
    else
        problem_set(p, arena, PROBLEM_INVALID_FIELD, field, "%s", note);
}

static void fill_spec(struct orc_trigger *t)
{
    struct schedule_spec *s = &t->spec;
    s->queue = t->target_queue;
    s->payload = t->payload;
    s->payload_kind = t->payload.len > 0 ? PAYLOAD_JSON : PAYLOAD_NONE;
    s->extra.correlation = ORC_CORRELATION;
    if (takes_items(t)) {
        s->every_ms = (uint64_t)t->polling_interval * 1000;
        s->batch_size = (uint32_t)t->batch_size;
        s->eager = t->eager;
        return;
    }
    if (t->has_cron) { /* also for one that was changed to an interval through /v1 */
        s->kind = SCHEDULE_CRON;
        s->every_ms = 0;
        s->start_at = (struct wall_time){0};
    }
    s->cron = t->cron;
    s->zone = t->timezone;
}

bool orc_trigger_complete(struct call *c, struct orc_trigger *t)
{
    struct err_note note = {""};
    struct problem p;
    fill_spec(t);
    /* A changed expression gets the matching defaults for daylight saving time. */
    bool kept = !t->fresh && !t->has_cron;
    if (broker_schedule_fill(c->broker, &t->spec, kept, kept, &note) == 0)
        return true;
    orc_trigger_problem(c->arena, &p, note.text);
    problem_answer(c->x, &p);
    return false;
}

/* ---- writing ---- */

static void write_definition(struct json_writer *w, const struct schedule_view *v,
                             uint32_t queue_id)
{
    const struct schedule_spec *s = &v->spec;
    bool queue = s->kind == SCHEDULE_QUEUE;
    struct span none = {NULL, 0}, utc = SPAN_LITERAL("UTC");
    write_text(w, "type", types[queue]);
    orc_write_text(w, "description", v->note);
    orc_write_text(w, "cron", s->cron);
    orc_write_text(w, "timezone", queue ? none : s->zone.len ? s->zone : utc);
    orc_write_number(w, "queue_id", queue_id ? (int64_t)queue_id : -1);
    write_span(w, "target_queue", s->queue);
    orc_write_number(w, "batch_size", queue ? (int64_t)s->batch_size : -1);
    orc_write_number(w, "polling_interval", queue ? (int64_t)(s->every_ms / 1000) : -1);
    write_bool(w, "eager", s->eager);
    write_bool(w, "enabled", !v->paused);
    write_bytes(w, "payload", s->payload_kind, s->payload);
}

static void write_item_id(struct json_writer *w, struct job_ref item)
{
    char uuid[ID_UUID_BYTES];
    id_uuid(id_make(item.hi, item.seq), uuid);
    orc_write_text(w, "last_processed_item_id",
                   item.seq ? span_text(uuid) : (struct span){NULL, 0});
}

void orc_trigger_write(struct json_writer *w, const struct schedule_view *v, uint32_t queue_id,
                       struct job_ref item, struct wall_time now)
{
    const struct schedule_state *s = &v->state;
    struct wall_time never = {0};
    bool lost = v->spec.kind == SCHEDULE_QUEUE && queue_id == 0;
    json_write_object(w);
    write_uint(w, "id", v->number);
    write_span(w, "name", v->name);
    write_definition(w, v, queue_id);
    write_time(w, "last_fired_at", s->fired_at);
    write_time(w, "next_fire_at", v->paused || lost ? never : schedule_next(&v->spec, s, now));
    write_item_id(w, item);
    orc_write_number(w, "last_job_id", s->seq ? (int64_t)s->seq : -1);
    write_uint(w, "fired", s->fired);
    write_uint(w, "consecutive_failures", s->failures);
    const char *error = lost ? "queue_deleted" : s->failures ? schedule_error_name(s->error) : NULL;
    orc_write_text(w, "last_error", error ? span_text(error) : (struct span){NULL, 0});
    write_time(w, "retry_at", s->failures ? s->retry_at : never);
    write_time(w, "created_at", v->created_at);
    write_time(w, "updated_at", v->updated_at);
    json_write_object_end(w);
}
