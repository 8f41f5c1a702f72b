/* SPDX-License-Identifier: Apache-2.0 */
/* /api/triggers. A trigger is a schedule that this API owns; schedules of /v1 are not shown
 * here.
 *
 * A definition reads the trigger (for a change), then the queue of queue_id, and puts the
 * schedule; as with queues, the API works on one definition at a time. To show a trigger, the
 * API reads the id of its queue and of its last item. */
#include <inttypes.h>
#include <stdio.h>

#include "api/json_members.h"
#include "api/orchestrator/orchestrator_impl.h"
#include "api/v1/schedules/schedule_fields.h"
#include "base/digest/random.h"
#include "core/jobs/job_texts.h"
#include "core/limits.h"

static void no_trigger(struct http_exchange *x)
{
    struct problem p = {.code = PROBLEM_NO_SCHEDULE,
                        .field = "id",
                        .detail =
                            "there is no trigger with this id; POST /api/triggers creates one"};
    problem_answer(x, &p);
}

static bool owned(const struct schedule_view *v)
{
    return span_equal(v->owner, ORC_OWNER);
}

/* Copies the texts of a view, which are valid only during the reply. */
static int view_keep(struct arena *arena, struct schedule_view *v)
{
    if (!arena_keep(arena, &v->name) || !arena_keep(arena, &v->note))
        return -ERR_NOMEM;
    return schedule_spec_keep(arena, &v->spec);
}

/* ---- showing ---- */

struct shown {
    struct schedule_view v;
    uint32_t queue_id;
    struct job_ref item;
};

struct showing {
    struct call *c;
    struct shown *list;
    size_t count, waiting;
    unsigned status;
    bool array;
};

static void show_write(struct showing *s)
{
    struct wall_time now = broker_now(s->c->broker).wall;
    struct json_writer w;
    answer_begin(s->c->x, &w);
    if (s->array)
        json_write_array(&w);
    for (size_t i = 0; i < s->count; i++) {
        const struct shown *one = &s->list[i];
        orc_trigger_write(&w, &one->v, one->queue_id, one->item, now);
    }
    if (s->array)
        json_write_array_end(&w);
    answer_end(s->c->x, &w, s->status);
}

static void show_match(struct showing *s, const struct reply *r)
{
    for (size_t i = 0; i < s->count; i++) {
        struct shown *one = &s->list[i];
        if (r->kind == OP_GET && r->job_count == 1 && r->jobs[0].job.seq == one->v.state.item)
            one->item = (struct job_ref){r->jobs[0].job.seq, r->jobs[0].job.id_hi};
        if (r->kind == OP_QUEUE_GET && r->queue_count == 1 &&
            span_equal(r->queues[0].owner, ORC_OWNER) &&
            span_equal(r->queues[0].name, one->v.spec.source))
            one->queue_id = r->queues[0].number;
    }
}

/* A queue or an item that no longer exists is shown as null. */
static void show_found(void *ctx, const struct reply *r)
{
    struct showing *s = ctx;
    if (r->outcome == OUT_OK)
        show_match(s, r);
    if (--s->waiting == 0)
        show_write(s);
}

static size_t show_asks(const struct showing *s, struct op *ops)
{
    size_t n = 0;
    for (size_t i = 0; i < s->count; i++) {
        const struct schedule_view *v = &s->list[i].v;
        if (v->spec.kind != SCHEDULE_QUEUE)
            continue;
        ops[n++] = (struct op){.kind = OP_QUEUE_GET, .queue = {.name = v->spec.source}};
        if (v->state.item)
            ops[n++] = (struct op){.kind = OP_GET, .job = {.job = {.seq = v->state.item}}};
    }
    return n;
}

static void show(struct showing *s)
{
    struct op *ops = arena_array(s->c->arena, s->count * 2 + 1, sizeof *ops);
    s->waiting = ops ? show_asks(s, ops) : 0;
    int err = ops ? 0 : -ERR_NOMEM;
    if (err == 0 && s->waiting)
        err = broker_submit(s->c->broker, ops, s->waiting, show_found, s);
    if (err < 0)
        answer_error(s->c->x, err);
    else if (!s->waiting)
        show_write(s);
}

