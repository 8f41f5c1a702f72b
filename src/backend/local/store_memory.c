/* SPDX-License-Identifier: Apache-2.0 */
/* The store of memory: and of the simulator: the same records, kept in memory.
 *
 * It is the plain reading of every record and the measure for the SQLite store. Jobs are slab
 * records found by sequence and chained by rising sequence; what few jobs have hangs off them in
 * blocks of their own. A job that no longer exists (purged generation, deleted queue) stays in the
 * chain, is loaded, and is hidden from readers until REC_JOBS_GONE takes it out.
 *
 * A frame is read as a whole before the first record is applied. What can still fail half-way is
 * memory, or a record that contradicts the state; both are fatal to the caller. */
#include <inttypes.h>
#include <stdlib.h>

#include "backend/local/store.h"
#include "backend/local/store_frames.h"
#include "base/check.h"
#include "base/heap.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/seqdir.h"
#include "base/slab.h"
#include "core/limits.h"
#include "core/moves.h"

/* How far a list looks for its cursor's neighbour by number before it walks the chain. */
#define CURSOR_PROBES 4096

struct kept_outcome {
    uint8_t result_kind, error_kind;
    char *result, *error; /* NULL = none */
    size_t result_len, error_len;
};

struct kept_job {
    struct job job;
    struct job_token token;
    uint32_t lease_ms;
    uint32_t prev, next; /* handles, by rising sequence; 0 = end */
    uint32_t worker_len;
    char *worker;                 /* NULL = none */
    char *payload;                /* job.payload_bytes; NULL = none */
    struct job_extra *extra;      /* with its texts behind it; NULL = none */
    struct kept_outcome *outcome; /* NULL = no result, no error */
};

struct kept_queue {
    struct rec_queue_put put;
    char *texts; /* what put's spans point to */
    bool gone;
};

struct kept_bulk {
    struct stored_bulk bulk;
    char *group; /* what begin.group points to; NULL = empty */
};

struct kept_key {
    struct rec_key_new key;
    size_t place; /* in keys_by_expiry */
};

struct store_memory {
    struct store base;
    struct store_meta meta;
    struct slab jobs; /* struct kept_job */
    struct seqdir by_seq;
    uint32_t first, last;      /* ends of the chain */
    struct kept_queue *queues; /* by rising number */
    size_t queue_count, queue_room;
    struct kept_bulk *bulks; /* by rising number */
    size_t bulk_count, bulk_room;
    struct kept_key *keys; /* slots; a free one holds the next free slot + 1 in its place */
    size_t key_slots, key_room, key_free;
    struct heap keys_by_expiry; /* seq = slot */
    struct map128 keys_by_hash; /* → slot + 1 */
    size_t readers;
};

struct reader_memory {
    struct store_reader base;
    struct store_memory *store;
};

static const struct store_ops memory_ops;
static const struct store_reader_ops memory_reader_ops;

static struct store_memory *memory_of(struct store *s)
{
    CHECK(s->ops == &memory_ops);
    return (struct store_memory *)s;
}

static struct store_memory *memory_of_reader(struct store_reader *r)
{
    CHECK(r->ops == &memory_reader_ops);
    return ((struct reader_memory *)r)->store;
}

/* The array with room for one more than its `count` items, or NULL. */
static void *array_room(void *array, size_t count, size_t *room, size_t size)
{
    if (count < *room)
        return array;
    size_t more = *room ? *room * 2 : 8;
    void *grown = mem_regrow(array, more, size);
    if (grown)
        *room = more;
    return grown;
}

/* Copies the span's bytes to *at and makes the span point there. */
static void span_move(struct span *s, char **at)
{
    if (s->len == 0) {
        *s = (struct span){NULL, 0};
        return;
    }
    memcpy(*at, s->at, s->len);
    s->at = *at;
    *at += s->len;
}

/* ---- jobs ---- */

static struct kept_job *job_at(const struct store_memory *m, uint32_t handle)
{
    return handle ? slab_at(&m->jobs, handle) : NULL;
}

static struct kept_job *job_of(const struct store_memory *m, uint64_t seq)
{
    return job_at(m, seqdir_get(&m->by_seq, seq));
}

