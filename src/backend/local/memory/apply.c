/* SPDX-License-Identifier: Apache-2.0 */
/* Queues, bulk actions and idempotency keys in memory, and the loop over the records of a frame.
 *
 * A frame is read completely before the first record is applied. After that only two things can
 * fail: an allocation, and a record that contradicts the state. Both are fatal to the caller. */
#include <inttypes.h>

#include "backend/local/memory/store_memory.h"
#include "backend/local/store/store_frames.h"
#include "base/containers/sorted.h"
#include "base/mem.h"

/* ---- queues ---- */

/* Index of the queue, or the index at which it would be inserted. */
static size_t queue_place(const struct store_memory *m, uint32_t number)
{
    return SORTED_INDEX(m->queue_count, i, m->queues[i].put.queue < number);
}

struct kept_queue *queue_of(const struct store_memory *m, uint32_t number)
{
    size_t at = queue_place(m, number);
    return at < m->queue_count && m->queues[at].put.queue == number ? &m->queues[at] : NULL;
}

int need_queue(const struct store_memory *m, uint32_t number, struct kept_queue **ret,
               struct err_note *note)
{
    *ret = queue_of(m, number);
    if (*ret)
        return 0;
    return err_note_set(note, -ERR_CORRUPT,
                        "a record names queue %" PRIu32 ", which does not exist", number);
}

static int queue_put(struct store_memory *m, const struct rec_queue_put *put, struct err_note *note)
{
    size_t at = queue_place(m, put->queue);
    bool is_new = at == m->queue_count || m->queues[at].put.queue != put->queue;
    if (!is_new && m->queues[at].gone)
        return err_note_set(note, -ERR_CORRUPT,
                            "a record changes queue %" PRIu32 ", which is deleted", put->queue);
    struct kept_queue *queues = mem_more(m->queues, m->queue_count, &m->queue_room, sizeof *queues);
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
    if (is_new)
        *q = (struct kept_queue){0};
    q->put = *put;
    q->texts = texts;
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
    mem_free(q->hours);
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

/* The entry of the hour, which is created if it is new; entries that are too old are removed. */
static int hour_place(struct kept_queue *q, uint32_t hour, struct hour_view **ret)
{
    uint32_t old = 0, at = q->hour_count;
    while (old < q->hour_count && q->hours[old].hour + HISTORY_HOURS <= hour)
        old++;
    if (old)
        memmove(q->hours, q->hours + old, (q->hour_count - old) * sizeof *q->hours);
    q->hour_count -= old;
    at -= old;
    while (at > 0 && q->hours[at - 1].hour > hour)
        at--;
    if (at == 0 || q->hours[at - 1].hour != hour) {
        struct hour_view *grown = mem_regrow(q->hours, q->hour_count + 1, sizeof *grown);
        if (!grown)
            return -ERR_NOMEM;
        q->hours = grown;
        memmove(grown + at + 1, grown + at, (q->hour_count - at) * sizeof *grown);
        grown[at++] = (struct hour_view){.hour = hour};
        q->hour_count++;
    }
    *ret = &q->hours[at - 1];
    return 0;
}

static int queue_counters(struct store_memory *m, const struct rec_counters *r,
                          struct err_note *note)
{
    struct kept_queue *q;
    struct hour_view *hour;
    int rc = need_queue(m, r->queue, &q, note);
    if (rc == 0)
        rc = hour_place(q, r->hour, &hour);
    if (rc != 0)
        return rc;
    counters_add(&q->totals, &r->add);
    counters_add(&hour->counters, &r->add);
    return 0;
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
    struct kept_bulk *bulks = mem_more(m->bulks, m->bulk_count, &m->bulk_room, sizeof *bulks);
    if (!bulks)
        return -ERR_NOMEM;
    m->bulks = bulks;
    if (!(b.texts = mem_alloc(r->group.len + r->kind.len)))
        return -ERR_NOMEM;
    char *to = b.texts;
    span_move(&b.bulk.begin.group, &to);
    span_move(&b.bulk.begin.kind, &to);
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
    mem_free(b->texts);
    m->bulk_count--;
    memmove(b, b + 1, (m->bulk_count - (size_t)(b - m->bulks)) * sizeof *b);
    return 0;
}

/* ---- idempotency keys ---- */

static int key_new(struct store_memory *m, const struct rec_key_new *r)
{
    size_t slot = m->key_free ? m->key_free - 1 : m->key_slots;
    struct kept_key *keys = mem_more(m->keys, m->key_slots, &m->key_room, sizeof *keys);
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

void store_memory_key_moved(void *ctx, struct heap_entry e, size_t index)
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
            return err_note_set(note, -ERR_CORRUPT, "a key that has expired does not exist");
        key_drop(m, slot - 1);
    }
    return 0;
}

/* ---- applying ---- */

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
        m->numbers.queue = number_max(m->numbers.queue, r->queue_put.queue);
        return queue_put(m, &r->queue_put, note);
    case REC_QUEUE_GONE:
        return queue_gone(m, &r->queue, note);
    case REC_QUEUE_END:
        return queue_end(m, &r->queue, note);
    case REC_PURGED:
        return queue_purged(m, &r->purged, note);
    case REC_COUNTERS:
        return queue_counters(m, &r->counters, note);
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
    case REC_KEYS_GONE:
        return keys_gone(m, &r->keys_gone, note);
    case REC_KV_SET:
    case REC_KV_GONE:
    case REC_KV_FROM_JOB:
    case REC_KV_KEYS:
        return memory_kv_apply(m, r, note);
    }
    if (r->kind >= REC_SCHEDULE_PUT && r->kind <= REC_JOB_LINKED)
        return memory_schedule_record(m, r, note);
    if (r->kind >= REC_DEPENDENT_PUT && r->kind <= REC_PARENT_ENDED)
        return memory_dependency_record(m, r, note);
    return memory_apply_notice(m, r, note);
}

static int record_cb(void *ctx, const struct record *r, uint64_t position, struct err_note *note)
{
    struct store_memory *m = ctx;
    struct kept_job *k = NULL;
    uint64_t seq = record_job_seq(r);
    struct err_note why = {""};
    int rc = seq ? need_job(m, seq, &k, &why) : 0;
    if (rc == 0)
        rc = k ? apply_to_job(m, k, r) : apply_record(m, r, &why);
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

int memory_apply(struct store *s, const struct span *frames, size_t count, struct err_note *note)
{
    struct store_memory *m = store_memory_of(s);
    uint64_t position = m->meta.position;
    int rc = frames_walk(frames, count, &position, look_cb, NULL, note);
    return rc ? rc : frames_walk(frames, count, &m->meta.position, record_cb, m, note);
}