static void show_one(struct call *c, const struct reply *r, unsigned status)
{
    struct showing *s = arena_array(c->arena, 1, sizeof *s);
    struct shown *one = arena_array(c->arena, 1, sizeof *one);
    if (s && one && r->schedule_count == 1)
        one->v = r->schedules[0];
    if (!s || !one || r->schedule_count != 1 || view_keep(c->arena, &one->v) < 0) {
        answer_error(c->x, -ERR_NOMEM);
        return;
    }
    *s = (struct showing){.c = c, .list = one, .count = 1, .status = status};
    show(s);
}

/* ---- one of them ---- */

static void found_cb(void *ctx, const struct reply *r)
{
    struct call *c = ctx;
    struct problem p;
    bool here = r->outcome == OUT_OK && r->schedule_count == 1 && owned(&r->schedules[0]);
    if (here) {
        c->done(c, r);
    } else if (r->outcome == OUT_OK || r->outcome == OUT_NO_SCHEDULE) {
        no_trigger(c->x);
    } else {
        call_problem(c, r, &p);
        problem_answer(c->x, &p);
    }
}

/* A call that reads the trigger of the path; NULL after a problem was answered. */
static struct call *trigger_call(void *ctx, struct http_exchange *x, call_fn done)
{
    struct broker *b = orc_broker(ctx);
    int64_t id = query_none(b, x) ? orc_path_number(x, "trigger") : 0;
    struct call *c = id ? orc_call(ctx, x, OP_SCHEDULE_GET, done) : NULL;
    if (c)
        c->op.schedule.number = id <= UINT32_MAX ? (uint32_t)id : UINT32_MAX;
    return c;
}

static void got(struct call *c, const struct reply *r)
{
    show_one(c, r, 200);
}

void orc_trigger_get(void *ctx, struct http_exchange *x)
{
    struct call *c = trigger_call(ctx, x, got);
    if (c)
        call_ask(c, found_cb);
}

static void deleted(struct call *c, const struct reply *r)
{
    (void)r;
    http_answer(c->x, 204, NULL);
}

static void delete_found(struct call *c, const struct reply *r)
{
    struct span name = r->schedules[0].name;
    if (!arena_keep(c->arena, &name)) {
        answer_error(c->x, -ERR_NOMEM);
        return;
    }
    c->done = deleted;
    c->op = (struct op){.kind = OP_SCHEDULE_DELETE, .schedule = {.name = name}};
    call_submit(c);
}

void orc_trigger_delete(void *ctx, struct http_exchange *x)
{
    struct call *c = body_none(orc_broker(ctx), x) ? trigger_call(ctx, x, delete_found) : NULL;
    if (c)
        call_ask(c, found_cb);
}

/* ---- list ---- */

struct list {
    struct orc_page; /* its members are members of this struct */
    struct showing s;
};

static int list_keep(struct call *c, struct list *l, const struct schedule_view *v)
{
    if (!owned(v) || (int64_t)l->s.count == l->limit)
        return 0;
    if (l->offset > 0) {
        l->offset--;
        return 0;
    }
    struct shown *one = &l->s.list[l->s.count++];
    one->v = *v;
    return view_keep(c->arena, &one->v);
}

/* Reads all schedules of the server page by page. */
static void listed(struct call *c, const struct reply *r)
{
    struct list *l = c->more;
    int err = 0;
    for (uint32_t i = 0; i < r->schedule_count && err == 0; i++)
        err = list_keep(c, l, &r->schedules[i]);
    bool more = r->more && r->schedule_count > 0 && (int64_t)l->s.count < l->limit;
    struct span last = more ? r->schedules[r->schedule_count - 1].name : (struct span){NULL, 0};
    if (err < 0 || !arena_keep(c->arena, &last)) {
        answer_error(c->x, -ERR_NOMEM);
    } else if (more) {
        c->op.schedule.after = last;
        call_submit(c);
    } else {
        show(&l->s);
    }
}

void orc_trigger_list(void *ctx, struct http_exchange *x)
{
    struct call *c = orc_page_call(ctx, x, OP_SCHEDULE_LIST, listed, sizeof(struct list));
    if (!c)
        return;
    struct list *l = c->more;
    l->s = (struct showing){.c = c, .status = 200, .array = true};
    l->s.list = arena_array(c->arena, (size_t)l->limit, sizeof *l->s.list);
    if (!l->s.list) {
        answer_error(x, -ERR_NOMEM);
        return;
    }
    c->op.schedule.limit = LIMIT_BATCH;
    call_submit(c);
}

/* ---- defining ---- */