static int need_job(const struct store_memory *m, uint64_t seq, struct kept_job **ret,
                    struct err_note *note)
{
    *ret = job_of(m, seq);
    if (*ret)
        return 0;
    return err_note_set(note, -ERR_CORRUPT, "a record names job %" PRIu64 ", which does not exist",
                        seq);
}

static void chain_in(struct store_memory *m, uint32_t handle, struct kept_job *k)
{
    uint32_t after = m->last;
    while (after && job_at(m, after)->job.seq > k->job.seq)
        after = job_at(m, after)->prev;
    k->prev = after;
    k->next = after ? job_at(m, after)->next : m->first;
    *(k->prev ? &job_at(m, k->prev)->next : &m->first) = handle;
    *(k->next ? &job_at(m, k->next)->prev : &m->last) = handle;
}

static void chain_out(struct store_memory *m, const struct kept_job *k)
{
    *(k->prev ? &job_at(m, k->prev)->next : &m->first) = k->next;
    *(k->next ? &job_at(m, k->next)->prev : &m->last) = k->prev;
}

static void outcome_free(struct kept_outcome *o)
{
    if (!o)
        return;
    mem_free(o->result);
    mem_free(o->error);
    mem_free(o);
}

static void job_blocks_free(struct kept_job *k)
{
    mem_free(k->worker);
    mem_free(k->payload);
    mem_free(k->extra);
    outcome_free(k->outcome);
}

/* Replaces *at by a copy of the bytes; none for an empty span. */
static int bytes_replace(char **at, struct span bytes)
{
    char *copy = NULL;
    if (bytes.len > 0 && !(copy = mem_copy(bytes.at, bytes.len)))
        return -ERR_NOMEM;
    mem_free(*at);
    *at = copy;
    return 0;
}

static int worker_set(struct kept_job *k, struct span worker)
{
    int rc = bytes_replace(&k->worker, worker);
    if (rc == 0)
        k->worker_len = (uint32_t)worker.len;
    return rc;
}

static int lease_drop(struct kept_job *k)
{
    k->lease_ms = 0;
    return worker_set(k, (struct span){NULL, 0});
}

static struct kept_outcome *outcome_of(struct kept_job *k)
{
    if (!k->outcome)
        k->outcome = mem_zalloc(sizeof *k->outcome);
    return k->outcome;
}

/* An empty error leaves the last one. */
static int error_set(struct kept_job *k, uint8_t kind, struct span error)
{
    if (error.len == 0)
        return 0;
    struct kept_outcome *o = outcome_of(k);
    if (!o || bytes_replace(&o->error, error) != 0)
        return -ERR_NOMEM;
    o->error_kind = kind;
    o->error_len = error.len;
    return 0;
}

static int result_set(struct kept_job *k, uint8_t kind, struct span result)
{
    if (kind == PAYLOAD_NONE)
        return 0;
    struct kept_outcome *o = outcome_of(k);
    if (!o || bytes_replace(&o->result, result) != 0)
        return -ERR_NOMEM;
    o->result_kind = kind;
    o->result_len = result.len;
    return 0;
}

static struct job_extra *extra_copy(const struct job_extra *x)
{
    size_t bytes = x->unique.len + x->group.len + x->correlation.len + x->label.len +
                   x->attributes.len + x->options.len;
    struct job_extra *copy = mem_alloc(sizeof *copy + bytes);
    if (!copy)
        return NULL;
    *copy = *x;
    char *at = (char *)(copy + 1);
    span_move(&copy->unique, &at);
    span_move(&copy->group, &at);
    span_move(&copy->correlation, &at);
    span_move(&copy->label, &at);
    span_move(&copy->attributes, &at);
    span_move(&copy->options, &at);
    return copy;
}

/* ---- queues ---- */

