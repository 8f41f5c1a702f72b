/* SPDX-License-Identifier: Apache-2.0 */
/* /api/queues. A change reads the queue first and then puts it with the changed members. The API
 * works on one change at a time, so that no other change is lost between the two. */
#include <inttypes.h>
#include <stdio.h>

#include "api/json_members.h"
#include "api/orchestrator/orchestrator_impl.h"
#include "core/limits.h"
#include "core/validate.h"

void orc_no_queue(struct http_exchange *x, const char *field)
{
    struct problem p = {.code = PROBLEM_NO_QUEUE,
                        .field = field,
                        .detail =
                            "there is no queue with this id or name; POST /api/queues creates one"};
    problem_answer(x, &p);
}

/* ---- finding one ---- */

static bool owned(const struct reply *r)
{
    return r->queue_count == 1 && span_equal(r->queues[0].owner, ORC_OWNER);
}

static void found_cb(void *ctx, const struct reply *r);

static void lookup_ask(struct call *c, const struct op *op)
{
    c->op = *op;
    call_ask(c, found_cb);
}

/* The queue may have got this name by a rename. */
static void lookup_later_name(struct call *c, struct orc_lookup *lookup)
{
    int err = orc_name_key(c->arena, lookup->name, &lookup->key);
    lookup->name.len = 0;
    if (err < 0)
        orc_no_queue(c->x, lookup->field);
    else
        lookup_ask(c,
                   &(struct op){.kind = OP_KV_GET,
                                .kv_get = {.keys = &lookup->key, .count = 1, .want_value = true}});
}

static void found_cb(void *ctx, const struct reply *r)
{
    struct call *c = ctx;
    struct orc_lookup *lookup = c->more;
    struct problem p;
    bool here = r->kind == OP_QUEUE_GET && r->outcome == OUT_OK && owned(r);
    bool absent = r->outcome == OUT_NO_QUEUE || (r->kind == OP_QUEUE_GET && r->outcome == OUT_OK);
    bool named = here && span_equal(orc_queue_name(&r->queues[0]), lookup->name);
    uint32_t number = r->kind == OP_KV_GET ? orc_name_number(r) : 0;
    if (lookup->name.len && absent && !named) {
        lookup_later_name(c, lookup);
    } else if (number) {
        lookup_ask(c, &(struct op){.kind = OP_QUEUE_GET, .queue = {.number = number}});
    } else if ((absent && !here) || (r->kind == OP_KV_GET && r->outcome == OUT_OK)) {
        orc_no_queue(c->x, lookup->field);
    } else if (r->outcome != OUT_OK) {
        call_problem(c, r, &p);
        problem_answer(c->x, &p);
    } else {
        c->more = lookup->more;
        lookup->found(c, &r->queues[0]);
    }
}

void orc_queue_find(struct call *c, const struct orc_lookup *lookup)
{
    struct orc_lookup *own = arena_copy(c->arena, lookup, sizeof *lookup);
    if (lookup->id > UINT32_MAX || (lookup->id <= 0 && lookup->name.len == 0)) {
        orc_no_queue(c->x, lookup->field);
        return;
    }
    c->more = own;
    if (own)
        lookup_ask(c, &(struct op){.kind = OP_QUEUE_GET,
                                   .queue = {.name = own->name, .number = (uint32_t)own->id}});
    else
        answer_error(c->x, -ERR_NOMEM);
}

int64_t orc_path_number(struct http_exchange *x, const char *what)
{
    struct span text = http_request(x)->params[0];
    struct problem p;
    int64_t id = 0;
    for (size_t i = 0; i < text.len && id >= 0 && id <= UINT32_MAX; i++)
        id = text.at[i] >= '0' && text.at[i] <= '9' ? id * 10 + (text.at[i] - '0') : -1;
    if (id > 0)
        return id;
    problem_set(&p, http_request(x)->arena, PROBLEM_INVALID_FIELD, "id",
                "the id of a %s is a whole number, 1 or more", what);
    problem_answer(x, &p);
    return 0;
}

/* Calls fn with the queue of the path, unless a problem was answered. */
static void queue_call(void *ctx, struct http_exchange *x, orc_queue_fn fn)
{
    int64_t id = query_none(orc_broker(ctx), x) ? orc_path_number(x, "queue") : 0;
    struct call *c = id ? orc_call(ctx, x, OP_QUEUE_GET, NULL) : NULL;
    if (c)
        orc_queue_find(c, &(struct orc_lookup){.id = id, .found = fn, .field = "id"});
}

/* ---- looking ---- */

