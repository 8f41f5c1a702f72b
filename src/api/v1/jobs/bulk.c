/* SPDX-License-Identifier: Apache-2.0 */
/* Bulk actions on the jobs of a queue: requeue, cancel, remove, and the number of jobs that each
 * would change (dry_run). The rules for states are in core/bulk.h. */
#include "core/bulk.h"
#include "api/json_members.h"
#include "api/v1/v1_impl.h"
#include "core/limits.h"

static const char *const action_names[] = {[BULK_REQUEUE] = "requeue",
                                           [BULK_CANCEL] = "cancel",
                                           [BULK_REMOVE] = "remove",
                                           [BULK_CANCEL_NOW] = "cancel"};

struct bulk_in {
    uint64_t states;
    struct span group, kind;
    bool dry_run;
    bool force; /* cancel: running jobs at once */
};

#define AT(member) offsetof(struct bulk_in, member)
static const struct field bulk_rows[] = {
    {"states", FIELD_ENUM_SET, AT(states), STATE_SCHEDULED, 0, native_states, 0},
    {"group", FIELD_TEXT, AT(group), FILTER_MIN, LIMIT_KEY_BYTES, NULL, 0},
    {"kind", FIELD_TEXT, AT(kind), FILTER_MIN, LIMIT_KIND_BYTES, NULL, 0},
    {"dry_run", FIELD_BOOL, AT(dry_run), 0, 0, NULL, 0},
    {"force", FIELD_BOOL, AT(force), 0, 0, NULL, 0}, /* the last row: only for cancel */
};

/* ---- states ---- */

static void allow_states(struct problem *p, struct arena *arena, enum bulk_action action)
{
    const char **names = arena_array(arena, STATE_COUNT, sizeof *names);
    unsigned from = bulk_states_from(action);
    for (unsigned s = STATE_SCHEDULED; names && s < STATE_COUNT; s++)
        if (from & STATE_BIT(s))
            names[p->allowed_count++] = state_name((enum job_state)s);
    p->allowed = names;
}

static int check_states(const struct field_reader *r, const struct bulk_in *in,
                        enum bulk_action action)
{
    bool given = fields_has(r, "states");
    if (in->states != 0 || (!given && bulk_states_default(action) != 0))
        return 0;
    problem_set(r->problem, r->arena, given ? PROBLEM_INVALID_FIELD : PROBLEM_MISSING_FIELD,
                "states", "states %s; name the states of the jobs to %s, for example [\"%s\"]",
                given ? "is empty" : "is missing", action_names[action],
                action == BULK_CANCEL ? "ready" : "dead");
    allow_states(r->problem, r->arena, action);
    return -ERR_INVALID;
}

/* ---- dry run ---- */

struct dry_run {
    enum bulk_action action;
    unsigned states;
    uint64_t by_state[STATE_COUNT];
};

static void write_states(struct json_writer *w, const struct dry_run *dry)
{
    json_write_key(w, "by_state");
    json_write_object(w);
    for (unsigned s = STATE_SCHEDULED; s < STATE_COUNT; s++)
        if ((dry->states & STATE_BIT(s)) && dry->by_state[s] > 0)
            write_uint(w, state_name((enum job_state)s), dry->by_state[s]);
    json_write_object_end(w);
}

static uint64_t count_states(const struct dry_run *dry)
{
    uint64_t sum = 0;
    for (unsigned s = STATE_SCHEDULED; s < STATE_COUNT; s++)
        sum += dry->states & STATE_BIT(s) ? dry->by_state[s] : 0;
    return sum;
}

static void dry_run_answer(struct call *c, struct span queue)
{
    const struct dry_run *dry = c->more;
    struct json_writer w;
    uint64_t count = count_states(dry);
    answer_begin(c->x, &w);
    json_write_object(&w);
    write_text(&w, "action", action_names[dry->action]);
    write_bool(&w, "dry_run", true);
    write_uint(&w, "count", count);
    json_write_key(&w, "by_queue");
    json_write_object(&w);
    json_write_key_span(&w, queue);
    json_write_uint(&w, count);
    json_write_object_end(&w);
    write_states(&w, dry);
    json_write_object_end(&w);
    answer_end(c->x, &w, 200);
}

