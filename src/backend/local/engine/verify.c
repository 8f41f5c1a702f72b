/* SPDX-License-Identifier: Apache-2.0 */
/* Checks for tests and simulation: do counters, lists, maps and heaps agree with the jobs? */
#include "backend/local/engine/engine_impl.h"

struct recount {
    const struct engine *e;
    struct err_note *note;
    uint64_t live, jobs, leases;
    uint64_t urgent;               /* of the queue being looked at */
    struct unique_recount uniques; /* of the queue being looked at */
    struct map64 in_ready, in_due; /* seq → 1: has a valid entry */
};

static int wrong(struct recount *c, const char *what, uint64_t seq)
{
    return err_note_set(c->note, -ERR_CORRUPT, "%s (job %llu)", what, (unsigned long long)seq);
}

static int mark_heap(struct recount *c, const struct heap *h, heap_stale_fn valid,
                     struct map64 *marks)
{
    for (size_t i = 0; i < h->len; i++) {
        struct heap_entry entry = heap_at(h, i);
        if (valid((void *)(uintptr_t)c->e, entry)) {
            int err = map64_put(marks, entry.seq, 1);
            if (err)
                return err;
        }
    }
    return 0;
}

/* A lease that has begun stands in the heap, at or before its end. */
static bool lease_watched(const struct engine *e, uint32_t handle)
{
    const struct lease *lease = lease_at(e, handle);
    if (lease->place == SIZE_MAX)
        return lease->until == NEVER_MS;
    struct heap_entry entry = heap_at(&e->leases_end, lease->place);
    return entry.seq == handle && entry.order <= heap_order_of(lease->until);
}

static int check_job(struct recount *c, const struct queue *q, uint32_t handle, uint8_t state)
{
    const struct live *l = live_at(c->e, handle);
    uint64_t seq = l->job.seq;
    if (seqdir_get(&c->e->dir, seq) != handle)
        return wrong(c, "the directory does not lead to it", seq);
    if (l->job.state != state || l->job.queue != q->number)
        return wrong(c, "stands in the wrong list", seq);
    if (jobs_purged(c->e, l))
        return wrong(c, "is purged but still listed", seq);
    if ((state == STATE_RUNNING) != (l->lease != 0))
        return wrong(c, "running and lease do not agree", seq);
    if (state == STATE_READY && !map64_get(&c->in_ready, seq))
        return wrong(c, "is ready but not in the order", seq);
    if (state == STATE_SCHEDULED && !map64_get(&c->in_due, seq))
        return wrong(c, "is scheduled but not in the order", seq);
    if (state == STATE_RUNNING && !lease_watched(c->e, l->lease))
        return wrong(c, "is leased but its lease would not end", seq);
    if (state_lives(state))
        c->live++;
    c->leases += l->lease != 0;
    c->jobs++;
    c->urgent += state == STATE_READY && l->job.priority > PRIORITY_URGENT;
    const char *why = unique_wrong(c->e, handle, &c->uniques);
    if (!why && l->lease)
        why = holds_wrong(c->e, l);
    return why ? wrong(c, why, seq) : 0;
}

static int check_list(struct recount *c, const struct queue *q, const struct joblist *list,
                      uint8_t state)
{
    uint64_t n = 0;
    uint32_t before = 0;
    bool scouted = list->scout == 0;
    for (uint32_t at = list->head; at; at = live_at(c->e, at)->next) {
        if (live_at(c->e, at)->prev != before)
            return wrong(c, "list links do not agree", live_at(c->e, at)->job.seq);
        int err = check_job(c, q, at, state);
        if (err)
            return err;
        scouted = scouted || at == list->scout;
        before = at;
        n++;
    }
    if (!scouted)
        return err_note_set(c->note, -ERR_CORRUPT, "queue %u: the scout left its list", q->number);
    if (n != list->count || list->tail != before)
        return err_note_set(c->note, -ERR_CORRUPT, "queue %u counts %llu %s jobs, has %llu",
                            q->number, (unsigned long long)list->count,
                            state_name((enum job_state)state), (unsigned long long)n);
    return 0;
}

