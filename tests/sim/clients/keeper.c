/* SPDX-License-Identifier: Apache-2.0 */
/* Keepers: how they are set up, commits, schedules, rates. */
#include "sim/clients/keeper.h"

#include <string.h>

#include "base/check.h"
#include "sim/world/world.h"

/* A key of two parts, encoded as core/kvkey.h says: both are texts. */
struct span keeper_key_of(struct pool *pool, enum keeper_key kind, uint32_t number)
{
    return pool_text(pool, "0%c%c0%u%c", (int)kind, 0, number, 0);
}

void keeper_done(struct world *w)
{
    vec_free(w->keeper.tasks);
    vec_free(w->keeper.seqs);
    vec_free(w->keeper.children);
}

/* ---- setup ----------------------------------------------------------------------------------- */

static void queue_policy(struct world *w, enum keeper_queue queue, struct queue_policy *p)
{
    policy_default(p);
    p->keep_done_ms = p->keep_dead_ms = INT64_MAX;
    p->keep_done = p->keep_dead = UINT64_MAX;
    p->lease_ms = (uint32_t)between(w, 200, 3000);
    p->max_crashes = 0;
    p->max_attempts = (uint16_t)between(w, 1, 4);
    p->backoff = (struct backoff){.kind = BACKOFF_LIST, .step_count = 1};
    p->backoff.step_ms[0] = (uint32_t)between(w, 0, 400);
    p->ranked = queue == KEEPER_JOBS; /* the only queue that surely has pages */
    if (queue == KEEPER_JOBS)
        p->max_attempts = 1000;
    if (queue == KEEPER_FIRED && chance(w, 40))
        p->capacity = (uint64_t)between(w, 1, 4);
    if (queue == KEEPER_RATED)
        p->enqueue_rate = (struct rate_limit){.count = KEEPER_RATE, .window_ms = KEEPER_RATE_MS};
    if (queue == KEEPER_LIMITED) {
        keeper_limits_draw(w, p);
        w->keeper.limits = *p;
    }
}

static void make_queues(struct world *w)
{
    static const char *const names[KEEPER_QUEUES_MAX] = {
        "x-kv", "x-fired", "x-items", "x-jobs", "x-rated", "x-children", "x-limited"};
    w->keeper.queue_count = has(&w->plan, FEATURE_LIMITS) ? KEEPER_QUEUES_MAX : KEEPER_QUEUES;
    for (unsigned i = 0; i < w->keeper.queue_count; i++) {
        struct queue_policy *p = pool_alloc(&w->pool, sizeof(*p));
        queue_policy(w, (enum keeper_queue)i, p);
        w->keeper.queues[i] = span_text(names[i]);
        drain_ask(
            w,
            &(struct op){.kind = OP_QUEUE_PUT, .queue = {.name = w->keeper.queues[i], .policy = p}},
            true);
    }
}

static void fill_spec(struct world *w, size_t i, struct schedule_spec *s)
{
    bool clock = i < KEEPER_SCHEDULES;
    schedule_default(s, clock ? SCHEDULE_INTERVAL : SCHEDULE_QUEUE);
    s->every_ms = 1000;
    s->overlap = chance(w, 40) ? OVERLAP_SKIP : OVERLAP_ALLOW;
    s->queue = w->keeper.queues[clock ? KEEPER_FIRED : KEEPER_JOBS];
    if (clock)
        return;
    s->source = w->keeper.queues[KEEPER_ITEMS];
    s->batch_size = (uint32_t)between(w, 1, KEEPER_ITEMS_MAX);
    s->eager = i + 1 == KEEPER_SCHEDULES + KEEPER_TRIGGERS;
}

static void put_schedule(struct world *w, size_t i, struct op *op)
{
    struct schedule_spec *spec = pool_alloc(&w->pool, sizeof(*spec));
    fill_spec(w, i, spec);
    op->kind = OP_SCHEDULE_PUT;
    op->schedule.name = w->keeper.schedules[i];
    op->schedule.spec = spec;
}