void orc_refuse_missing(struct call *c)
{
    call_refuse(c, &(struct reply){.kind = OP_QUEUE_GET,
                                   .outcome = OUT_UNAVAILABLE,
                                   .note = "the shared store, which has the queues, does not "
                                           "answer: try again later"});
}

static void answer_queue(struct call *c, const struct queue_view *q, unsigned status)
{
    struct json_writer w;
    if (store_is_missing(c->broker)) {
        orc_refuse_missing(c);
        return;
    }
    answer_begin(c->x, &w);
    orc_queue_write(&w, q);
    answer_end(c->x, &w, status);
}

static void show(struct call *c, const struct queue_view *q)
{
    answer_queue(c, q, 200);
}

static void show_new(struct call *c, const struct queue_view *q)
{
    answer_queue(c, q, 201);
}

void orc_queue_get(void *ctx, struct http_exchange *x)
{
    queue_call(ctx, x, show);
}

static void show_stats(struct call *c, const struct queue_view *q)
{
    static const struct {
        const char *name;
        enum orc_status status;
    } counts[] = {{"new", ORC_NEW},
                  {"inProgress", ORC_IN_PROGRESS},
                  {"done", ORC_DONE},
                  {"failed", ORC_FAILED}};
    const uint64_t *t = q->totals.of;
    uint64_t ended = t[COUNTER_ACKED] + t[COUNTER_DIED];
    bool partial = store_is_missing(c->broker);
    struct json_writer w;
    if (partial)
        answer_mark_partial(c->x);
    answer_object_begin(c->x, &w);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        uint64_t n = 0;
        for (int s = 0; s < STATE_COUNT; s++)
            n += orc_states_of(counts[i].status) >> s & 1 ? q->counts.by_state[s] : 0;
        write_uint(&w, counts[i].name, n);
    }
    write_uint(&w, "appExceptions", t[COUNTER_FAILED_APP]);
    write_uint(&w, "bizExceptions", t[COUNTER_FAILED_BUSINESS]);
    json_write_key(&w, "avgProcessingMs");
    if (ended)
        json_write_uint(&w, (t[COUNTER_DONE_MS] + t[COUNTER_DIED_MS] + ended / 2) / ended);
    else
        json_write_null(&w);
    if (partial)
        write_bool(&w, "partial", true);
    answer_object_end(c->x, &w, 200);
}

void orc_queue_stats(void *ctx, struct http_exchange *x)
{
    queue_call(ctx, x, show_stats);
}

/* ---- listing ---- */

struct list {
    struct orc_page; /* its members are members of this struct */
    struct json_writer w;
    struct span after; /* the last name seen */
};

static void list_write(struct list *l, const struct queue_view *q)
{
    if (!span_equal(q->owner, ORC_OWNER) || l->limit == 0)
        return;
    if (l->offset > 0) {
        l->offset--;
        return;
    }
    l->limit--;
    orc_queue_write(&l->w, q);
}

/* Reads all queues of the server page by page; few of them belong to other APIs. */
static void listed(struct call *c, const struct reply *r)
{
    struct list *l = c->more;
    if (r->left_out) {
        orc_refuse_missing(c);
        return;
    }
    for (uint32_t i = 0; i < r->queue_count; i++)
        list_write(l, &r->queues[i]);
    struct span last = r->queue_count ? r->queues[r->queue_count - 1].name : (struct span){NULL, 0};
    if (r->queue_count < c->op.queue.limit || l->limit == 0) {
        json_write_array_end(&l->w);
        answer_end(c->x, &l->w, 200);
    } else if (!arena_keep(c->arena, &last)) {
        answer_error(c->x, -ERR_NOMEM);
    } else {
        c->op.queue.after = last;
        call_submit(c);
    }
}

void orc_queue_list(void *ctx, struct http_exchange *x)
{
    struct call *c = orc_page_call(ctx, x, OP_QUEUE_LIST, listed, sizeof(struct list));
    if (!c)
        return;
    struct list *l = c->more;
    answer_begin(x, &l->w);
    json_write_array(&l->w);
    c->op.queue.limit = LIMIT_BATCH;
    call_submit(c);
}

/* ---- defining ---- */