/* Each listed job has its place, and there is no place more. */
static int check_ranks(struct recount *c, const struct queue *q)
{
    uint64_t jobs = 0, keys = 0;
    for (uint8_t s = 0; s < (uint8_t)STATE_COUNT && q->policy.ranked && !q->gone; s++)
        for (uint32_t at = q->lists[s].head; at; at = live_at(c->e, at)->next, jobs++) {
            const struct live *l = live_at(c->e, at);
            struct roster_key state = {s, l->job.seq}, key = {0, l->job.seq};
            struct hash128 unique =
                l->extra ? extra_unique(extra_at(c->e, l->extra)) : (struct hash128){0, 0};
            key.hi = unique.lo;
            keys += !hash128_none(unique);
            if (!roster_has(&q->by_state, state) ||
                (!hash128_none(unique) && !roster_has(&q->by_key, key)))
                return wrong(c, "has no place in its ranked queue", l->job.seq);
        }
    if (jobs == q->by_state.count && (q->purging.head || keys == q->by_key.count))
        return 0;
    return err_note_set(c->note, -ERR_CORRUPT, "queue %u: jobs that are gone have places",
                        q->number);
}

static bool waits_in_flow(void *engine, struct heap_entry entry)
{
    struct engine *e = engine;
    const struct live *l = jobs_by_seq(e, seq_of_ready(e, entry.seq), NULL);
    return l && l->job.state == STATE_READY;
}

static int mark_flow_heap(void *ctx, const struct heap *h)
{
    struct recount *c = ctx;
    return mark_heap(c, h, waits_in_flow, &c->in_ready);
}

static int check_queue(struct recount *c, const struct queue *q)
{
    int err = mark_heap(c, &q->ready, valid_ready, &c->in_ready);
    if (!err && q->flow)
        err = limits_each_heap(c->e, q, mark_flow_heap, c);
    if (!err && q->flow)
        err = limits_verify(c->e, (struct queue *)(uintptr_t)q, c->note);
    if (!err)
        err = mark_heap(c, &q->due, valid_due, &c->in_due);
    c->uniques = (struct unique_recount){0};
    c->urgent = 0;
    for (uint8_t s = 0; !err && s < (uint8_t)STATE_COUNT; s++)
        err = check_list(c, q, &q->lists[s], s);
    bool loose = q->policy.unique_scope == UNIQUE_NONE && q->purging.head;
    if (!err && !q->gone && !loose &&
        (q->shared != c->uniques.shared || q->shared_waiting != c->uniques.shared_waiting ||
         (q->shared && q->policy.unique_scope == UNIQUE_KEPT)))
        err = err_note_set(c->note, -ERR_CORRUPT, "queue %u miscounts jobs that share a unique key",
                           q->number);
    if (!err)
        err = check_ranks(c, q);
    if (!err && !q->gone && q->urgent != c->urgent)
        err = err_note_set(c->note, -ERR_CORRUPT, "queue %u counts %llu urgent jobs, has %llu",
                           q->number, (unsigned long long)q->urgent, (unsigned long long)c->urgent);
    for (uint32_t at = q->purging.head; !err && at; at = live_at(c->e, at)->next) {
        if (!jobs_purged(c->e, live_at(c->e, at)))
            err = wrong(c, "is listed for removal but lives", live_at(c->e, at)->job.seq);
        c->leases += live_at(c->e, at)->lease != 0;
        c->jobs++;
    }
    return err;
}

struct group_recount {
    uint64_t by_state[STATE_COUNT];
};

/* The jobs of each group by state; and those of a queue that have one. */
static int count_groups(struct recount *c, const struct queue *q, struct group_recount *counts)
{
    const struct engine *e = c->e;
    for (uint8_t s = 0; s < (uint8_t)STATE_COUNT; s++) {
        uint64_t grouped = 0;
        for (uint32_t at = q->lists[s].head; at; at = live_at(e, at)->next) {
            uint32_t group = more_of(e, live_at(e, at)).group;
            grouped += group != 0;
            counts[group].by_state[s]++;
        }
        if (grouped != q->in_groups[s])
            return err_note_set(c->note, -ERR_CORRUPT, "queue %u miscounts jobs with a group",
                                q->number);
    }
    return 0;
}