static void make_schedules(struct world *w)
{
    struct keeper *k = &w->keeper;
    for (size_t i = 0; i < KEEPER_SCHEDULES + KEEPER_TRIGGERS; i++) {
        struct op op = {.kind = OP_SCHEDULE_PUT};
        bool clock = i < KEEPER_SCHEDULES;
        k->schedules[i] =
            pool_text(&w->pool, "%c%zu", clock ? 's' : 't', clock ? i : i - KEEPER_SCHEDULES);
        k->next_at[i] = KEEPER_TIME;
        put_schedule(w, i, &op);
        op.schedule.next_at.ms = KEEPER_TIME;
        drain_ask(w, &op, true);
    }
}

static void make_alert(struct world *w)
{
    struct alert_rule *rule = pool_alloc(&w->pool, sizeof(*rule));
    alert_rule_default(ALERT_DEAD, rule);
    rule->queue = SPAN_LITERAL("x-*");
    rule->url = SPAN_LITERAL("http://hooks.example/in");
    drain_ask(
        w,
        &(struct op){.kind = OP_ALERT_PUT, .alert = {.name = SPAN_LITERAL("dead"), .rule = rule}},
        true);
}

void keeper_setup(struct world *w)
{
    w->history.wild = has(&w->plan, FEATURE_WILD);
    w->draining = true; /* nothing fails, nothing is late */
    while (w->server.state != SERVER_UP && world_step(w))
        ;
    make_queues(w);
    make_schedules(w);
    if (has(&w->plan, FEATURE_ALERTS))
        make_alert(w);
    drain_settle(w);
    w->draining = false;
    for (size_t i = 0; i < w->history.count; i++)
        if (w->history.entries[i].apart && w->history.entries[i].reply.outcome != OUT_OK)
            world_blame(w, CHECK_DRIVER, "a keeper's %s was refused",
                        op_kind_name(w->history.entries[i].op.kind));
}

/* ---- commits --------------------------------------------------------------------------------- */

static struct span left_keys(struct world *w, uint32_t number)
{
    struct buf list;
    buf_init(&list);
    CHECK(record_span_append(&list, keeper_key_of(&w->pool, KEY_LEFT, number)) == 0);
    struct span copy = pool_span(&w->pool, buf_span(&list));
    buf_done(&list);
    return copy;
}

static const struct op_enqueue *commit_job(struct world *w, uint32_t number)
{
    struct op_enqueue *job = pool_alloc(&w->pool, sizeof(*job));
    job->queue = w->keeper.queues[KEEPER_KV];
    job->payload_kind = PAYLOAD_BYTES;
    job->payload = pool_text(&w->pool, "commit %u", number);
    if (chance(w, 70))
        job->extra.undelivered = left_keys(w, number);
    if (chance(w, 10))
        job->delay_ms = between(w, 1, 500);
    return job;
}

/* It can happen only once, however often it is sent: its own key must not be there. */
static void commit(struct world *w, uint32_t client)
{
    uint32_t number;
    (void)call_new(w, client, OP_KV_COMMIT, 3, &number);
    struct kv_check *checks = pool_alloc(&w->pool, 2 * sizeof(*checks));
    struct kv_set *sets = pool_alloc(&w->pool, 2 * sizeof(*sets));
    struct span *deletes = pool_alloc(&w->pool, sizeof(*deletes));
    uint32_t shared = (uint32_t)between(w, 0, KEEPER_SHARED - 1);
    struct op_kv_commit op = {.checks = checks, .sets = sets, .deletes = deletes};
    checks[op.check_count++].key = keeper_key_of(&w->pool, KEY_COMMIT, number);
    sets[op.set_count++] = (struct kv_set){
        .key = checks[0].key, .kind = PAYLOAD_BYTES, .value = pool_text(&w->pool, "%u", number)};
    struct span key = keeper_key_of(&w->pool, KEY_SHARED, shared);
    if (chance(w, 30))
        checks[op.check_count++] = (struct kv_check){key, w->keeper.versions[shared]};
    if (chance(w, 60))
        sets[op.set_count++] =
            (struct kv_set){.key = key, .kind = PAYLOAD_BYTES, .value = sets[0].value};
    else if (chance(w, 30))
        deletes[op.delete_count++] = key;
    if (chance(w, 80)) {
        op.enqueues = commit_job(w, number);
        op.enqueue_count = 1;
    }
    w->calls[number].op.kv_commit = op;
    call_send(w, number);
}