/* A trigger without a name gets a random one. */
static int name_create(struct arena *arena, struct span *ret)
{
    uint64_t drawn;
    char text[40];
    if (random_bytes(&drawn, sizeof drawn) != 0)
        return -ERR_IO;
    int len = snprintf(text, sizeof text, "trigger-%016" PRIx64, drawn);
    *ret = span_of(text, (size_t)len);
    return arena_keep(arena, ret) ? 0 : -ERR_NOMEM;
}

/* The last step. false: answered. */
static bool ask_put(struct call *c)
{
    struct orc_trigger *t = c->more;
    if (!orc_trigger_complete(c, t))
        return false;
    int err = t->name.len ? 0 : name_create(c->arena, &t->name);
    if (err < 0) {
        answer_error(c->x, err);
        return false;
    }
    c->op = (struct op){.kind = OP_SCHEDULE_PUT,
                        .schedule = {.name = t->name,
                                     .must_create = t->fresh,
                                     .must_exist = !t->fresh,
                                     .spec = &t->spec,
                                     .has_owner = true,
                                     .owner = ORC_OWNER,
                                     .has_note = true,
                                     .note = t->description,
                                     .has_paused = true,
                                     .paused = !t->enabled}};
    return true;
}

/* Reads the queue first if the request names one. false: answered. */
static bool ask_next(struct call *c)
{
    const struct orc_trigger *t = c->more;
    if (!t->has_queue)
        return ask_put(c);
    if (t->queue_id <= 0 || t->queue_id > UINT32_MAX) {
        orc_no_queue(c->x, "queue_id");
        return false;
    }
    c->op = (struct op){.kind = OP_QUEUE_GET, .queue = {.number = (uint32_t)t->queue_id}};
    return true;
}

/* false: answered. */
static bool queue_take(struct call *c, const struct queue_view *q)
{
    struct orc_trigger *t = c->more;
    if (!span_equal(q->owner, ORC_OWNER)) {
        orc_no_queue(c->x, "queue_id");
        return false;
    }
    t->spec.source = q->name;
    if (!arena_keep(c->arena, &t->spec.source)) {
        answer_error(c->x, -ERR_NOMEM);
        return false;
    }
    return ask_put(c);
}

/* false: answered. */
static bool change_take(struct call *c, const struct schedule_view *found)
{
    struct schedule_view v = *found;
    struct orc_trigger *t = arena_array(c->arena, 1, sizeof *t);
    if (!owned(&v)) {
        no_trigger(c->x);
        return false;
    }
    if (!t || view_keep(c->arena, &v) < 0) {
        answer_error(c->x, -ERR_NOMEM);
        return false;
    }
    orc_trigger_from(t, &v);
    c->more = t;
    return orc_trigger_take(c, t) && ask_next(c);
}

static void refuse(struct call *c, const struct reply *r)
{
    struct problem p;
    call_problem(c, r, &p);
    if (r->outcome == OUT_EXISTS) {
        p.field = "name";
        p.detail = "a trigger or a schedule with this name exists";
    }
    if (r->outcome == OUT_INVALID && r->note)
        orc_trigger_problem(c->arena, &p, r->note);
    if (r->outcome == OUT_NO_QUEUE)
        orc_no_queue(c->x, "queue_id");
    else if (r->outcome == OUT_NO_SCHEDULE)
        no_trigger(c->x);
    else
        problem_answer(c->x, &p);
}

static bool definition_step(struct call *c, const struct reply *r)
{
    if (r->outcome != OUT_OK)
        refuse(c, r);
    else if (r->kind == OP_SCHEDULE_PUT)
        show_one(c, r, r->created ? 201 : 200);
    else if (r->kind == OP_QUEUE_GET)
        return queue_take(c, &r->queues[0]);
    else
        return change_take(c, &r->schedules[0]);
    return false;
}

static void define(struct call *c)
{
    call_line_add(&((struct orchestrator *)c->api)->triggering, c, definition_step);
}

void orc_trigger_create(void *ctx, struct http_exchange *x)
{
    struct broker *b = orc_broker(ctx);
    struct call *c = query_none(b, x) ? orc_call(ctx, x, OP_SCHEDULE_PUT, NULL) : NULL;
    struct orc_trigger *t = call_more(c, sizeof *t);
    if (!t)
        return;
    orc_trigger_new(t);
    if (orc_trigger_take(c, t) && ask_next(c))
        define(c);
}

void orc_trigger_update(void *ctx, struct http_exchange *x)
{
    struct call *c = trigger_call(ctx, x, NULL);
    if (c)
        define(c);
}
