/* SPDX-License-Identifier: Apache-2.0 */
/* Tubes: references to them, and how they are created and deleted.
 *
 * beanstalkd has a tube as long as a connection uses or watches it or it contains jobs. A queue
 * is created by the first put and would stay; clients that create a tube for each reply that
 * they wait for would leave thousands behind. Therefore a tube without references that may have
 * lost its last job is put on a list, and at the end of the loop iteration its queue is deleted
 * if it is empty and this API created it. The engine decides that, so a job that arrives in the
 * meantime is safe.
 *
 * The struct outlives the references, because it has the counters of the tube; it is freed with
 * the queue. */
#include "api/beanstalk/impl.h"
#include "base/digest/random.h"
#include "base/mem.h"

#define SWEEP_MAX 256 /* tubes checked in one loop iteration */

static const struct span DEFAULT_TUBE = SPAN_LITERAL("default");

/* ---- the table ---- */

struct tube *tube_find(const struct beanstalk *b, struct span name)
{
    return (struct tube *)(uintptr_t)map128_get(&b->by_name, hash128_of(b->hash_key, name));
}

struct tube *tube_get(struct beanstalk *b, struct span name)
{
    if (b->last_tube && span_equal(span_of(b->last_tube->name, b->last_tube->len), name))
        return b->last_tube;
    struct hash128 key = hash128_of(b->hash_key, name);
    struct tube *t = (struct tube *)(uintptr_t)map128_get(&b->by_name, key);
    if (t)
        return b->last_tube = t;
    t = mem_zalloc(sizeof *t);
    if (!t || map128_put(&b->by_name, key, (uintptr_t)t) != 0) {
        mem_free(t);
        return NULL;
    }
    t->key = key;
    t->len = (uint8_t)name.len;
    memcpy(t->name, name.at, name.len);
    link_append(&b->tubes, &t->all);
    link_init(&t->emptied);
    return t;
}

static void tube_free(struct beanstalk *b, struct tube *t)
{
    map128_drop(&b->by_name, t->key);
    if (b->last_tube == t)
        b->last_tube = NULL;
    link_remove(&t->all);
    link_remove(&t->emptied);
    mem_free(t);
}

static bool referred(const struct tube *t)
{
    return t->users > 0 || t->watchers > 0 || t->refs > 0;
}

void tube_emptied(struct beanstalk *b, struct tube *t)
{
    if (t == b->default_tube || referred(t) || !link_alone(&t->emptied))
        return;
    link_append(&b->emptied, &t->emptied);
    net_wake(&b->net);
}

void tube_emptied_name(struct beanstalk *b, struct span name)
{
    struct tube *t = bs_tube_valid(name) ? tube_get(b, name) : NULL;
    if (t)
        tube_emptied(b, t);
}

void tube_ref(struct tube *t)
{
    t->refs++;
}

void tube_unref(struct beanstalk *b, struct tube *t)
{
    t->refs--;
    tube_emptied(b, t);
}

/* ---- connections ---- */

void tube_use(struct conn *c, struct tube *t)
{
    struct tube *old = c->used;
    t->users++;
    c->used = t;
    if (!old)
        return;
    old->users--;
    tube_emptied(c->api, old);
}

bool tube_watched(const struct conn *c, const struct tube *t)
{
    for (uint32_t i = 0; i < c->watched_count; i++)
        if (c->watched[i] == t)
            return true;
    return false;
}

static bool watch_room(struct conn *c)
{
    if (!c->watched) {
        c->watched = &c->watched_one;
        c->watched_room = 1;
    }
    if (c->watched_count < c->watched_room)
        return true;
    uint32_t room = c->watched_room < 4 ? 4 : c->watched_room * 2;
    bool own = c->watched != &c->watched_one;
    struct tube **grown = mem_regrow(own ? c->watched : NULL, room, sizeof(struct tube *));
    if (!grown)
        return false;
    if (!own)
        grown[0] = c->watched_one;
    c->watched = grown;
    c->watched_room = room;
    return true;
}