static void read_keys(struct world *w, uint32_t client)
{
    uint32_t number;
    struct call *call = call_new(w, client, OP_KV_GET, 1, &number);
    struct span *keys = pool_alloc(&w->pool, KEEPER_SHARED * sizeof(*keys));
    for (uint32_t i = 0; i < KEEPER_SHARED; i++)
        keys[i] = keeper_key_of(&w->pool, KEY_SHARED, i);
    call->op.kv_get =
        (struct op_kv_get){.keys = keys, .count = KEEPER_SHARED, .want_value = chance(w, 70)};
    call_send(w, number);
}

static void list_keys(struct world *w, uint32_t client)
{
    uint32_t number;
    struct call *call = call_new(w, client, OP_KV_LIST, 1, &number);
    call->op.kv_list = (struct op_kv_list){
        .limit = (uint32_t)between(w, 1, 100), .reverse = chance(w, 50), .want_value = true};
    call_send(w, number);
}

static void commit_or_read(struct world *w, uint32_t client)
{
    if (chance(w, 75))
        commit(w, client);
    else if (chance(w, 80))
        read_keys(w, client);
    else
        list_keys(w, client);
}

/* ---- schedules ------------------------------------------------------------------------------- */

static void fire(struct world *w, uint32_t client, size_t i)
{
    uint32_t number;
    bool clock = i < KEEPER_SCHEDULES;
    struct op_schedule *op =
        &call_new(w, client, clock ? OP_FIRE : OP_TRIGGER, 3, &number)->op.schedule;
    op->name = w->keeper.schedules[i];
    op->at.ms = w->keeper.next_at[i];
    op->next_at.ms = op->at.ms + 1000 * between(w, 1, 5);
    if (chance(w, 10)) { /* times before it passed */
        op->at.ms += 500;
        op->missed = 1;
    }
    op->skip = clock && chance(w, 5);
    op->now = chance(w, 10);
    call_send(w, number);
}

static void look_at(struct world *w, uint32_t client, size_t i)
{
    uint32_t number;
    struct call *call = call_new(w, client, OP_SCHEDULE_GET, 1, &number);
    call->op.schedule.name = w->keeper.schedules[i];
    call_send(w, number);
}

/* Puts it again, pauses it or lets it go on: its times never go back. */
static void change(struct world *w, uint32_t client, size_t i)
{
    uint32_t number;
    enum op_kind kind = chance(w, 50) ? OP_SCHEDULE_PUT : OP_SCHEDULE_PAUSE;
    (void)call_new(w, client, kind, 2, &number);
    struct op op = {.kind = kind};
    op.schedule.name = w->keeper.schedules[i];
    if (kind == OP_SCHEDULE_PAUSE) {
        op.schedule.paused = chance(w, 30);
        op.schedule.next_at.ms = w->keeper.next_at[i];
    } else if (chance(w, 50)) {
        put_schedule(w, i, &op);
    } else {
        op.schedule.has_note = true;
        op.schedule.note = SPAN_LITERAL("changed");
    }
    w->calls[number].op = op;
    call_send(w, number);
}

/* One that comes and goes, under a new name each time. */
static void come_and_go(struct world *w, uint32_t client)
{
    uint32_t number;
    struct span *name = &w->keeper.extra_schedule;
    enum op_kind kind = name->len ? OP_SCHEDULE_DELETE : OP_SCHEDULE_PUT;
    (void)call_new(w, client, kind, 2, &number);
    struct op op = {.kind = kind};
    if (kind == OP_SCHEDULE_PUT) {
        *name = pool_text(&w->pool, "x%u", number);
        put_schedule(w, 0, &op);
        op.schedule.next_at.ms = KEEPER_TIME;
    }
    op.schedule.name = *name;
    if (kind == OP_SCHEDULE_DELETE)
        name->len = 0;
    w->calls[number].op = op;
    call_send(w, number);
}