/* Where the queue is, or would be. */
static size_t queue_place(const struct store_memory *m, uint32_t number)
{
    size_t low = 0, high = m->queue_count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (m->queues[mid].put.queue < number)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static struct kept_queue *queue_of(const struct store_memory *m, uint32_t number)
{
    size_t at = queue_place(m, number);
    return at < m->queue_count && m->queues[at].put.queue == number ? &m->queues[at] : NULL;
}

static int need_queue(const struct store_memory *m, uint32_t number, struct kept_queue **ret,
                      struct err_note *note)
{
    *ret = queue_of(m, number);
    if (*ret)
        return 0;
    return err_note_set(note, -ERR_CORRUPT,
                        "a record names queue %" PRIu32 ", which does not exist", number);
}

static const struct kept_queue *queue_named(const struct store_memory *m, struct span name)
{
    for (size_t i = 0; i < m->queue_count; i++)
        if (!m->queues[i].gone && span_equal(m->queues[i].put.name, name))
            return &m->queues[i];
    return NULL;
}

/* The job's queue when the job exists for readers, else NULL. */
static const struct kept_queue *shown_in(const struct store_memory *m, const struct job *j)
{
    const struct kept_queue *q = queue_of(m, j->queue);
    if (!q || q->gone)
        return NULL;
    bool waiting = (STATE_BIT(j->state) & STATES_WAITING) != 0;
    return waiting && j->generation != q->put.generation ? NULL : q;
}

static int queue_put(struct store_memory *m, const struct rec_queue_put *put, struct err_note *note)
{
    size_t at = queue_place(m, put->queue);
    bool is_new = at == m->queue_count || m->queues[at].put.queue != put->queue;
    if (!is_new && m->queues[at].gone)
        return err_note_set(note, -ERR_CORRUPT,
                            "a record changes queue %" PRIu32 ", which is deleted", put->queue);
    struct kept_queue *queues =
        array_room(m->queues, m->queue_count, &m->queue_room, sizeof *queues);
    if (!queues)
        return -ERR_NOMEM;
    m->queues = queues;
    char *texts = mem_alloc(put->name.len + put->policy.len + put->owner.len + put->note.len +
                            put->attributes.len);
    if (!texts)
        return -ERR_NOMEM;
    struct kept_queue *q = &m->queues[at];
    if (is_new) {
        memmove(q + 1, q, (m->queue_count - at) * sizeof *q);
        m->queue_count++;
    } else {
        mem_free(q->texts);
    }
    *q = (struct kept_queue){.put = *put, .texts = texts};
    char *to = texts;
    span_move(&q->put.name, &to);
    span_move(&q->put.policy, &to);
    span_move(&q->put.owner, &to);
    span_move(&q->put.note, &to);
    span_move(&q->put.attributes, &to);
    return 0;
}

static int queue_gone(struct store_memory *m, const struct rec_queue *r, struct err_note *note)
{
    struct kept_queue *q;
    int rc = need_queue(m, r->queue, &q, note);
    if (rc == 0)
        q->gone = true;
    return rc;
}

static int queue_end(struct store_memory *m, const struct rec_queue *r, struct err_note *note)
{
    struct kept_queue *q;
    int rc = need_queue(m, r->queue, &q, note);
    if (rc != 0)
        return rc;
    mem_free(q->texts);
    m->queue_count--;
    memmove(q, q + 1, (m->queue_count - (size_t)(q - m->queues)) * sizeof *q);
    return 0;
}

static int queue_purged(struct store_memory *m, const struct rec_purged *r, struct err_note *note)
{
    struct kept_queue *q;
    int rc = need_queue(m, r->queue, &q, note);
    if (rc == 0)
        q->put.generation = r->generation;
    return rc;
}

/* ---- bulk actions ---- */

static struct kept_bulk *bulk_of(const struct store_memory *m, uint64_t number)
{
    for (size_t i = 0; i < m->bulk_count; i++)
        if (m->bulks[i].bulk.begin.bulk == number)
            return &m->bulks[i];
    return NULL;
}

static int bulk_begin(struct store_memory *m, const struct rec_bulk_begin *r, struct err_note *note)
{
    if (bulk_of(m, r->bulk))
        return err_note_set(note, -ERR_CORRUPT, "bulk action %" PRIu64 " begins twice", r->bulk);
    struct kept_bulk b = {.bulk = {.begin = *r}};
    struct kept_bulk *bulks = array_room(m->bulks, m->bulk_count, &m->bulk_room, sizeof *bulks);
    if (!bulks)
        return -ERR_NOMEM;
    m->bulks = bulks;
    if (bytes_replace(&b.group, r->group) != 0)
        return -ERR_NOMEM;
    b.bulk.begin.group = span_of(b.group, r->group.len);
    size_t at = m->bulk_count++;
    for (; at > 0 && m->bulks[at - 1].bulk.begin.bulk > r->bulk; at--)
        m->bulks[at] = m->bulks[at - 1];
    m->bulks[at] = b;
    return 0;
}

static int bulk_step(struct store_memory *m, const struct rec_bulk_step *r, bool end,
                     struct err_note *note)
{
    struct kept_bulk *b = bulk_of(m, r->bulk);
    if (!b)
        return err_note_set(note, -ERR_CORRUPT,
                            "a record names bulk action %" PRIu64 ", which does not exist",
                            r->bulk);
    b->bulk.cursor = r->cursor;
    b->bulk.changed = r->changed;
    b->bulk.refused = r->refused;
    if (!end)
        return 0;
    mem_free(b->group);
    m->bulk_count--;
    memmove(b, b + 1, (m->bulk_count - (size_t)(b - m->bulks)) * sizeof *b);
    return 0;
}

/* ---- idempotency keys ---- */

static int key_new(struct store_memory *m, const struct rec_key_new *r)
{
    size_t slot = m->key_free ? m->key_free - 1 : m->key_slots;
    struct kept_key *keys = array_room(m->keys, m->key_slots, &m->key_room, sizeof *keys);
    if (!keys)
        return -ERR_NOMEM;
    m->keys = keys;
    int rc = heap_reserve(&m->keys_by_expiry, 1);
    if (rc == 0)
        rc = map128_put(&m->keys_by_hash, r->key, slot + 1);
    if (rc != 0)
        return rc;
    if (slot == m->key_slots)
        m->key_slots++;
    else
        m->key_free = m->keys[slot].place;
    m->keys[slot].key = *r;
    struct heap_entry e = {heap_order_of(r->expires_at.ms), slot};
    CHECK(heap_push(&m->keys_by_expiry, e) == 0);
    return 0;
}

static void key_moved(void *ctx, struct heap_entry e, size_t index)
{
    struct store_memory *m = ctx;
    m->keys[e.seq].place = index;
}

static void key_drop(struct store_memory *m, size_t slot)
{
    heap_remove(&m->keys_by_expiry, m->keys[slot].place);
    map128_drop(&m->keys_by_hash, m->keys[slot].key.key);
    m->keys[slot] = (struct kept_key){.place = m->key_free};
    m->key_free = slot + 1;
}

static int keys_gone(struct store_memory *m, const struct rec_keys_gone *r, struct err_note *note)
{
    struct span list = r->keys;
    struct wall_time previous = {0};
    struct record_key gone;
    while (list.len > 0) {
        if (record_key_next(&list, &previous, &gone) != 0)
            return err_note_set(note, -ERR_CORRUPT, "a list of keys cannot be read");
        size_t slot = (size_t)map128_get(&m->keys_by_hash, gone.key);
        if (slot == 0 || m->keys[slot - 1].key.expires_at.ms != gone.expires_at.ms)
            return err_note_set(note, -ERR_CORRUPT, "a key that has expired is not there");
        key_drop(m, slot - 1);
    }
    return 0;
}

static void keys_expired(struct store_memory *m, const struct rec_keys_expired *r)
{
    struct heap_entry e;
    while (heap_top(&m->keys_by_expiry, &e) && e.order <= heap_order_of(r->upto.ms))
        key_drop(m, (size_t)e.seq);
}

/* ---- records about jobs ---- */

static int job_fill(struct kept_job *k, const struct rec_job_new *r)
{
    k->job = r->job;
    if ((r->job.flags & JOB_HAS_EXTRA) && !(k->extra = extra_copy(&r->extra)))
        return -ERR_NOMEM;
    return bytes_replace(&k->payload, r->payload);
}

static int job_new(struct store_memory *m, const struct rec_job_new *r, struct err_note *note)
{
    uint64_t seq = r->job.seq;
    struct kept_queue *q;
    int rc = need_queue(m, r->job.queue, &q, note);
    if (rc != 0)
        return rc;
    if (job_of(m, seq) || r->payload.len != r->job.payload_bytes)
        return err_note_set(note, -ERR_CORRUPT, "job %" PRIu64 " is made twice or has lost bytes",
                            seq);
    uint32_t handle = slab_take(&m->jobs);
    if (!handle)
        return -ERR_NOMEM;
    struct kept_job *k = job_at(m, handle);
    rc = job_fill(k, r);
    if (rc == 0)
        rc = seqdir_put(&m->by_seq, seq, handle);
    if (rc != 0) {
        job_blocks_free(k);
        slab_give(&m->jobs, handle);
        return rc;
    }
    chain_in(m, handle, k);
    return 0;
}

static int job_claimed(struct kept_job *k, const struct rec_job_claimed *r)
{
    int rc = apply_claimed(&k->job, r);
    if (rc != 0)
        return rc;
    k->token = r->token;
    k->lease_ms = r->lease_ms;
    return worker_set(k, r->worker);
}

static int job_extended(struct kept_job *k, const struct rec_job_extended *r)
{
    int rc = apply_extended(&k->job, r);
    if (rc == 0)
        k->lease_ms = r->lease_ms;
    return rc;
}

static int job_back(struct kept_job *k, const struct rec_job_back *r)
{
    int rc = apply_back(&k->job, r);
    if (rc == 0)
        rc = lease_drop(k);
    return rc ? rc : error_set(k, r->error_kind, r->error);
}

static int job_done(struct kept_job *k, const struct rec_job_done *r)
{
    int rc = apply_done(&k->job, r);
    if (rc == 0)
        rc = lease_drop(k);
    return rc ? rc : result_set(k, r->result_kind, r->result);
}

static int job_dead(struct kept_job *k, const struct rec_job_dead *r)
{
    int rc = apply_dead(&k->job, r);
    if (rc == 0)
        rc = lease_drop(k);
    return rc ? rc : error_set(k, r->error_kind, r->error);
}

static int job_cancelled(struct kept_job *k, const struct rec_job_cancelled *r)
{
    int rc = apply_cancelled(&k->job, r);
    return rc ? rc : lease_drop(k);
}

static int job_patched(struct kept_job *k, const struct rec_job_patched *r)
{
    int rc = apply_patched(&k->job, r);
    if (rc == 0 && r->has_payload)
        rc = bytes_replace(&k->payload, r->payload);
    return rc;
}

static void job_remove(struct store_memory *m, struct kept_job *k)
{
    uint32_t handle = seqdir_get(&m->by_seq, k->job.seq);
    chain_out(m, k);
    job_blocks_free(k);
    seqdir_drop(&m->by_seq, k->job.seq);
    slab_give(&m->jobs, handle);
}

/* All of the list must be there before the first of it goes. */
static int jobs_gone(struct store_memory *m, const struct rec_jobs_gone *r, struct err_note *note)
{
    for (int removing = 0; removing < 2; removing++) {
        struct span list = r->seqs;
        uint64_t previous = 0, seq;
        for (uint32_t i = 0; i < r->count; i++) {
            struct kept_job *k;
            int rc = record_seq_next(&list, &previous, &seq);
            if (rc == 0)
                rc = need_job(m, seq, &k, note);
            if (rc != 0)
                return rc;
            if (removing)
                job_remove(m, k);
        }
    }
    return 0;
}

/* ---- applying ---- */

/* Records about one job that is there. */
static int apply_to_job(struct kept_job *k, const struct record *r)
{
    switch ((int)r->kind) {
    case REC_JOB_READY:
        return apply_ready(&k->job, &r->job_ready);
    case REC_JOB_CLAIMED:
        return job_claimed(k, &r->job_claimed);
    case REC_JOB_EXTENDED:
        return job_extended(k, &r->job_extended);
    case REC_JOB_BACK:
        return job_back(k, &r->job_back);
    case REC_JOB_DONE:
        return job_done(k, &r->job_done);
    case REC_JOB_DEAD:
        return job_dead(k, &r->job_dead);
    case REC_JOB_CANCELLED:
        return job_cancelled(k, &r->job_cancelled);
    case REC_JOB_REQUEUED:
        return apply_requeued(&k->job, &r->job_requeued);
    case REC_JOB_PATCHED:
        return job_patched(k, &r->job_patched);
    }
    return -ERR_VERSION;
}

static int apply_record(struct store_memory *m, const struct record *r, struct err_note *note)
{
    switch ((int)r->kind) {
    case REC_EPOCH:
        m->meta.epoch = r->epoch.epoch;
        return 0;
    case REC_SEQ_BLOCK:
        m->meta.seq_upto = r->seq_block.upto;
        return 0;
    case REC_QUEUE_PUT:
        return queue_put(m, &r->queue_put, note);
    case REC_QUEUE_GONE:
        return queue_gone(m, &r->queue, note);
    case REC_QUEUE_END:
        return queue_end(m, &r->queue, note);
    case REC_PURGED:
        return queue_purged(m, &r->purged, note);
    case REC_BULK_BEGIN:
        return bulk_begin(m, &r->bulk_begin, note);
    case REC_BULK_STEP:
        return bulk_step(m, &r->bulk_step, false, note);
    case REC_BULK_END:
        return bulk_step(m, &r->bulk_step, true, note);
    case REC_JOB_NEW:
        return job_new(m, &r->job_new, note);
    case REC_JOBS_GONE:
        return jobs_gone(m, &r->jobs_gone, note);
    case REC_KEY_NEW:
        return key_new(m, &r->key_new);
    case REC_KEYS_EXPIRED:
        keys_expired(m, &r->keys_expired);
        return 0;
    case REC_KEYS_GONE:
        return keys_gone(m, &r->keys_gone, note);
    }
    return -ERR_VERSION;
}

static int record_cb(void *ctx, const struct record *r, uint64_t position, struct err_note *note)
{
    struct store_memory *m = ctx;
    struct kept_job *k = NULL;
    uint64_t seq = record_job_seq(r);
    struct err_note why = {""};
    int rc = seq ? need_job(m, seq, &k, &why) : 0;
    if (rc == 0)
        rc = k ? apply_to_job(k, r) : apply_record(m, r, &why);
    if (rc == 0)
        return 0;
    return err_note_set(note, rc, "record %" PRIu64 " (%s) cannot be applied: %s", position,
                        record_name(r->kind), why.text[0] ? why.text : err_text(rc));
}

static int look_cb(void *ctx, const struct record *r, uint64_t position, struct err_note *note)
{
    (void)ctx, (void)r, (void)position, (void)note;
    return 0;
}

static int memory_apply(struct store *s, const struct span *frames, size_t count,
                        struct err_note *note)
{
    struct store_memory *m = memory_of(s);
    uint64_t position = m->meta.position;
    int rc = frames_walk(frames, count, &position, look_cb, NULL, note);
    return rc ? rc : frames_walk(frames, count, &m->meta.position, record_cb, m, note);
}

static int memory_tidy(struct store *s, bool *more, struct err_note *note)
{
    (void)s, (void)note;
    *more = false;
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
                               .worker = span_of(k->worker, k->worker_len)};
        if (k->extra)
            j.extra = *k->extra;
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

/* Ties as SQLite orders them: numbers with a sign. */
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
    struct store_memory *m = memory_of(s);
    int rc = sink->meta(sink->ctx, &m->meta);
    for (size_t i = 0; i < m->queue_count && rc == 0; i++)
        rc = sink->queue(sink->ctx, &m->queues[i].put, m->queues[i].gone);
    for (size_t i = 0; i < m->bulk_count && rc == 0; i++)
        rc = sink->bulk(sink->ctx, &m->bulks[i].bulk);
    if (rc == 0)
        rc = load_jobs(m, sink);
    return rc ? rc : load_keys(m, sink);
}

