/* SPDX-License-Identifier: Apache-2.0 */
/* GET /api/queue-items/next: a claim. What was handed out is remembered until the answer has left;
 * if it did not leave whole, or could not be built, the item goes back uncounted. */
#include "api/orchestrator/orchestrator_impl.h"
#include "api/words.h"
#include "core/limits.h"

struct next {
    struct broker *broker;
    struct http_exchange *x;
    struct broker_claim *parked; /* NULL once it was answered or cancelled */
    struct broker_held held;
    bool holds;
    /* the request */
    struct span queue_name;
    int64_t queue_id, robot_id, lease_seconds;
};

#define AT(member) offsetof(struct next, member)
static const struct field rows[] = {
    {"queue_name", FIELD_TEXT, AT(queue_name), 0, LIMIT_QUEUE_NAME_BYTES, NULL, 0},
    {"queue_id", FIELD_INT, AT(queue_id), INT64_MIN, INT64_MAX, NULL, 0},
    {"robot_id", FIELD_INT, AT(robot_id), 0, INT64_MAX, NULL, 0},
    {"lease_seconds", FIELD_INT, AT(lease_seconds), 1, LIMIT_LEASE_MS / 1000, NULL, 0},
};

static void give_back(struct next *n)
{
    if (n->holds)
        broker_give_back(n->broker, &n->held, 1);
    n->holds = false;
}

static void answer_item(struct next *n, const struct job_view *v)
{
    struct json_writer w;
    answer_begin(n->x, &w);
    orc_item_write(&w, v, broker_now(n->broker).wall, true);
    int err = answer_close(n->x, &w);
    if (err < 0) {
        give_back(n);
        answer_error(n->x, err);
        return;
    }
    http_answer(n->x, 200, JSON_TYPE);
}

static void claimed(void *ctx, const struct reply *r)
{
    struct next *n = ctx;
    struct problem p;
    n->parked = NULL;
    if (r->outcome != OUT_OK) {
        problem_of_reply(&p, http_request(n->x)->arena, r, broker_draining(n->broker));
        p.terms = &orc_terms;
        problem_answer(n->x, &p);
    } else if (r->job_count == 0) {
        http_answer(n->x, 204, NULL);
    } else {
        n->held = (struct broker_held){r->jobs[0].job.seq, r->jobs[0].token};
        n->holds = true;
        answer_item(n, &r->jobs[0]);
    }
}

static void gone(void *ctx)
{
    struct next *n = ctx;
    if (!n->parked)
        return;
    broker_claim_cancel(n->broker, n->parked);
    n->parked = NULL;
    http_answer(n->x, 204, NULL);
}

static void sent(void *ctx, bool whole)
{
    if (!whole)
        give_back(ctx);
}

static void queue_found(struct call *c, const struct queue_view *q)
{
    struct next *n = c->more;
    char robot[ORC_ROBOT_BYTES];
    struct op_claim want = {
        .queues = &q->name,
        .queue_count = 1,
        .count = 1,
        .lease_ms = (uint32_t)n->lease_seconds * 1000,
        .worker = n->robot_id >= 0 ? orc_robot_name(n->robot_id, robot) : (struct span){NULL, 0},
        .want_body = true,
    };
    int err = broker_claim(n->broker, &want, 0, claimed, n, &n->parked);
    if (err < 0)
        answer_error(n->x, err);
    else
        http_watch(n->x, gone, sent, n);
}

static int check(struct field_reader *r, const struct next *n)
{
    if (fields_exclude(r, "queue_name", "queue_id") < 0)
        return -ERR_INVALID;
    if (n->queue_name.len || fields_has(r, "queue_id"))
        return 0;
    problem_set(r->problem, r->arena, PROBLEM_MISSING_FIELD, "queue_name",
                "give queue_name or queue_id: from which queue shall the item come?");
    return -ERR_INVALID;
}

void orc_item_next(void *ctx, struct http_exchange *x)
{
    struct problem p;
    struct broker *b = orc_broker(ctx);
    struct call *c = body_none(b, x) ? orc_call(ctx, x, OP_QUEUE_GET, NULL) : NULL;
    struct next *n = c ? arena_array(c->arena, 1, sizeof *n) : NULL;
    if (!n) {
        if (c)
            answer_error(x, -ERR_NOMEM);
        return;
    }
    *n = (struct next){.broker = b, .x = x, .robot_id = -1};
    struct field_reader r = reader_of(b, x, FIELDS(rows), n, &p);
    if (fields_read_query(&r, http_request(x)->query) < 0 || check(&r, n) < 0) {
        problem_answer(x, &p);
        return;
    }
    orc_queue_find(c, &(struct orc_lookup){.id = n->queue_id,
                                           .name = n->queue_name,
                                           .found = queue_found,
                                           .field = n->queue_name.len ? "queue_name" : "queue_id",
                                           .more = n});
}
