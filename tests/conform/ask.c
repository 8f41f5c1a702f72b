/* SPDX-License-Identifier: Apache-2.0 */
/* Submits operations, waits for replies, and repeats operations as backend.h prescribes. */
#include "conform/conform.h"

#include "backend/reply_copy.h"
#include "base/check.h"
#include "base/mem.h"

#define TRIES_MAX 200

struct pending {
    struct env *e;
    uint64_t first_tag;
    size_t count, left;
    bool submitting;
    const struct op *ops;
    const struct reply **replies;
};

static void breach(struct env *e, const char *text)
{
    if (!e->broken[0])
        snprintf(e->broken, sizeof e->broken, "%s", text);
}

static struct reply *keep(struct env *e, const struct reply *reply)
{
    struct kept_reply *k = mem_zalloc(sizeof *k);
    CHECK(k);
    k->reply = reply_copy(reply);
    CHECK(k->reply);
    k->next = e->kept;
    e->kept = k;
    return k->reply;
}

static void reply_cb(void *ctx, const struct reply *reply)
{
    struct pending *p = ctx;
    size_t index = (size_t)(reply->tag - p->first_tag);
    uv_stop(&p->e->loop); /* replies may come right before the loop would wait */
    if (p->submitting) {
        breach(p->e, "a reply came from inside submit");
    } else if (reply->tag < p->first_tag || index >= p->count) {
        breach(p->e, "a reply has a tag that was not given");
    } else if (p->replies[index]) {
        breach(p->e, "an op was answered twice");
    } else if (reply->kind != p->ops[index].kind || (unsigned)reply->outcome >= OUT_COUNT) {
        breach(p->e, "a reply has another kind than its op, or no known outcome");
    } else {
        p->replies[index] = keep(p->e, reply);
        p->left--;
    }
}

struct pending *submit(struct env *e, const struct op *ops, size_t count,
                       const struct reply **replies)
{
    struct pending *p = arena_array(&e->arena, 1, sizeof *p);
    struct op *own = arena_copy(&e->arena, ops, count * sizeof *ops);
    CHECK(p && own);
    *p = (struct pending){e, e->next_tag, count, count, true, own, replies};
    for (size_t i = 0; i < count; i++) {
        own[i].tag = e->next_tag++;
        replies[i] = NULL;
    }
    int rc = backend_submit(e->b, own, count, reply_cb, p);
    p->submitting = false;
    if (rc < 0)
        LEAVE("submit: %s", err_name(rc));
    return p;
}

size_t pending_left(const struct pending *p)
{
    return p->left;
}

void wait_for(struct env *e, struct pending *p)
{
    while (p->left > 0 && !e->broken[0]) {
        if (!uv_run(&e->loop, UV_RUN_ONCE) && p->left > 0)
            LEAVE("%zu replies never came", p->left);
    }
    if (e->broken[0])
        LEAVE("%s", e->broken);
}

void run_batch(struct env *e, const struct op *ops, size_t count, const struct reply **replies)
{
    wait_for(e, submit(e, ops, count, replies));
}

static struct reply *run_once(struct env *e, const struct op *op)
{
    const struct reply **reply = arena_array(&e->arena, 1, sizeof(struct reply *));
    CHECK(reply);
    run_batch(e, op, 1, reply);
    return (struct reply *)*reply; /* this file owns the copy */
}

/* What makes an op safe to repeat. */
static void make_repeatable(struct env *e, struct op *op)
{
    if (op->kind == OP_ENQUEUE && op->enqueue.idempotency_key.len == 0) {
        char *key = arena_alloc(&e->arena, 32);
        CHECK(key);
        snprintf(key, 32, "repeat-%llu", (unsigned long long)++e->next_key);
        op->enqueue.idempotency_key = span_text(key);
    } else if (op->kind == OP_CLAIM) {
        op->claim.nonce = ++e->next_nonce;
    }
}

/* Whether this refusal shows that an earlier attempt of the op succeeded. */
static bool done_before(const struct op *op, const struct reply *r)
{
    switch ((int)op->kind) {
    case OP_CANCEL:
        return r->outcome == OUT_ILLEGAL && r->state == STATE_CANCELLED;
    case OP_REQUEUE:
        return r->outcome == OUT_ILLEGAL && r->state == STATE_READY;
    case OP_REMOVE:
        return r->outcome == OUT_NOT_FOUND;
    case OP_QUEUE_DELETE:
        return r->outcome == OUT_NO_QUEUE;
    case OP_ALERT_DELETE:
    case OP_NOTICE_DISCARD:
    case OP_BREAKER_DELETE:
        return r->outcome == OUT_NOT_FOUND;
    case OP_QUEUE_PUT:
    case OP_SCHEDULE_PUT:
        return r->outcome == OUT_EXISTS;
    case OP_SCHEDULE_DELETE:
        return r->outcome == OUT_NO_SCHEDULE;
    case OP_FIRE:
    case OP_TRIGGER:
        return r->outcome == OUT_NOT_DUE;
    default:
        return false;
    }
}

static const struct reply *run_until_answered(struct env *e, struct op op)
{
    bool unsure = false;
    make_repeatable(e, &op);
    for (int tries = 0; tries < TRIES_MAX; tries++) {
        struct reply *r = run_once(e, &op);
        if (r->outcome == OUT_UNKNOWN && op.kind == OP_CLAIM) {
            run(e, (struct op){.kind = OP_RELEASE_CLAIM, .release_claim = {op.claim.nonce}});
            op.claim.nonce = ++e->next_nonce;
        } else if (r->outcome == OUT_UNKNOWN) {
            unsure = true;
        } else if (r->outcome != OUT_UNAVAILABLE) {
            if (unsure && done_before(&op, r))
                r->outcome = OUT_OK;
            return r;
        }
    }
    LEAVE("no answer after %d tries", TRIES_MAX);
}

const struct reply *run(struct env *e, struct op op)
{
    return e->lossy ? run_until_answered(e, op) : run_once(e, &op);
}

/* --- signals --- */

static void signal_cb(void *ctx)
{
    struct watcher *w = ctx;
    w->signals++;
}

struct watcher *watch(struct env *e, const char *queue)
{
    struct watcher *w = arena_array(&e->arena, 1, sizeof *w);
    CHECK(w);
    int rc = backend_watch(e->b, span_text(queue), signal_cb, w, &w->handle);
    if (rc < 0)
        LEAVE("watch: %s", err_name(rc));
    if (w->signals > 0)
        LEAVE("a signal came from inside watch");
    return w;
}

bool signalled(struct env *e, struct watcher *w)
{
    for (int i = 0; i < 20 && w->signals == 0; i++)
        settle(e);
    bool came = w->signals > 0;
    w->signals = 0;
    return came;
}