/* A group's counters against the jobs of its queue. */
static int check_group(struct recount *c, uint32_t h, const struct group_recount *count)
{
    const struct engine *e = c->e;
    const struct group *g = slab_at(&e->groups, h);
    if (!queue_at(e, g->queue) || queue_at(e, g->queue)->gone)
        return 0;
    for (uint8_t s = 0; s < (uint8_t)STATE_COUNT; s++)
        if (count->by_state[s] != group_counted(e, g, s))
            return err_note_set(c->note, -ERR_CORRUPT, "a group of queue %u is miscounted",
                                g->queue);
    return 0;
}

static int check_groups(struct recount *c)
{
    const struct map128_table *tables[] = {&c->e->group_map.now, &c->e->group_map.old};
    struct group_recount *counts = mem_array((size_t)c->e->groups.next + 1, sizeof(*counts));
    int err = counts ? 0 : -ERR_NOMEM;
    for (size_t n = 0; !err && n < c->e->queue_total; n++)
        if (c->e->queues[n])
            err = count_groups(c, c->e->queues[n], counts);
    for (size_t t = 0; t < 2; t++)
        for (size_t i = 0; !err && tables[t]->slots && i <= tables[t]->mask; i++)
            if (tables[t]->slots[i].value) {
                uint32_t group = (uint32_t)tables[t]->slots[i].value;
                err = check_group(c, group, &counts[group]);
            }
    mem_free(counts);
    return err;
}

static int check_totals(struct recount *c)
{
    const struct engine *e = c->e;
    if (c->live != e->live || c->jobs != e->jobs.used || c->jobs != e->dir.count)
        return err_note_set(c->note, -ERR_CORRUPT,
                            "recount finds %llu jobs (%llu live), counters say %llu (%llu)",
                            (unsigned long long)c->jobs, (unsigned long long)c->live,
                            (unsigned long long)e->jobs.used, (unsigned long long)e->live);
    if (c->leases != e->leases.used)
        return err_note_set(c->note, -ERR_CORRUPT, "recount finds %llu leases, there are %llu",
                            (unsigned long long)c->leases, (unsigned long long)e->leases.used);
    return 0;
}

/* ---- the key-value store ---- */

struct kv_recount {
    struct recount *c;
    uint64_t keys, bytes;
    struct map64 armed; /* handle → 1: has a valid expiry */
};

static int check_kv(void *ctx, const struct engine *e, const struct kv *k)
{
    struct kv_recount *c = ctx;
    uint32_t handle;
    c->keys++;
    c->bytes += (uint64_t)k->len + k->bytes;
    if (kv_find(e, span_of(k->text, k->len), &handle) != k)
        return err_note_set(c->c->note, -ERR_CORRUPT, "the index does not lead to a key");
    if (k->expires_at.ms && !map64_get(&c->armed, handle))
        return err_note_set(c->c->note, -ERR_CORRUPT, "a key would never expire");
    return 0;
}

static int check_kvs(struct recount *c)
{
    const struct engine *e = c->e;
    struct kv_recount kv = {.c = c};
    map64_init(&kv.armed);
    int err = mark_heap(c, &e->kv_expiries, valid_kv_expiry, &kv.armed);
    if (!err)
        err = kv_each(e, check_kv, &kv);
    map64_done(&kv.armed);
    if (!err && (kv.keys != e->kvs.used || kv.bytes != e->kv_bytes))
        err = err_note_set(c->note, -ERR_CORRUPT,
                           "recount finds %llu keys (%llu bytes), counters say %llu (%llu)",
                           (unsigned long long)kv.keys, (unsigned long long)kv.bytes,
                           (unsigned long long)e->kvs.used, (unsigned long long)e->kv_bytes);
    return err;
}