bool tube_watch(struct conn *c, struct tube *t)
{
    if (tube_watched(c, t))
        return true;
    if (c->watched_count >= LIMIT_QUEUES_PER_CLAIM || !watch_room(c)) {
        tube_emptied(c->api, t);
        return false;
    }
    c->watched[c->watched_count++] = t;
    t->watchers++;
    return true;
}

/* In beanstalkd's order: the last tube takes the place of the one that is removed. */
void tube_ignore(struct conn *c, struct tube *t)
{
    for (uint32_t i = 0; i < c->watched_count; i++) {
        if (c->watched[i] != t)
            continue;
        c->watched[i] = c->watched[--c->watched_count];
        t->watchers--;
        tube_emptied(c->api, t);
        return;
    }
}

void tubes_leave(struct conn *c)
{
    for (uint32_t i = 0; i < c->watched_count; i++) {
        c->watched[i]->watchers--;
        tube_emptied(c->api, c->watched[i]);
    }
    if (c->watched != &c->watched_one)
        mem_free(c->watched);
    c->watched = NULL;
    c->watched_count = c->watched_room = 0;
    if (c->used) {
        c->used->users--;
        tube_emptied(c->api, c->used);
    }
    c->used = NULL;
}

void tubes_parked(struct conn *c, bool waits)
{
    if (c->parked == waits)
        return;
    c->parked = waits;
    c->api->waiting += waits ? 1u : -1u;
    for (uint32_t i = 0; i < c->watched_count; i++)
        c->watched[i]->waiters += waits ? 1u : -1u;
}

/* ---- queues ---- */

static uint64_t jobs_of(const struct queue_counts *n)
{
    return delayed_jobs(n) + n->by_state[STATE_READY] + n->by_state[STATE_RUNNING] +
           n->by_state[STATE_DEAD];
}

bool tube_exists(const struct beanstalk *b, const struct tube *t, const struct queue_view *v)
{
    if (t && (t == b->default_tube || t->users > 0 || t->watchers > 0))
        return true;
    return v && (jobs_of(&v->counts) > 0 || !span_equal(v->owner, BS_OWNER));
}

static void created_cb(void *ctx, const struct reply *r)
{
    struct beanstalk *b = ctx;
    (void)r;
    net_work_done(&b->net);
}

void tube_create(struct beanstalk *b, struct tube *t)
{
    struct op op = {.kind = OP_QUEUE_PUT,
                    .queue = {.name = tube_name(t),
                              .must_create = true,
                              .implied = true,
                              .policy = &b->policy,
                              .has_owner = true,
                              .owner = BS_OWNER}};
    if (broker_submit(b->broker, &op, 1, created_cb, b) != 0)
        return;
    b->net.under_way++;
    t->made = true;
}

/* A job is retried until it is deleted or buried, and a deleted job leaves nothing behind. */
static void policy_init(struct beanstalk *b)
{
    struct queue_policy *p = &b->policy;
    if (b->config.policy)
        *p = *b->config.policy;
    else
        policy_default(p);
    p->max_attempts = LIMIT_ATTEMPTS;
    p->max_crashes = 0;
    p->lease_end = LEASE_END_REQUEUE;
    p->backoff = (struct backoff){.kind = BACKOFF_LIST};
    p->lease_ms = 60000;
    p->payload_max = LIMIT_PAYLOAD_BYTES;
    p->keep_done_ms = 0;
    p->keep_done = 0;
    p->keep_dead_ms = INT64_MAX;
    p->keep_dead = UINT64_MAX;
}

/* ---- the end of a tube ---- */

struct ending {
    struct beanstalk *api;
    struct tube *tube;
    uint64_t jobs, timeouts;
    enum outcome deleted;
    unsigned waiting; /* replies that are outstanding, in any order */
};

