/* SPDX-License-Identifier: Apache-2.0 */
/* GET /api/queue-items: a page of items of one queue, or of all queues of the API one after the
 * other, by name. Queues are ranked, so the cost of a page depends on its size and not on its
 * offset; queues before the page are skipped by their counts. */
#include <inttypes.h>
#include <stdio.h>

#include "api/json_members.h"
#include "api/orchestrator/orchestrator_impl.h"
#include "core/limits.h"

#define LIMIT_DEFAULT 100

struct list_queue {
    struct span name;
    uint64_t count; /* items in the requested states */
};

struct list {
    int64_t queue_id, limit, offset;
    struct span status, reference;
    unsigned states;
    struct json_writer w;
    uint64_t total; /* items that matched so far */
    size_t bytes;   /* of payloads on the page */
    /* for all queues: one page of queues */
    bool all;
    struct list_queue *queues;
    size_t queue_count, queue_at;
    struct span after; /* the next page of queues begins after this name; empty = no more */
};

#define AT(member) offsetof(struct list, member)
static const struct field rows[] = {
    {"queue_id", FIELD_INT, AT(queue_id), INT64_MIN, INT64_MAX, NULL, 0},
    {"status", FIELD_TEXT, AT(status), 0, LIMIT_LABEL_BYTES, NULL, 0},
    {"reference", FIELD_TEXT, AT(reference), 0, LIMIT_KEY_BYTES, NULL, 0},
    {"limit", FIELD_INT, AT(limit), 1, LIMIT_BATCH, NULL, 0},
    {"offset", FIELD_INT, AT(offset), 0, INT64_MAX, NULL, 0},
};

static void queues_next(struct call *c);

static void list_end(struct call *c)
{
    struct list *l = c->more;
    answer_end_page(c->x, &l->w, l->total);
}

/* ---- one queue ---- */

static bool full(const struct list *l)
{
    return l->limit == 0 || l->bytes >= LIMIT_ANSWER_BYTES;
}

static void page_read(struct call *c, const struct reply *r)
{
    struct list *l = c->more;
    struct wall_time now = broker_now(c->broker).wall;
    for (uint32_t i = 0; i < r->job_count && !full(l); i++, l->limit--) {
        orc_item_write(&l->w, &r->jobs[i], now, false);
        l->bytes += r->jobs[i].payload.len + r->jobs[i].result.len;
    }
    l->total += r->job_total;
    l->offset -= (int64_t)(r->job_total < (uint64_t)l->offset ? r->job_total : (uint64_t)l->offset);
    if (l->all)
        queues_next(c);
    else
        list_end(c);
}

static void page_ask(struct call *c, struct span queue)
{
    const struct list *l = c->more;
    c->done = page_read;
    c->op = (struct op){.kind = OP_PAGE,
                        .page = {.queue = queue,
                                 .states = l->states,
                                 .unique = l->reference,
                                 .offset = (uint64_t)l->offset,
                                 .limit = l->limit ? (uint32_t)l->limit : 1,
                                 .want_body = l->limit > 0}};
    call_submit(c);
}

static void queue_found(struct call *c, const struct queue_view *q)
{
    struct span name = q->name;
    if (arena_keep(c->arena, &name))
        page_ask(c, name);
    else
        answer_error(c->x, -ERR_NOMEM);
}

/* ---- all queues ---- */

static uint64_t count_of(const struct queue_view *q, unsigned states)
{
    uint64_t n = 0;
    for (int s = 0; s < STATE_COUNT; s++)
        n += states >> s & 1 ? q->counts.by_state[s] : 0;
    return n;
}

static bool keep_queue(struct call *c, struct list *l, const struct queue_view *q)
{
    struct list_queue *kept = &l->queues[l->queue_count++];
    *kept = (struct list_queue){q->name, count_of(q, l->states)};
    return arena_keep(c->arena, &kept->name);
}

static void queues_read(struct call *c, const struct reply *r)
{
    struct list *l = c->more;
    struct span last = r->queue_count ? r->queues[r->queue_count - 1].name : (struct span){NULL, 0};
    bool kept = true, more = r->queue_count == LIMIT_BATCH;
    l->queue_at = l->queue_count = 0;
    l->queues = arena_array(c->arena, r->queue_count + 1, sizeof *l->queues);
    for (uint32_t i = 0; i < r->queue_count && kept && l->queues; i++)
        if (span_equal(r->queues[i].owner, ORC_OWNER))
            kept = keep_queue(c, l, &r->queues[i]);
    l->after = more ? last : (struct span){NULL, 0};
    if (!l->queues || !kept || !arena_keep(c->arena, &l->after)) {
        answer_error(c->x, -ERR_NOMEM);
        return;
    }
    queues_next(c);
}

static void queues_ask(struct call *c)
{
    const struct list *l = c->more;
    c->done = queues_read;
    c->op = (struct op){.kind = OP_QUEUE_LIST, .queue = {.after = l->after, .limit = LIMIT_BATCH}};
    call_submit(c);
}

/* Continues with the next queue that has items for the page; the others are only counted. The
 * number of items with a reference is known only to the queue itself. */
static void queues_next(struct call *c)
{
    struct list *l = c->more;
    while (l->queue_at < l->queue_count) {
        const struct list_queue *q = &l->queues[l->queue_at++];
        bool passed = !l->reference.len && (full(l) || q->count <= (uint64_t)l->offset);
        if (q->count > 0 && !passed) {
            page_ask(c, q->name);
            return;
        }
        l->total += q->count;
        l->offset -= (int64_t)(q->count < (uint64_t)l->offset ? q->count : (uint64_t)l->offset);
    }
    if (l->after.len)
        queues_ask(c);
    else
        list_end(c);
}

/* ---- the request ---- */

static int take_filter(const struct field_reader *r, struct list *l)
{
    enum orc_status s = orc_status_parse(l->status);
    l->states = STATES_ALL;
    if (!fields_has(r, "status"))
        return 0;
    if (s != ORC_CUSTOM) {
        l->states = orc_states_of(s);
        return 0;
    }
    problem_set(r->problem, r->arena, PROBLEM_INVALID_FIELD, "status",
                "status must be one of the values in `allowed`; a custom status is a label, by "
                "which items cannot be listed");
    r->problem->allowed = orc_status_names;
    r->problem->allowed_count = ORC_CUSTOM;
    return -ERR_INVALID;
}

void orc_item_list(void *ctx, struct http_exchange *x)
{
    struct problem p;
    struct call *c = orc_call(ctx, x, OP_PAGE, NULL);
    struct list *l = call_more(c, sizeof *l);
    if (!l)
        return;
    l->limit = LIMIT_DEFAULT;
    struct field_reader r = reader_of(c->broker, x, FIELDS(rows), l, &p);
    if (fields_read_query(&r, http_request(x)->query) < 0 || take_filter(&r, l) < 0) {
        problem_answer(x, &p);
        return;
    }
    http_alone(x);
    l->all = !fields_has(&r, "queue_id");
    answer_begin(x, &l->w);
    json_write_array(&l->w);
    if (l->all)
        queues_ask(c);
    else
        orc_queue_find(c, &(struct orc_lookup){.id = l->queue_id ? l->queue_id : -1,
                                               .found = queue_found,
                                               .field = "queue_id",
                                               .more = l});
}
