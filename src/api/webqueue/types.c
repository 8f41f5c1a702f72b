/* SPDX-License-Identifier: Apache-2.0 */
/* Queue types: a configured set, each with its own queue.
 *
 * The first enqueue of a type creates its queue. A changed configuration (timeout, retention,
 * retries) takes effect at the next start; members of the policy that are not configured stay as
 * an operator set them. A queue of this name with another owner becomes this API's: the API
 * checks this at the start and, until it has found the queue, with each request. */
#include "api/webqueue/webqueue_impl.h"

#include <stdio.h>

static const struct span owner = {"webqueue", 8};

static struct web_type *type_find(struct webqueue *w, struct span name)
{
    for (size_t i = 0; i < w->type_count; i++)
        if (span_equal(name, span_text(w->names[i])))
            return &w->types[i];
    return NULL;
}

struct web_type *type_named(struct webqueue *w, struct arena *arena, struct span name,
                            struct problem *problem)
{
    struct web_type *t = type_find(w, name.len > 0 ? name : SPAN_LITERAL("processing"));
    if (!t && name.len == 0)
        t = &w->types[0];
    if (t)
        return t;
    problem_set(problem, arena, PROBLEM_INVALID_FIELD, "queue_type",
                "there is no queue type %.*s; `allowed` lists those of the setting webqueue.types",
                (int)name.len, name.at);
    problem->allowed = w->names;
    problem->allowed_count = w->type_count;
    return NULL;
}

struct web_type *type_of_queue(const struct webqueue *w, struct span queue)
{
    for (size_t i = 0; i < w->type_count; i++)
        if (span_equal(queue, w->types[i].queue))
            return &w->types[i];
    return NULL;
}

/* ---- the queue of a type ---- */

/* Sets the members that the configuration determines. */
static void policy_configure(const struct web_type *t, struct queue_policy *p)
{
    p->lease_ms = t->config.timeout_ms;
    p->max_attempts = (uint16_t)(t->config.retries + 1);
    p->keep_done_ms = t->config.keep_ms;
}

void type_policy(const struct web_type *t, struct queue_policy *ret)
{
    *ret = t->w->base;
    ret->max_crashes = 0;
    ret->lease_end = LEASE_END_FAIL;
    ret->unique_mode = UNIQUE_REJECT;
    ret->unique_scope = UNIQUE_LIVE;
    ret->refuse_new = false;
    ret->keep_done = UINT64_MAX;
    ret->keep_dead_ms = INT64_MAX; /* errors stay until they are cleared */
    ret->keep_dead = UINT64_MAX;
    policy_configure(t, ret);
}

static bool policy_right(const struct web_type *t, const struct queue_policy *p)
{
    return p->lease_ms == t->config.timeout_ms && p->max_attempts == t->config.retries + 1 &&
           p->keep_done_ms == t->config.keep_ms;
}

static void check_reply(void *ctx, const struct reply *r);

static void check_end(struct web_type *t)
{
    struct webqueue *w = t->w;
    t->checking = false;
    w->checking--;
    if (t->defined)
        web_alerts_put(w);
    if (w->checking == 0 && w->closed)
        webqueue_api.close(w, w->closed, w->closed_ctx);
}

static void check_submit(struct web_type *t)
{
    if (broker_submit(t->w->broker, &t->op, 1, check_reply, t) < 0)
        check_end(t); /* the next request checks again */
}

/* The queue exists: changes it if owner or settings are different. */
static void queue_check(struct web_type *t, const struct queue_view *q)
{
    bool ours = span_equal(q->owner, owner);
    t->defined = ours && policy_right(t, q->policy);
    if (t->defined) {
        check_end(t);
        return;
    }
    type_policy(t, &t->policy);
    if (ours) {
        t->policy = *q->policy;
        policy_configure(t, &t->policy);
    }
    t->op = (struct op){.kind = OP_QUEUE_PUT,
                        .queue = {.name = t->queue,
                                  .must_exist = true,
                                  .policy = &t->policy,
                                  .has_owner = true,
                                  .owner = owner}};
    check_submit(t);
}

static void check_reply(void *ctx, const struct reply *r)
{
    struct web_type *t = ctx;
    if (r->outcome == OUT_OK && r->kind == OP_QUEUE_GET && r->queue_count == 1) {
        queue_check(t, &r->queues[0]);
        return;
    }
    t->defined = r->outcome == OUT_OK && r->kind == OP_QUEUE_PUT;
    check_end(t);
}

void type_check(struct web_type *t)
{
    if (t->defined || t->checking)
        return;
    t->checking = true;
    t->w->checking++;
    t->op = (struct op){.kind = OP_QUEUE_GET, .queue = {.name = t->queue}};
    check_submit(t);
}

/* ---- which queues a request means ---- */

struct span library_group(struct arena *arena, int64_t library_id)
{
    char text[LIBRARY_TEXT_BYTES];
    int len = snprintf(text, sizeof text, "%lld", (long long)library_id);
    return span_of(arena_copy(arena, text, (size_t)len), (size_t)len);
}

int scope_take(struct webqueue *w, struct arena *arena, const struct web_scope *scope,
               struct web_reach *ret, struct problem *problem)
{
    *ret = (struct web_reach){.types = w->types, .count = w->type_count};
    if (scope->type.len > 0) {
        ret->types = type_named(w, arena, scope->type, problem);
        ret->count = 1;
    }
    if (!ret->types)
        return -ERR_INVALID;
    for (size_t i = 0; i < ret->count; i++)
        type_check(&ret->types[i]);
    if (scope->library_id == NO_LIBRARY)
        return 0;
    ret->group = library_group(arena, scope->library_id);
    if (ret->group.at)
        return 0;
    problem_of_error(problem, -ERR_NOMEM);
    return -ERR_INVALID;
}