static void ended(struct ending *n)
{
    struct beanstalk *b = n->api;
    struct tube *t = n->tube;
    bool gone = n->deleted == OUT_OK || n->deleted == OUT_NO_QUEUE;
    if (n->deleted == OUT_OK) {
        b->past_jobs += n->jobs;
        b->past_timeouts += n->timeouts;
    }
    t->ending = false;
    t->refs--;
    if (gone && !referred(t))
        tube_free(b, t);
    mem_free(n);
    net_work_done(&b->net);
}

static void ended_cb(void *ctx, const struct reply *r)
{
    struct ending *n = ctx;
    if (r->kind == OP_QUEUE_DELETE) {
        n->deleted = r->outcome;
    } else if (r->outcome == OUT_OK && r->queue_count == 1) {
        n->jobs = r->queues[0].counts.enqueued;
        n->timeouts = r->queues[0].counts.crashed;
    }
    if (--n->waiting == 0)
        ended(n);
}

/* false: out of memory. */
static bool tube_end(struct beanstalk *b, struct tube *t)
{
    struct op ops[2] = {
        {.kind = OP_QUEUE_GET, .queue = {.name = tube_name(t)}},
        {.kind = OP_QUEUE_DELETE,
         .queue = {.name = tube_name(t), .only_empty = true, .has_owner = true, .owner = BS_OWNER}},
    };
    struct ending *n = mem_zalloc(sizeof *n);
    if (!n)
        return false;
    n->api = b;
    n->tube = t;
    n->waiting = 2;
    if (broker_submit(b->broker, ops, 2, ended_cb, n) != 0) {
        mem_free(n);
        return false;
    }
    t->made = false;
    t->ending = true;
    t->refs++;
    b->net.under_way++;
    return true;
}

/* ---- what an earlier run left behind ---- */

static void boot_list(struct beanstalk *b);

static void boot_cb(void *ctx, const struct reply *r)
{
    struct beanstalk *b = ctx;
    uint32_t count = r->outcome == OUT_OK ? r->queue_count : 0;
    net_work_done(&b->net);
    for (uint32_t i = 0; i < count; i++) {
        const struct queue_view *v = &r->queues[i];
        if (span_equal(v->owner, BS_OWNER) && jobs_of(&v->counts) == 0)
            tube_emptied_name(b, v->name);
    }
    if (count == LIMIT_BATCH && !b->net.closing) {
        struct span last = r->queues[count - 1].name;
        memcpy(b->boot_after, last.at, last.len);
        b->boot_after_len = last.len;
        boot_list(b);
    }
}

static void boot_list(struct beanstalk *b)
{
    struct op op = {.kind = OP_QUEUE_LIST,
                    .queue = {.after = span_of(b->boot_after, b->boot_after_len)}};
    b->boot_listed = true;
    if (broker_submit(b->broker, &op, 1, boot_cb, b) == 0)
        b->net.under_way++;
}

void tubes_sweep(struct beanstalk *b)
{
    if (!b->broker || b->net.closing || b->net.draining)
        return;
    if (!b->boot_listed)
        boot_list(b);
    for (unsigned i = 0; i < SWEEP_MAX && !link_alone(&b->emptied); i++) {
        struct tube *t = LINK_OWNER(b->emptied.next, struct tube, emptied);
        link_remove(&t->emptied);
        if (referred(t) || t->ending)
            continue;
        if (!tube_end(b, t)) {
            link_append(&b->emptied, &t->emptied);
            break;
        }
    }
    if (!link_alone(&b->emptied))
        net_tick_start(&b->net);
}

/* ---- beginning and end ---- */

int tubes_init(struct beanstalk *b)
{
    link_init(&b->tubes);
    link_init(&b->emptied);
    map128_init(&b->by_name);
    policy_init(b);
    int err = random_bytes(&b->hash_key, sizeof b->hash_key);
    if (err)
        return err;
    b->default_tube = tube_get(b, DEFAULT_TUBE);
    return b->default_tube ? 0 : -ERR_NOMEM;
}

void tubes_done(struct beanstalk *b)
{
    while (!link_alone(&b->tubes))
        tube_free(b, LINK_OWNER(b->tubes.next, struct tube, all));
    map128_done(&b->by_name);
}