static void scheduled(struct world *w, uint32_t client, size_t first, size_t count)
{
    size_t i = first + (size_t)between(w, 0, (int64_t)count - 1);
    unsigned roll = (unsigned)between(w, 0, 99);
    if (roll < 60)
        fire(w, client, i);
    else if (roll < 85)
        look_at(w, client, i);
    else if (roll < 95)
        change(w, client, i);
    else
        come_and_go(w, client);
}

static void heard_of(struct world *w, const struct hist_entry *e)
{
    for (uint32_t n = 0; n < e->schedule_count; n++)
        for (size_t i = 0; i < KEEPER_SCHEDULES + KEEPER_TRIGGERS; i++)
            if (span_equal(e->schedules[n].name, w->keeper.schedules[i]))
                w->keeper.next_at[i] = e->schedules[n].state.next_at.ms;
}

/* ---- what they do ---------------------------------------------------------------------------- */

static void enqueue(struct world *w, uint32_t client, enum keeper_queue queue)
{
    uint32_t number;
    struct op_enqueue *op = &call_new(w, client, OP_ENQUEUE, 1, &number)->op.enqueue;
    op->queue = w->keeper.queues[queue];
    op->payload_kind = PAYLOAD_BYTES;
    op->payload = pool_text(&w->pool, "one %u", number);
    call_send(w, number);
}

static void fire_some(struct world *w, uint32_t client)
{
    scheduled(w, client, 0, KEEPER_SCHEDULES);
}

static void trigger_some(struct world *w, uint32_t client)
{
    if (chance(w, 45))
        for (int64_t n = between(w, 1, 3); n > 0; n--)
            enqueue(w, client, KEEPER_ITEMS);
    else
        scheduled(w, client, KEEPER_SCHEDULES, KEEPER_TRIGGERS);
}

static void enqueue_rated(struct world *w, uint32_t client)
{
    for (int64_t n = between(w, 1, 4); n > 0; n--)
        enqueue(w, client, KEEPER_RATED);
}

void keeper_act(struct world *w, uint32_t client)
{
    static const struct {
        enum feature feature;
        unsigned weight;
        void (*act)(struct world *w, uint32_t client);
    } acts[] = {
        {FEATURE_COMMITS, 10, commit_or_read},     {FEATURE_SCHEDULES, 8, fire_some},
        {FEATURE_TRIGGERS, 10, trigger_some},      {FEATURE_ALERTS, 8, keeper_notify},
        {FEATURE_RATES, 4, enqueue_rated},         {FEATURE_WILD, 12, keeper_wild},
        {FEATURE_DEPENDENCIES, 12, keeper_depend}, {FEATURE_LIMITS, 20, keeper_limit},
        {FEATURE_BATCHES, 6, keeper_batch},
    };
    if (chance(w, 35)) {
        keeper_claim(w, client);
        return;
    }
    unsigned sum = 0;
    size_t i = 0;
    for (; i < sizeof acts / sizeof *acts; i++)
        sum += has(&w->plan, acts[i].feature) ? acts[i].weight : 0;
    int64_t roll = between(w, 0, sum - 1);
    for (i = 0;; i++)
        if (has(&w->plan, acts[i].feature) && (roll -= acts[i].weight) < 0)
            break;
    acts[i].act(w, client);
}

static void keys_heard(struct world *w, const struct hist_entry *e)
{
    for (uint32_t i = 0; e->op.kind == OP_KV_GET && i < e->kv_count; i++)
        w->keeper.versions[i] = e->kvs[i].found ? e->kvs[i].version : 0;
}

void keeper_answered(struct world *w, size_t entry, uint32_t client)
{
    const struct hist_entry *e = &w->history.entries[entry];
    if (e->reply.outcome == OUT_OK)
        keys_heard(w, e);
    heard_of(w, e);
    keeper_child_heard(w, e);
    if (has(&w->plan, FEATURE_WILD))
        keeper_seen(w, e);
    if (e->op.kind == OP_CLAIM)
        keeper_claimed(w, entry, client);
    if (e->op.kind == OP_NOTICE_TAKE)
        keeper_taken(w, entry, client);
}