/* ---- reading ---- */

static int span_copy(struct arena *arena, struct span from, struct span *ret)
{
    *ret = (struct span){NULL, 0};
    if (from.len == 0)
        return 0;
    void *copy = arena_copy(arena, from.at, from.len);
    if (!copy)
        return -ERR_NOMEM;
    *ret = span_of(copy, from.len);
    return 0;
}

static int extra_read(struct arena *arena, const struct job_extra *from, struct job_extra *ret)
{
    *ret = (struct job_extra){.expires_at = from->expires_at};
    if (span_copy(arena, from->unique, &ret->unique) != 0 ||
        span_copy(arena, from->group, &ret->group) != 0 ||
        span_copy(arena, from->correlation, &ret->correlation) != 0 ||
        span_copy(arena, from->label, &ret->label) != 0 ||
        span_copy(arena, from->attributes, &ret->attributes) != 0)
        return -ERR_NOMEM;
    return span_copy(arena, from->options, &ret->options);
}

static int body_read(const struct kept_job *k, struct arena *arena, struct stored_body *ret)
{
    const struct kept_outcome *o = k->outcome;
    *ret = (struct stored_body){.found = true};
    int rc = span_copy(arena, span_of(k->payload, k->job.payload_bytes), &ret->payload);
    if (rc == 0 && k->extra)
        rc = extra_read(arena, k->extra, &ret->extra);
    if (rc != 0 || !o)
        return rc;
    ret->result_kind = o->result_kind;
    ret->error_kind = o->error_kind;
    rc = span_copy(arena, span_of(o->result, o->result_len), &ret->result);
    return rc ? rc : span_copy(arena, span_of(o->error, o->error_len), &ret->error);
}