/* What engine_figures tells without a look at every queue. */
static int check_sums(const struct engine *e, struct err_note *note)
{
    uint64_t bytes = 0;
    for (size_t n = 0; n < e->queue_total; n++)
        if (e->queues[n])
            bytes += heap_bytes(&e->queues[n]->ready) + heap_bytes(&e->queues[n]->due) +
                     roster_bytes(&e->queues[n]->by_state) + roster_bytes(&e->queues[n]->by_key) +
                     limits_heap_bytes(e, e->queues[n]);
    if (bytes != e->queue_bytes)
        return err_note_set(note, -ERR_CORRUPT, "queues have %llu bytes of indexes, counted %llu",
                            (unsigned long long)bytes, (unsigned long long)e->queue_bytes);
    for (int s = 0; s < STATE_COUNT; s++) {
        uint64_t jobs = 0;
        for (size_t n = 0; n < e->queue_count; n++)
            jobs += e->by_name[n]->lists[s].count;
        if (jobs != e->by_state[s])
            return err_note_set(note, -ERR_CORRUPT, "queues have %llu %s jobs, counted %llu",
                                (unsigned long long)jobs, state_name((enum job_state)s),
                                (unsigned long long)e->by_state[s]);
    }
    return 0;
}

int engine_verify(const struct engine *e, struct err_note *note)
{
    struct recount c = {.e = e, .note = note};
    map64_init(&c.in_ready);
    map64_init(&c.in_due);
    int err = 0;
    for (size_t n = 0; !err && n < e->queue_total; n++)
        if (e->queues[n])
            err = check_queue(&c, e->queues[n]);
    if (!err)
        err = check_groups(&c);
    if (!err)
        err = check_totals(&c);
    if (!err)
        err = check_sums(e, note);
    if (!err)
        err = check_kvs(&c);
    if (!err)
        err = dependencies_verify(e, note);
    if (!err)
        err = alerts_verify(e, note);
    if (!err)
        err = notices_verify(e, note);
    map64_done(&c.in_ready);
    map64_done(&c.in_due);
    return err;
}

/* --- a fingerprint of the durable state, independent of order --- */

static uint64_t hash_job(const struct engine *e, const struct live *l)
{
    const struct job *j = &l->job;
    const uint64_t fields[] = {j->seq,
                               j->id_hi,
                               (uint64_t)j->priority,
                               (uint64_t)j->run_at.ms,
                               (uint64_t)j->since.ms,
                               j->queue,
                               j->payload_bytes,
                               j->failures,
                               j->crashes,
                               j->generation,
                               j->state,
                               j->reason,
                               j->payload_kind,
                               j->flags};
    uint64_t h = 1;
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
        h = state_mix(h, fields[i]);
    if (l->lease) {
        const struct lease *lease = lease_at(e, l->lease);
        h = state_mix(state_mix(state_mix(h, lease->token.counter), lease->token.epoch),
                      lease->lease_ms);
        h = state_mix(state_mix(h, lease->limits.timeout_ms), lease->limits.cancel_grace_ms);
        h = state_mix(h, (uint64_t)lease->limits.cancel_at.ms);
        h = state_mix_span(h, worker_name(e, lease->worker));
        h = state_mix(h, lease->held ? lease->nonce : 0);
    }
    if (l->extra) {
        const struct extra *x = extra_at(e, l->extra);
        struct more more = more_of(e, l);
        h = state_mix(state_mix(h, extra_unique(x).hi), (uint64_t)more.expires_at.ms);
        h = state_mix(
            h, more.group ? ((const struct group *)slab_at(&e->groups, more.group))->key.hi : 0);
        h = state_mix(h, more.options
                             ? ((const struct options *)slab_at(&e->options, more.options))->key.hi
                             : 0);
    }
    return h;
}

static uint64_t hash_list(const struct engine *e, const struct joblist *list)
{
    uint64_t sum = 0;
    for (uint32_t at = list->head; at; at = live_at(e, at)->next)
        sum += hash_job(e, live_at(e, at));
    return sum;
}

