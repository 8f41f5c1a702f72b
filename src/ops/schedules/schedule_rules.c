/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/schedules/schedule_rules.h"

#include "base/check.h"
#include "base/containers/map.h"
#include "base/json/json.h"
#include "core/limits.h"
#include "core/validate.h"

/* --- put, pause --- */

static enum outcome wrong(struct err_note *note, const char *text)
{
    (void)err_note_set(note, -ERR_INVALID, "%s", text);
    return OUT_INVALID;
}

enum outcome schedule_put_right(const struct op_schedule *want, bool there, uint64_t count,
                                struct err_note *note)
{
    if (there && want->must_create)
        return OUT_EXISTS;
    if (!there && want->must_exist)
        return OUT_NO_SCHEDULE;
    if (!there && validate_queue_name(want->name, note) != 0)
        return wrong(note, "the name of a schedule must have 1 to 200 bytes of UTF-8 without "
                           "control characters, and not begin with '-'");
    if (!there && count >= LIMIT_SCHEDULES)
        return OUT_SERVER_FULL;
    if (!there && !want->spec)
        return wrong(note, "a new schedule must define when it is due and which job it creates");
    if (want->spec && schedule_check(want->spec, note) != 0)
        return OUT_INVALID;
    if (want->next_at.ms < 0 || want->next_at.ms > LIMIT_WALL_MS || (!there && !want->next_at.ms))
        return wrong(note, "next_at must be a time before the year 10000");
    return OUT_OK;
}

int schedule_texts_right(struct span owner, struct span text, struct span attributes,
                         struct err_note *note)
{
    int err = validate_text("owner", owner, LIMIT_LABEL_BYTES, note);
    if (!err)
        err = validate_text("note", text, LIMIT_NOTE_BYTES, note);
    return err ? err : validate_text("attributes", attributes, LIMIT_NOTE_BYTES, note);
}

void schedule_restart(const struct op_schedule *want, struct schedule_state *state)
{
    state->retry_at = (struct wall_time){0};
    state->failures = 0;
    state->error = SCHEDULE_OK;
    if (want->next_at.ms)
        state->next_at = want->next_at;
}

/* --- rings --- */

/* Flows by their source. Numbers are indexes plus 1. */
struct sources {
    struct map128 first; /* of those with one source */
    uint32_t *next;      /* of those with the same source; 0 = none */
    uint32_t *todo;      /* whose queue is to be followed */
};

static struct hash128 key_of(struct span queue)
{
    return hash128_of((struct hash_key){1, 1}, queue); /* a ring of clashes only refuses a put */
}

static int sources_fill(const struct schedule_flow *flows, size_t count, struct arena *arena,
                        struct sources *ret)
{
    ret->next = arena_array(arena, count + 1, sizeof(*ret->next));
    ret->todo = arena_array(arena, count + 1, sizeof(*ret->todo));
    if (!ret->next || !ret->todo || map128_reserve(&ret->first, count) != 0)
        return -ERR_NOMEM;
    for (size_t i = 0; i < count; i++) {
        struct hash128 key = key_of(flows[i].source);
        ret->next[i] = (uint32_t)map128_get(&ret->first, key);
        CHECK(map128_put(&ret->first, key, i + 1) == 0);
    }
    return 0;
}

/* Each queue's flows are followed once: they leave the map when it is reached. */
static bool leads_to(const struct schedule_flow *flows, struct sources *sources, struct span from,
                     struct span to)
{
    size_t count = 0;
    for (;;) {
        struct hash128 key = key_of(from);
        uint32_t number = (uint32_t)map128_get(&sources->first, key);
        map128_drop(&sources->first, key);
        for (; number; number = sources->next[number - 1]) {
            if (span_equal(flows[number - 1].queue, to))
                return true;
            sources->todo[count++] = number;
        }
        if (count == 0)
            return false;
        from = flows[sources->todo[--count] - 1].queue;
    }
}

int schedule_ring(const struct schedule_flow *flows, size_t count, const struct schedule_flow *more,
                  struct arena *arena, bool *ret)
{
    struct sources sources;
    map128_init(&sources.first);
    int err = sources_fill(flows, count, arena, &sources);
    if (!err)
        *ret = leads_to(flows, &sources, more->queue, more->source);
    map128_done(&sources.first);
    return err;
}

/* --- fire, trigger --- */

static enum outcome due(const struct op_schedule *want, const struct schedule_state *state,
                        bool paused, const char **note)
{
    if (want->now)
        return OUT_OK;
    if (paused || want->at.ms < state->next_at.ms || want->at.ms <= state->last_at.ms)
        return OUT_NOT_DUE;
    *note = "next_at must be later than the time that is fired";
    return want->next_at.ms <= want->at.ms || want->next_at.ms > LIMIT_WALL_MS ? OUT_INVALID
                                                                               : OUT_OK;
}

enum outcome schedule_fire_right(const struct op *op, const struct schedule_spec *spec,
                                 const struct schedule_state *state, bool paused,
                                 struct wall_time now, const char **note)
{
    const struct op_schedule *want = &op->schedule;
    bool takes_items = spec->kind == SCHEDULE_QUEUE;
    *note = takes_items ? "this schedule takes items of a queue: it is triggered"
                        : "this schedule goes by the clock: it is fired";
    if (takes_items != (op->kind == OP_TRIGGER))
        return OUT_INVALID;
    /* An eager trigger is due whenever there are items. */
    if (!takes_items || !spec->eager || want->now || paused)
        return due(want, state, paused, note);
    *note = "next_at must be later than now";
    return want->next_at.ms <= now.ms || want->next_at.ms > LIMIT_WALL_MS ? OUT_INVALID : OUT_OK;
}