static int memory_read(struct store_reader *r, const uint64_t *seqs, size_t count,
                       struct arena *arena, struct stored_body *bodies)
{
    const struct store_memory *m = memory_of_reader(r);
    for (size_t i = 0; i < count; i++) {
        const struct kept_job *k = job_of(m, seqs[i]);
        bodies[i] = (struct stored_body){0};
        if (!k || !shown_in(m, &k->job))
            continue;
        int rc = body_read(k, arena, &bodies[i]);
        if (rc != 0)
            return rc;
    }
    return 0;
}

static int view_make(const struct kept_job *k, const struct kept_queue *q, bool want_body,
                     struct arena *arena, struct job_view *ret)
{
    *ret = (struct job_view){.job = k->job};
    if (k->extra)
        ret->expires_at = k->extra->expires_at;
    int rc = span_copy(arena, q->put.name, &ret->queue);
    if (rc == 0 && k->job.state == STATE_RUNNING) {
        ret->token = k->token;
        ret->lease_ms = k->lease_ms;
        rc = span_copy(arena, span_of(k->worker, k->worker_len), &ret->worker);
    }
    if (rc != 0 || !want_body)
        return rc;
    struct stored_body body;
    rc = body_read(k, arena, &body);
    ret->has_body = true;
    ret->extra = body.extra;
    ret->payload = body.payload;
    ret->result_kind = body.result_kind;
    ret->error_kind = body.error_kind;
    ret->result = body.result;
    ret->error = body.error;
    return rc;
}

