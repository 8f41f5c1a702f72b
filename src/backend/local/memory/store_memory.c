/* SPDX-License-Identifier: Apache-2.0 */
/* The store of memory: and of the simulator: the same records, stored in memory.
 *
 * It applies every record in the most direct way and is the reference for the SQLite store. */
#include <stdlib.h>

#include "backend/local/memory/store_memory.h"
#include "base/check.h"
#include "base/digest/random.h"
#include "base/mem.h"

static const struct store_ops memory_ops;

struct store_memory *store_memory_of(struct store *s)
{
    CHECK(s->ops == &memory_ops);
    return (struct store_memory *)s;
}

static int memory_tidy(struct store *s, bool *more, struct err_note *note)
{
    (void)s, (void)note;
    *more = false;
    return 0;
}

static const struct store_meta *memory_meta(struct store *s)
{
    return &store_memory_of(s)->meta;
}

static int memory_journal_begun(struct store *s, struct err_note *note)
{
    (void)note;
    struct store_memory *m = store_memory_of(s);
    m->meta.journal_from = (int64_t)m->meta.position;
    return 0;
}

static int memory_compact(struct store *s, uint64_t *left, struct err_note *note)
{
    (void)s, (void)note;
    *left = 0;
    return 0;
}

/* ---- loading ---- */

static int load_jobs(const struct store_memory *m, const struct store_sink *sink)
{
    for (uint32_t h = m->first; h; h = job_at(m, h)->next) {
        const struct kept_job *k = job_at(m, h);
        struct stored_job j = {.job = k->job,
                               .token = k->token,
                               .lease_ms = k->lease_ms,
                               .limits = k->limits,
                               .worker = span_of(k->worker, k->worker_len),
                               .started_at = job_started_at(k)};
        j.extra = extra_of(k);
        int rc = sink->job(sink->ctx, &j);
        if (rc != 0)
            return rc;
    }
    return 0;
}

static int number_order(int64_t a, int64_t b)
{
    return a < b ? -1 : a > b;
}

/* Compares signed numbers, because SQLite orders equal keys this way. */
static int key_order(const void *a, const void *b)
{
    const struct rec_key_new *x = a, *y = b;
    int by_expiry = number_order(x->expires_at.ms, y->expires_at.ms);
    int by_hi = number_order((int64_t)x->key.hi, (int64_t)y->key.hi);
    return by_expiry ? by_expiry
           : by_hi   ? by_hi
                     : number_order((int64_t)x->key.lo, (int64_t)y->key.lo);
}

static int load_keys(const struct store_memory *m, const struct store_sink *sink)
{
    size_t count = m->keys_by_expiry.len;
    struct rec_key_new *keys = mem_array(count, sizeof *keys);
    if (!keys)
        return -ERR_NOMEM;
    for (size_t i = 0; i < count; i++)
        keys[i] = m->keys[heap_at(&m->keys_by_expiry, i).seq].key;
    qsort(keys, count, sizeof *keys, key_order);
    int rc = 0;
    for (size_t i = 0; i < count && rc == 0; i++)
        rc = sink->key(sink->ctx, &keys[i]);
    mem_free(keys);
    return rc;
}

static int memory_load(struct store *s, const struct store_sink *sink, struct err_note *note)
{
    (void)note;
    struct store_memory *m = store_memory_of(s);
    int rc = sink->meta(sink->ctx, &m->meta);
    for (size_t i = 0; i < m->queue_count && rc == 0; i++)
        rc = sink->queue(sink->ctx, &m->queues[i].put, m->queues[i].gone);
    for (size_t i = 0; i < m->queue_count && rc == 0; i++)
        rc = !m->queues[i].hours
                 ? 0
                 : sink->counters(sink->ctx, m->queues[i].put.queue, &m->queues[i].totals);
    for (size_t i = 0; i < m->bulk_count && rc == 0; i++)
        rc = sink->bulk(sink->ctx, &m->bulks[i].bulk);
    if (rc == 0)
        rc = load_jobs(m, sink);
    if (rc == 0)
        rc = load_keys(m, sink);
    if (rc == 0)
        rc = memory_kv_load(m, sink);
    if (rc == 0)
        rc = memory_load_steps(m, sink);
    if (rc == 0)
        rc = memory_load_notices(m, sink);
    if (rc == 0)
        rc = memory_load_schedules(m, sink);
    if (rc == 0)
        rc = memory_load_dependencies(m, sink);
    return rc ? rc : sink->numbers(sink->ctx, &m->numbers);
}

/* ---- open and close ---- */

static void memory_close(struct store *s)
{
    struct store_memory *m = store_memory_of(s);
    CHECK(m->readers == 0);
    for (uint32_t h = m->first; h; h = job_at(m, h)->next)
        job_blocks_free(m, job_at(m, h));
    for (size_t i = 0; i < m->queue_count; i++) {
        mem_free(m->queues[i].texts);
        mem_free(m->queues[i].hours);
    }
    for (size_t i = 0; i < m->bulk_count; i++)
        mem_free(m->bulks[i].texts);
    memory_kv_free(m);
    memory_free_notices(m);
    memory_schedules_free(m);
    memory_dependencies_free(m);
    mem_free(m->queues);
    mem_free(m->bulks);
    mem_free(m->keys);
    heap_done(&m->keys_by_expiry);
    map128_done(&m->keys_by_hash);
    seqdir_done(&m->by_seq);
    slab_done(&m->jobs);
    mem_free(m);
}

static const struct store_ops memory_ops = {
    .kind = "memory",
    .meta = memory_meta,
    .load = memory_load,
    .journal_begun = memory_journal_begun,
    .apply = memory_apply,
    .tidy = memory_tidy,
    .compact = memory_compact,
    .close = memory_close,
    .reader_open = memory_reader_open,
};

void store_memory_set_epoch(struct store *s, uint32_t epoch)
{
    store_memory_of(s)->meta.epoch = epoch;
}

int store_open_memory(uint64_t seed, struct store **ret)
{
    struct store_memory *m = mem_zalloc(sizeof *m);
    if (!m)
        return -ERR_NOMEM;
    struct random random;
    random_seed(&random, seed);
    uint64_t id[2] = {random_next(&random), random_next(&random)};
    m->base.ops = &memory_ops;
    m->meta.journal_from = -1;
    memcpy(m->meta.store_id, id, sizeof m->meta.store_id);
    m->meta.hash_key = (struct hash_key){random_next(&random), random_next(&random)};
    slab_init(&m->jobs, sizeof(struct kept_job));
    seqdir_init(&m->by_seq);
    heap_init(&m->keys_by_expiry);
    m->keys_by_expiry.moved = store_memory_key_moved;
    m->keys_by_expiry.moved_ctx = m;
    map128_init(&m->keys_by_hash);
    *ret = &m->base;
    return 0;
}