static uint64_t hash_policy(uint64_t h, const struct queue_policy *p)
{
    uint8_t stored[POLICY_BYTES_MAX];
    return state_mix_span(h, span_of(stored, policy_bytes(p, stored)));
}

static uint64_t hash_queue(const struct engine *e, const struct queue *q)
{
    uint64_t h = state_mix(state_mix(state_mix(1, q->number), q->generation), q->gone);
    h = state_mix_span(h, span_of(q->name, q->name_len));
    h = state_mix_span(h, span_of(q->texts, q->owner_len + q->note_len + q->attributes_len));
    h = state_mix(state_mix(h, (uint64_t)q->paused_until.ms), (uint64_t)q->updated_at.ms);
    h = hash_policy(h, &q->policy);
    for (int i = 0; i < COUNTER_COUNT; i++)
        h = state_mix(h, q->totals.of[i]);
    uint64_t jobs = hash_list(e, &q->purging);
    for (int s = 0; s < STATE_COUNT; s++)
        jobs += hash_list(e, &q->lists[s]);
    return state_mix(h, jobs);
}

static int hash_kv(void *ctx, const struct engine *e, const struct kv *k)
{
    uint64_t *sum = ctx;
    (void)e;
    uint64_t h =
        state_mix_span(state_mix(state_mix(1, k->version), k->kind), span_of(k->text, k->len));
    *sum += state_mix(state_mix(h, (uint64_t)k->expires_at.ms), k->bytes);
    return 0;
}

static uint64_t hash_undelivered(const struct engine *e)
{
    const struct map64_table *tables[] = {&e->undelivered_map.now, &e->undelivered_map.old};
    uint64_t sum = 0;
    for (size_t t = 0; t < 2; t++)
        for (size_t i = 0; tables[t]->slots && i <= tables[t]->mask; i++)
            if (tables[t]->slots[i].value)
                sum += state_mix_span(state_mix(1, tables[t]->slots[i].key),
                                      undelivered_of(e, tables[t]->slots[i].key));
    return sum;
}

static uint64_t hash_steps(const struct engine *e)
{
    const struct map64_table *tables[] = {&e->steps_map.now, &e->steps_map.old};
    uint64_t sum = 0;
    for (size_t t = 0; t < 2; t++)
        for (size_t i = 0; tables[t]->slots && i <= tables[t]->mask; i++) {
            uint64_t seq = tables[t]->slots[i].key;
            struct span index =
                tables[t]->slots[i].value ? steps_of(e, seq) : (struct span){NULL, 0};
            for (size_t at = 0; at < index.len; at += STEP_INDEX_BYTES) /* in no order */
                sum += state_mix_span(state_mix(1, seq), span_of(index.at + at, STEP_INDEX_BYTES));
        }
    return sum;
}

uint64_t engine_state_hash(const struct engine *e)
{
    uint64_t h = state_mix(state_mix(1, e->epoch), e->position);
    for (size_t n = 0; n < e->queue_total; n++)
        if (e->queues[n])
            h = state_mix(h, hash_queue(e, e->queues[n]));
    uint64_t keys = 0; /* those that expire at the same time are in no order */
    for (uint32_t at = e->key_first; at;) {
        const struct key *k = slab_at(&e->keys, at);
        keys += state_mix(state_mix(state_mix(state_mix(1, k->key.hi), k->fingerprint), k->seq),
                          (uint64_t)k->expires_at.ms);
        at = k->next;
    }
    uint64_t kvs = 0;
    (void)kv_each(e, hash_kv, &kvs);
    h = state_mix(state_mix(state_mix(h, keys), kvs), hash_undelivered(e));
    h = state_mix(h, hash_steps(e));
    h = state_mix(state_mix(h, schedules_hash(e)), dependencies_hash(e));
    for (const struct bulk *b = e->bulks; b; b = b->after)
        h = state_mix(state_mix(state_mix(h, b->begin.bulk), b->changed), b->refused);
    return state_mix(state_mix(state_mix(h, alerts_hash(e)), notices_hash(e)), breakers_hash(e));
}