/* The first job at or after seq, or (back) the last one at or before it. */
static uint32_t chain_find(const struct store_memory *m, uint64_t seq, bool back)
{
    uint32_t handle = 0;
    for (uint64_t i = 0; i < CURSOR_PROBES && !handle && (!back || i < seq); i++)
        handle = seqdir_get(&m->by_seq, back ? seq - i : seq + i);
    if (handle)
        return handle;
    handle = back ? m->last : m->first;
    while (handle && (back ? job_at(m, handle)->job.seq > seq : job_at(m, handle)->job.seq < seq))
        handle = back ? job_at(m, handle)->prev : job_at(m, handle)->next;
    return handle;
}

static uint32_t list_start(const struct store_memory *m, const struct op_list *q)
{
    uint64_t low = q->filter.seq_min, high = q->filter.seq_max ? q->filter.seq_max : UINT64_MAX;
    if (q->newest_first) {
        if (q->after != 0 && q->after - 1 < high)
            high = q->after - 1;
        return high == UINT64_MAX ? m->last : chain_find(m, high, true);
    }
    if (q->after >= low)
        low = q->after == UINT64_MAX ? UINT64_MAX : q->after + 1;
    return low <= 1 ? m->first : chain_find(m, low, false);
}

static bool list_past(const struct op_list *q, uint64_t seq)
{
    return q->newest_first ? seq < q->filter.seq_min
                           : q->filter.seq_max != 0 && seq > q->filter.seq_max;
}

