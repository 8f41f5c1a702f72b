/* SPDX-License-Identifier: Apache-2.0 */
/* Queues in the document's terms. The id is the engine's queue number. The queue's attributes
 * hold members that a policy does not have: external_id and a new name. */
#include <stdio.h>

#include "api/json_members.h"
#include "api/orchestrator/orchestrator_impl.h"
#include "base/digest/random.h"
#include "core/limits.h"

#define DAY_MS (INT64_C(24) * 3600 * 1000)
#define LEASE_SECONDS 300
#define RETENTION_DAYS 30
#define MAX_CRASHES 5

#define AT(member) offsetof(struct orc_queue, member)
static const struct field rows[] = {
    [ORC_QUEUE_NAME] = {"name", FIELD_TEXT, AT(name), 0, LIMIT_QUEUE_NAME_BYTES, NULL,
                        FIELD_OPTIONAL},
    [ORC_QUEUE_DESCRIPTION] = {"description", FIELD_TEXT, AT(description), 0, LIMIT_NOTE_BYTES,
                               NULL, FIELD_OPTIONAL},
    [ORC_QUEUE_RETRIES] = {"max_retries", FIELD_INT, AT(max_retries), 0, LIMIT_ATTEMPTS - 1, NULL,
                           FIELD_OPTIONAL},
    [ORC_QUEUE_UNIQUE] = {"enforce_unique_reference", FIELD_BOOL, AT(unique), 0, 0, NULL,
                          FIELD_OPTIONAL},
    [ORC_QUEUE_ACTIVE] = {"is_active", FIELD_BOOL, AT(active), 0, 0, NULL, FIELD_OPTIONAL},
    [ORC_QUEUE_LEASE] = {"lease_seconds", FIELD_INT, AT(lease_seconds), 1, LIMIT_LEASE_MS / 1000,
                         NULL, FIELD_OPTIONAL},
    [ORC_QUEUE_RETENTION] = {"retention_days", FIELD_INT, AT(retention_days), 0, 36500, NULL,
                             FIELD_OPTIONAL},
};

struct fields orc_queue_fields(void)
{
    return FIELDS(rows);
}

void orc_queue_default(struct orc_queue *q)
{
    *q = (struct orc_queue){
        .lease_seconds = LEASE_SECONDS, .retention_days = RETENTION_DAYS, .active = true};
}

/* A policy that was set through /v1 may have values that the document cannot express; then the
 * nearest ones are shown. A change of another member does not write them back. */
static int64_t days_of(int64_t keep_ms)
{
    int64_t days = keep_ms / DAY_MS;
    return keep_ms == INT64_MAX ? 0 : days > 0 ? days : 1;
}

void orc_queue_from(struct orc_queue *q, const struct queue_view *view)
{
    const struct queue_policy *p = view->policy;
    *q = (struct orc_queue){
        .name = orc_queue_name(view),
        .description = view->note,
        .max_retries = p->max_attempts - 1,
        .lease_seconds = p->lease_ms / 1000 ? p->lease_ms / 1000 : 1,
        .retention_days = days_of(p->keep_done_ms),
        .unique = p->unique_scope == UNIQUE_KEPT,
        .active = !p->refuse_new,
    };
}

void orc_queue_policy(const struct orc_queue *q, const struct queue_policy *base,
                      struct queue_policy *ret)
{
    *ret = *base;
    ret->unique_mode = UNIQUE_REJECT;
    ret->ranked = true;
    if (orc_queue_gives(q, ORC_QUEUE_RETRIES))
        ret->max_attempts = (uint16_t)(q->max_retries + 1);
    if (orc_queue_gives(q, ORC_QUEUE_LEASE))
        ret->lease_ms = (uint32_t)q->lease_seconds * 1000;
    if (orc_queue_gives(q, ORC_QUEUE_UNIQUE))
        ret->unique_scope = q->unique ? UNIQUE_KEPT : UNIQUE_NONE;
    if (orc_queue_gives(q, ORC_QUEUE_ACTIVE))
        ret->refuse_new = !q->active;
    if (orc_queue_gives(q, ORC_QUEUE_RETENTION)) {
        ret->keep_done_ms = q->retention_days ? q->retention_days * DAY_MS : INT64_MAX;
        ret->keep_dead_ms = ret->keep_done_ms;
        ret->keep_done = ret->keep_dead = UINT64_MAX;
    }
}