struct schedule_state schedule_moved_on(const struct op_schedule *want,
                                        const struct schedule_state *before)
{
    struct schedule_state state = *before;
    if (!want->now) {
        state.next_at = want->next_at;
        state.last_at = want->at;
        state.missed += want->missed;
    }
    state.retry_at = (struct wall_time){0};
    state.failures = 0;
    state.error = SCHEDULE_OK;
    return state;
}

static uint8_t error_of(enum outcome o)
{
    static const uint8_t errors[OUT_COUNT] = {
        [OUT_QUEUE_FULL] = SCHEDULE_QUEUE_FULL,   [OUT_SERVER_FULL] = SCHEDULE_SERVER_FULL,
        [OUT_QUEUES_FULL] = SCHEDULE_SERVER_FULL, [OUT_REFUSED_NEW] = SCHEDULE_REFUSED_NEW,
        [OUT_TOO_BIG] = SCHEDULE_TOO_BIG,         [OUT_NO_QUEUE] = SCHEDULE_NO_QUEUE,
        [OUT_INVALID] = SCHEDULE_INVALID,         [OUT_RATE_LIMIT] = SCHEDULE_RATE_LIMITED,
    };
    return errors[o] ? errors[o] : SCHEDULE_OTHER;
}

/* Trouble of the server's own is not the schedule's: it is due again when that has passed. */
bool schedule_failed(const struct op_schedule *want, enum outcome why, struct wall_time now,
                     struct schedule_state *state)
{
    if (want->now || why == OUT_UNAVAILABLE || why == OUT_DISK_FULL)
        return false;
    state->failures += state->failures < UINT32_MAX;
    state->error = error_of(why);
    state->retry_at.ms = now.ms + schedule_retry_ms(state->failures);
    if (state->retry_at.ms > LIMIT_WALL_MS)
        state->retry_at.ms = LIMIT_WALL_MS;
    return true;
}

/* --- what is enqueued --- */

void schedule_enqueue(const struct schedule_spec *spec, struct wall_time now,
                      struct job_options *options, struct op_enqueue *ret)
{
    bool own = spec->extra.options.len > 0 && options_decode(spec->extra.options, options) == 0;
    *ret = (struct op_enqueue){
        .queue = spec->queue,
        .payload_kind = spec->payload_kind,
        .unique_mode = spec->unique_mode,
        .has_priority = spec->has_priority,
        .priority = spec->priority,
        .delay_ms = spec->delay_ms,
        .payload = spec->payload,
        .extra = spec->extra,
        .options = own ? options : NULL,
    };
    int64_t room = LIMIT_WALL_MS - now.ms;
    if (spec->expires_in_ms)
        ret->extra.expires_at.ms =
            spec->expires_in_ms > room ? LIMIT_WALL_MS : now.ms + spec->expires_in_ms;
}

static void write_text(struct json_writer *w, const char *key, struct span text)
{
    json_write_key(w, key);
    json_write_text(w, text);
}

/* Which schedule created the job, and for what time. */
static void write_origin(struct json_writer *w, const struct schedule_origin *o)
{
    char time[WALL_TEXT_BYTES];
    wall_text(o->at, time);
    write_text(w, "source", SPAN_LITERAL("TRIGGER"));
    write_text(w, "schedule", o->name);
    if (o->owner.len > 0) { /* an API's, which knows it by its number */
        write_text(w, "owner", o->owner);
        json_write_key(w, "number");
        json_write_uint(w, o->number);
    }
    write_text(w, "fire_time", span_text(time));
}

/* Schedules of APIs name their items by UUID, as those APIs do; those of /v1 by ULID. */
static void write_item(struct json_writer *w, const struct schedule_item *item, bool uuid,
                       bool token)
{
    char text[ID_UUID_BYTES > TOKEN_TEXT_BYTES ? ID_UUID_BYTES : TOKEN_TEXT_BYTES];
    if (uuid)
        id_uuid(id_make(item->id_hi, item->seq), text);
    else
        id_ulid(id_make(item->id_hi, item->seq), text);
    if (!token) {
        json_write_text(w, span_text(text));
        return;
    }
    json_write_object(w);
    write_text(w, "id", span_text(text));
    token_text(item->token, text);
    write_text(w, "token", span_text(text));
    json_write_object_end(w);
}

static void write_items(struct json_writer *w, const struct schedule_item *items, size_t count,
                        bool uuid, bool token)
{
    json_write_key(w, "items");
    json_write_array(w);
    for (size_t i = 0; i < count; i++)
        write_item(w, &items[i], uuid, token);
    json_write_array_end(w);
}

int schedule_job_text(const struct schedule_origin *origin, const struct schedule_spec *spec,
                      const struct schedule_item *items, size_t count, struct buf *out,
                      size_t *ret_split)
{
    struct json_writer w;
    json_writer_init(&w, out);
    json_write_object(&w);
    write_origin(&w, origin);
    if (count)
        write_items(&w, items, count, origin->owner.len > 0, false);
    json_write_object_end(&w);
    int err = json_writer_finish(&w);
    *ret_split = out->len;
    if (err || count == 0)
        return err;
    json_writer_init(&w, out);
    json_write_object(&w);
    write_origin(&w, origin);
    write_items(&w, items, count, origin->owner.len > 0, true);
    if (spec->payload_kind == PAYLOAD_JSON) {
        json_write_key(&w, "payload");
        json_write_raw(&w, spec->payload);
    }
    json_write_object_end(&w);
    return json_writer_finish(&w);
}