static int memory_list(struct store_reader *r, const struct op_list *query, struct arena *arena,
                       struct job_view **ret_jobs, uint32_t *ret_count, uint64_t *ret_cursor,
                       uint64_t *ret_as_of)
{
    const struct store_memory *m = memory_of_reader(r);
    struct job_filter filter = query->filter;
    uint32_t limit = query->limit == 0 || query->limit > LIMIT_BATCH ? LIMIT_BATCH : query->limit;
    uint32_t count = 0, handle = list_start(m, query);
    uint64_t cursor = 0;
    struct job_view *views = arena_array(arena, limit, sizeof *views);
    if (!views)
        return -ERR_NOMEM;
    if (query->queue.len != 0) {
        const struct kept_queue *q = queue_named(m, query->queue);
        filter.queue = q ? q->put.queue : 0;
        handle = q ? handle : 0;
    }
    while (handle) {
        const struct kept_job *k = job_at(m, handle);
        if (list_past(query, k->job.seq))
            break;
        handle = query->newest_first ? k->prev : k->next;
        const struct kept_queue *q = shown_in(m, &k->job);
        if (!q || !filter_match(&filter, &k->job, k->extra))
            continue;
        if (count == limit) {
            cursor = views[count - 1].job.seq;
            break;
        }
        int rc = view_make(k, q, query->want_body, arena, &views[count++]);
        if (rc != 0)
            return rc;
    }
    *ret_jobs = views;
    *ret_count = count;
    *ret_cursor = cursor;
    *ret_as_of = m->meta.position;
    return 0;
}