/* Changes *q by the body. false: the problem was answered. */
static bool take_members(struct call *c, struct orc_queue *q, bool fresh)
{
    struct problem p;
    struct err_note note;
    struct span before = q->name;
    struct field_reader r = reader_of(c->broker, c->x, orc_queue_fields(), q, &p);
    int err = fields_read(&r, http_request(c->x)->body);
    q->given = fresh ? ~0U : (unsigned)r.seen;
    if (err == 0 && fresh && !fields_has(&r, "name")) {
        problem_set(&p, c->arena, PROBLEM_MISSING_FIELD, "name", "name is missing");
        err = -ERR_INVALID;
    } else if (err == 0 && validate_queue_name(q->name, &note) != 0) {
        problem_set(&p, c->arena, PROBLEM_INVALID_FIELD, "name", "%s", note.text);
        err = -ERR_INVALID;
    } else if (err == 0 && !fresh && !span_equal(q->name, before) &&
               (memchr(q->name.at, '"', q->name.len) || memchr(q->name.at, '\\', q->name.len))) {
        problem_set(&p, c->arena, PROBLEM_INVALID_FIELD, "name",
                    "a queue cannot be renamed to a name with a quotation mark or a backslash");
        err = -ERR_INVALID;
    }
    if (err < 0)
        problem_answer(c->x, &p);
    return err == 0;
}

/* false: the problem was answered. */
static bool fill_put(struct call *c, const struct orc_queue *q, struct span stored,
                     const struct queue_policy *base, bool fresh)
{
    struct queue_policy *policy = arena_array(c->arena, 1, sizeof *policy);
    struct span note = q->description;
    if (!policy || !arena_keep(c->arena, &stored) || !arena_keep(c->arena, &note)) {
        answer_error(c->x, -ERR_NOMEM);
        return false;
    }
    (fresh ? orc_queue_policy_new : orc_queue_policy)(q, base, policy);
    c->op = (struct op){.kind = OP_QUEUE_PUT,
                        .queue = {.name = stored,
                                  .policy = policy,
                                  .has_note = true,
                                  .note = note,
                                  .has_until = orc_queue_gives(q, ORC_QUEUE_ACTIVE),
                                  .until = {q->active ? 0 : LIMIT_WALL_MS}}};
    return true;
}

/* Refuses unique references because some items share one; lists all that are known. */
static void answer_shared(struct call *c, const struct reply *r)
{
    struct json_writer w;
    char uuid[ID_UUID_BYTES], detail[200];
    snprintf(detail, sizeof detail,
             "%" PRIu64
             " items have the reference of an earlier item; `duplicates` lists them together with "
             "the earlier items. Delete the superfluous items first; nothing was changed",
             r->job_total);
    answer_object_begin(c->x, &w);
    write_text(&w, "type", "/problems/duplicate");
    write_text(&w, "title", "References are not unique");
    write_uint(&w, "status", 409);
    write_text(&w, "detail", detail);
    write_text(&w, "code", "duplicate");
    write_text(&w, "field", "enforce_unique_reference");
    write_array(&w, "duplicates");
    for (uint32_t i = 0; i < r->job_count; i++) {
        id_uuid(id_make(r->jobs[i].job.id_hi, r->jobs[i].job.seq), uuid);
        json_write_object(&w);
        write_text(&w, "id", uuid);
        write_span(&w, "reference", r->jobs[i].extra.unique);
        json_write_object_end(&w);
    }
    json_write_array_end(&w);
    json_write_object_end(&w);
    if (answer_close(c->x, &w) < 0)
        answer_error(c->x, -ERR_NOMEM);
    else
        http_answer(c->x, 409, "application/problem+json");
}

static void answer_refusal(struct call *c, const struct reply *r)
{
    struct problem p;
    call_problem(c, r, &p);
    if (r->outcome == OUT_EXISTS) {
        p.field = "name";
        p.detail = "a queue with this name exists";
    }
    if (r->outcome == OUT_DUPLICATE)
        answer_shared(c, r);
    else
        problem_answer(c->x, &p);
}

/* The name is changed after the other members, whose change may be refused. false: answered. */
static bool take_name(struct call *c, const struct orc_queue *q, const struct queue_view *view)
{
    struct orc_naming *n = arena_array(c->arena, 1, sizeof *n);
    struct span before = orc_queue_name(view);
    if (!n || !arena_keep(c->arena, &before) ||
        !orc_queue_renamed(c->arena, view, q->name, &n->attributes)) {
        answer_error(c->x, -ERR_NOMEM);
        return false;
    }
    n->number = view->number;
    n->name = span_equal(q->name, before) ? (struct span){NULL, 0} : q->name;
    n->before = before;
    n->stored = c->op.queue.name;
    c->more = n;
    return true;
}

