/* SPDX-License-Identifier: Apache-2.0 */
/* GET /api/queue-items/next: a claim. */
#include "api/claim_hold.h"
#include "api/json_members.h"
#include "api/orchestrator/orchestrator_impl.h"
#include "core/limits.h"

struct next {
    struct claim_hold hold;
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

static void claimed(void *ctx, const struct reply *r)
{
    struct next *n = ctx;
    struct http_exchange *x = n->hold.x;
    struct json_writer w;
    n->hold.parked = NULL;
    if (r->outcome != OUT_OK) {
        claim_hold_refuse(&n->hold, r, &orc_terms);
    } else if (r->job_count == 0) {
        http_answer(x, 204, NULL);
    } else {
        claim_hold_job(&n->hold, &r->jobs[0]);
        answer_begin(x, &w);
        orc_item_write(&w, &r->jobs[0], broker_now(n->hold.broker).wall, true);
        claim_hold_answer(&n->hold, &w);
    }
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
    claim_hold_begin(&n->hold, &want, claimed, n);
}

static int check(struct field_reader *r, const struct next *n)
{
    if (fields_exclude(r, "queue_name", "queue_id") < 0)
        return -ERR_INVALID;
    if (n->queue_name.len || fields_has(r, "queue_id"))
        return 0;
    problem_set(r->problem, r->arena, PROBLEM_MISSING_FIELD, "queue_name",
                "queue_name or queue_id is missing: it says from which queue the item is taken");
    return -ERR_INVALID;
}

void orc_item_next(void *ctx, struct http_exchange *x)
{
    struct problem p;
    struct broker *b = orc_broker(ctx);
    struct call *c = body_none(b, x) ? orc_call(ctx, x, OP_QUEUE_GET, NULL) : NULL;
    struct next *n = call_more(c, sizeof *n);
    if (!n)
        return;
    *n = (struct next){.hold = {.broker = b, .x = x}, .robot_id = -1};
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