static void memory_reader_close(struct store_reader *r)
{
    memory_of_reader(r)->readers--;
    mem_free(r);
}

static const struct store_reader_ops memory_reader_ops = {
    .read = memory_read,
    .list = memory_list,
    .close = memory_reader_close,
};

static int memory_reader_open(struct store *s, struct store_reader **ret, struct err_note *note)
{
    struct reader_memory *r = mem_zalloc(sizeof *r);
    if (!r)
        return err_note_set(note, -ERR_NOMEM, "out of memory");
    r->base.ops = &memory_reader_ops;
    r->store = memory_of(s);
    r->store->readers++;
    *ret = &r->base;
    return 0;
}

/* ---- open and close ---- */

static void memory_close(struct store *s)
{
    struct store_memory *m = memory_of(s);
    CHECK(m->readers == 0);
    for (uint32_t h = m->first; h; h = job_at(m, h)->next)
        job_blocks_free(job_at(m, h));
    for (size_t i = 0; i < m->queue_count; i++)
        mem_free(m->queues[i].texts);
    for (size_t i = 0; i < m->bulk_count; i++)
        mem_free(m->bulks[i].group);
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
    .load = memory_load,
    .apply = memory_apply,
    .tidy = memory_tidy,
    .close = memory_close,
    .reader_open = memory_reader_open,
};

int store_open_memory(uint64_t seed, struct store **ret)
{
    struct store_memory *m = mem_zalloc(sizeof *m);
    if (!m)
        return -ERR_NOMEM;
    struct random random;
    random_seed(&random, seed);
    uint64_t id[2] = {random_next(&random), random_next(&random)};
    m->base.ops = &memory_ops;
    memcpy(m->meta.store_id, id, sizeof m->meta.store_id);
    m->meta.hash_key = (struct hash_key){random_next(&random), random_next(&random)};
    slab_init(&m->jobs, sizeof(struct kept_job));
    seqdir_init(&m->by_seq);
    heap_init(&m->keys_by_expiry);
    m->keys_by_expiry.moved = key_moved;
    m->keys_by_expiry.moved_ctx = m;
    map128_init(&m->keys_by_hash);
    *ret = &m->base;
    return 0;
}