void orc_queue_policy_new(const struct orc_queue *q, const struct queue_policy *base,
                          struct queue_policy *ret)
{
    orc_queue_policy(q, base, ret);
    ret->max_crashes = MAX_CRASHES;
    ret->lease_end = LEASE_END_REQUEUE;
    ret->priority = 0;
}

/* The members of the attributes, unchanged; empty if not present. */
struct own {
    struct span external_id, name;
};

static int own_member(void *ctx, struct json_reader *r, struct span name, struct json_token value)
{
    struct own *own = ctx;
    struct span whole;
    int err = json_skip(r, value, &whole);
    if (err < 0 || value.kind != JSON_STRING)
        return err;
    if (span_equal(name, SPAN_LITERAL("external_id")))
        own->external_id = whole;
    if (span_equal(name, SPAN_LITERAL("name")))
        own->name = whole;
    return 0;
}

static struct own own_of(const struct queue_view *view)
{
    struct json_reader r;
    struct arena arena;
    struct own own = {{NULL, 0}, {NULL, 0}};
    arena_init(&arena);
    json_open(&r, view->attributes);
    if (view->attributes.len && json_object(&r, &arena, own_member, &own) < 0)
        own = (struct own){{NULL, 0}, {NULL, 0}};
    arena_done(&arena);
    return own;
}

/* A new name has no bytes that JSON escapes: see queues.c. */
struct span orc_queue_name(const struct queue_view *view)
{
    struct span raw = own_of(view).name;
    return raw.len > 2 ? span_of(raw.at + 1, raw.len - 2) : view->name;
}

static bool attributes_write(struct arena *arena, struct span external_id, struct span name,
                             struct span *ret)
{
    struct buf text;
    struct json_writer w;
    buf_init(&text);
    json_writer_init(&w, &text);
    json_write_object(&w);
    if (external_id.len) {
        json_write_key(&w, "external_id");
        json_write_raw(&w, external_id);
    }
    write_span_if(&w, "name", name);
    json_write_object_end(&w);
    char *copy = json_writer_finish(&w) == 0 ? arena_copy(arena, text.data, text.len) : NULL;
    *ret = span_of(copy, copy ? text.len : 0);
    buf_done(&text);
    return copy != NULL;
}

bool orc_queue_renamed(struct arena *arena, const struct queue_view *view, struct span name,
                       struct span *ret)
{
    bool stored = span_equal(name, view->name);
    return attributes_write(arena, own_of(view).external_id, stored ? (struct span){NULL, 0} : name,
                            ret);
}

void orc_queue_write(struct json_writer *w, const struct queue_view *view)
{
    struct orc_queue q;
    orc_queue_from(&q, view);
    json_write_object(w);
    write_uint(w, "id", view->number);
    write_span(w, "name", q.name);
    json_write_key(w, "description");
    if (view->note.len)
        json_write_text(w, view->note);
    else
        json_write_null(w);
    write_int(w, "max_retries", q.max_retries);
    write_bool(w, "enforce_unique_reference", q.unique);
    write_bool(w, "is_active", q.active);
    write_int(w, "lease_seconds", q.lease_seconds);
    write_int(w, "retention_days", q.retention_days);
    write_time(w, "created_at", view->created_at);
    write_time(w, "updated_at", view->updated_at);
    struct span external_id = own_of(view).external_id;
    json_write_key(w, "external_id");
    if (external_id.len)
        json_write_raw(w, external_id);
    else
        json_write_null(w);
    json_write_object_end(w);
}

bool orc_queue_attributes(struct arena *arena, struct span *ret)
{
    uint64_t drawn[2];
    char uuid[ID_UUID_BYTES], quoted[ID_UUID_BYTES + 2];
    if (random_bytes(drawn, sizeof drawn) != 0)
        return false;
    drawn[0] = (drawn[0] & ~UINT64_C(0xf000)) | 0x4000; /* version 4 */
    drawn[1] = drawn[1] >> 2 | UINT64_C(1) << 63;       /* its variant */
    id_uuid((struct job_id){drawn[0], drawn[1]}, uuid);
    int len = snprintf(quoted, sizeof quoted, "\"%s\"", uuid);
    return attributes_write(arena, span_of(quoted, (size_t)len), (struct span){NULL, 0}, ret);
}