/* Turns the queue that was read into the operation that changes it. false: answered. */
static bool change_take(struct call *c, const struct reply *r)
{
    const struct queue_view *view = &r->queues[0];
    struct orc_queue q;
    if (!owned(r)) {
        orc_no_queue(c->x, "id");
        return false;
    }
    orc_queue_from(&q, view);
    if (!take_members(c, &q, false) || !fill_put(c, &q, view->name, view->policy, false))
        return false;
    c->op.queue.must_exist = true;
    return take_name(c, &q, view);
}

static void show_defined(struct call *c)
{
    const struct orc_naming *n = c->more;
    if (n->fresh)
        orc_queue_find(c, &(struct orc_lookup){.name = n->stored, .found = show_new});
    else
        orc_queue_find(c, &(struct orc_lookup){.id = n->number, .found = show});
}

/* The members were changed; a new name may follow. */
static bool put_done(struct call *c)
{
    const struct orc_naming *n = c->more;
    if (n->name.len)
        return orc_naming_begin(c);
    show_defined(c);
    return false;
}

static bool naming_step(struct call *c, const struct reply *r)
{
    enum orc_named named = orc_naming_step(c, r);
    if (named == ORC_NAMED)
        show_defined(c);
    return named == ORC_NAMING;
}

static bool definition_step(struct call *c, const struct reply *r)
{
    const struct orc_naming *n = c->more;
    if (n && n->key.len)
        return naming_step(c, r);
    if (r->outcome == OUT_NO_QUEUE)
        orc_no_queue(c->x, "id");
    else if (r->outcome != OUT_OK)
        answer_refusal(c, r);
    else if (n) /* the reply belongs to the change */
        return put_done(c);
    else
        return change_take(c, r);
    return false;
}

static void define(struct call *c)
{
    call_line_add(&((struct orchestrator *)c->api)->defining, c, definition_step);
}

void orc_queue_create(void *ctx, struct http_exchange *x)
{
    struct orchestrator *o = ctx;
    struct orc_queue q;
    struct span attributes;
    struct call *c = query_none(o->broker, x) ? orc_call(o, x, OP_QUEUE_PUT, NULL) : NULL;
    if (!c)
        return;
    orc_queue_default(&q);
    if (!take_members(c, &q, true) || !fill_put(c, &q, q.name, o->config.policy, true))
        return;
    struct orc_naming *n = arena_array(c->arena, 1, sizeof *n);
    if (!n || !orc_queue_attributes(c->arena, &attributes)) {
        answer_error(x, -ERR_NOMEM);
        return;
    }
    n->fresh = true;
    n->name = n->stored = c->op.queue.name;
    c->more = n;
    c->op.queue.must_create = true;
    c->op.queue.has_owner = c->op.queue.has_attributes = true;
    c->op.queue.owner = ORC_OWNER;
    c->op.queue.attributes = attributes;
    define(c);
}

void orc_queue_update(void *ctx, struct http_exchange *x)
{
    struct orchestrator *o = ctx;
    int64_t id = query_none(o->broker, x) ? orc_path_number(x, "queue") : 0;
    struct call *c = id ? orc_call(o, x, OP_QUEUE_GET, NULL) : NULL;
    if (!c)
        return;
    c->op.queue.number = id <= UINT32_MAX ? (uint32_t)id : UINT32_MAX;
    define(c);
}

/* ---- deleting ---- */

/* The name counts as free even if its key was not deleted. */
static void name_deleted(void *ctx, const struct reply *r)
{
    struct call *c = ctx;
    (void)r;
    http_answer(c->x, 204, NULL);
}

static void deleted(struct call *c, const struct reply *r)
{
    const struct span *key = c->more;
    (void)r;
    c->op = (struct op){.kind = OP_KV_COMMIT, .kv_commit = {.deletes = key, .delete_count = 1}};
    if (key->len == 0 || broker_submit(c->broker, &c->op, 1, name_deleted, c) < 0)
        http_answer(c->x, 204, NULL);
}

static void delete_found(struct call *c, const struct queue_view *q)
{
    struct span name = q->name;
    struct span *key = arena_array(c->arena, 1, sizeof *key);
    bool renamed = !span_equal(orc_queue_name(q), q->name);
    if (!arena_keep(c->arena, &name) || !key ||
        (renamed && orc_name_key(c->arena, orc_queue_name(q), key) < 0)) {
        answer_error(c->x, -ERR_NOMEM);
        return;
    }
    c->more = key;
    c->done = deleted;
    c->op = (struct op){.kind = OP_QUEUE_DELETE, .queue = {.name = name}};
    call_submit(c);
}

void orc_queue_delete(void *ctx, struct http_exchange *x)
{
    if (body_none(orc_broker(ctx), x))
        queue_call(ctx, x, delete_found);
}