static void bulk_counted(struct call *c, const struct reply *r)
{
    struct dry_run *dry = c->more;
    struct problem p = {.code = PROBLEM_NO_QUEUE};
    if (r->queue_count == 0) {
        problem_answer(c->x, &p);
        return;
    }
    memcpy(dry->by_state, r->queues[0].counts.by_state, sizeof dry->by_state);
    dry_run_answer(c, c->op.queue.name);
}

/* Lists the jobs of a kind page by page: the store has no counts for kinds. */
static void bulk_listed(struct call *c, const struct reply *r)
{
    struct dry_run *dry = c->more;
    for (uint32_t i = 0; i < r->job_count; i++)
        dry->by_state[r->jobs[i].job.state]++;
    c->op.list.after = r->cursor;
    if (r->cursor != 0)
        call_submit(c);
    else
        dry_run_answer(c, c->op.list.queue);
}

/* Without a kind, the store's counts are used and nothing is searched. */
static void bulk_count(struct native *n, struct http_exchange *x, const struct dry_run *want,
                       struct span queue, const struct bulk_in *in)
{
    bool listed = in->kind.len > 0;
    struct call *c = listed ? call_new(n->broker, n, x, OP_LIST, bulk_listed)
                            : call_new(n->broker, n, x, OP_QUEUE_GET, bulk_counted);
    struct dry_run *dry = c ? arena_copy(c->arena, want, sizeof *want) : NULL;
    if (c && !dry)
        answer_error(x, -ERR_NOMEM);
    if (!dry)
        return;
    c->more = dry;
    if (listed)
        c->op.list = (struct op_list){
            .filter = {.states = want->states, .group = in->group, .kind = in->kind},
            .queue = queue,
            .limit = LIMIT_BATCH};
    else
        c->op.queue = (struct op_queue){.name = queue, .group = in->group};
    if (listed)
        http_alone(x);
    call_submit(c);
}

/* ---- the action ---- */

static void bulk_changed(struct call *c, const struct reply *r)
{
    struct json_writer w;
    answer_begin(c->x, &w);
    json_write_object(&w);
    write_span(&w, "queue", c->op.bulk.queue);
    write_uint(&w, "changed", r->changed);
    write_uint(&w, "refused", r->refused);
    json_write_object_end(&w);
    answer_end(c->x, &w, 200);
}

static void bulk_run(struct native *n, struct http_exchange *x, enum bulk_action action,
                     struct span queue, const struct bulk_in *in)
{
    struct call *c = call_new(n->broker, n, x, OP_BULK, bulk_changed);
    if (!c)
        return;
    c->op.bulk = (struct op_bulk){.action = (uint8_t)action,
                                  .queue = queue,
                                  .states = (unsigned)in->states,
                                  .group = in->group,
                                  .kind = in->kind};
    call_submit(c);
}

static void bulk_handle(struct native *n, struct http_exchange *x, enum bulk_action action)
{
    struct bulk_in in = {0};
    struct span queue;
    struct problem p;
    struct fields table = FIELDS(bulk_rows);
    table.count -= action != BULK_CANCEL;
    struct field_reader r = reader_of(n->broker, x, table, &in, &p);
    if (!query_none(n->broker, x) || !path_queue(x, &queue))
        return;
    if (fields_read_optional(&r, http_request(x)->body) < 0 || check_states(&r, &in, action) < 0) {
        problem_answer(x, &p);
        return;
    }
    if (in.force)
        action = BULK_CANCEL_NOW;
    struct dry_run dry = {.action = action,
                          .states = bulk_states_meant(action, (unsigned)in.states)};
    if (in.dry_run)
        bulk_count(n, x, &dry, queue, &in);
    else
        bulk_run(n, x, action, queue, &in);
}

void bulk_requeue_handle(void *ctx, struct http_exchange *x)
{
    bulk_handle(ctx, x, BULK_REQUEUE);
}

void bulk_cancel_handle(void *ctx, struct http_exchange *x)
{
    bulk_handle(ctx, x, BULK_CANCEL);
}

void bulk_remove_handle(void *ctx, struct http_exchange *x)
{
    bulk_handle(ctx, x, BULK_REMOVE);
}
