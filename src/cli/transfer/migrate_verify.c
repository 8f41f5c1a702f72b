/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the target with the source; both are read back.
 *
 * Jobs are summarized by queue: their number in each state, and a digest of everything that must
 * be equal, which does not depend on their order. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/containers/map.h"
#include "base/digest/hash.h"
#include "base/mem.h"
#include "cli/client/session.h"
#include "cli/transfer/migrate_impl.h"
#include "core/limits.h"

#define UNLIKE_SHOWN 20

static const struct hash_key digest_key = {0x686f6c6466617374, 0x6d69677261746564};

/* ---- sums ---- */

struct sum {
    char *queue; /* NULL for objects without a queue */
    uint64_t count[STATE_COUNT];
    struct hash128 digest;
};

struct sums {
    struct sum *list;
    size_t count, room;
    struct map128 by_name; /* index + 1 */
    struct buf essence;
};

static void sums_init(struct sums *s)
{
    *s = (struct sums){0};
    map128_init(&s->by_name);
    buf_init(&s->essence);
}

static void sums_done(struct sums *s)
{
    for (size_t i = 0; i < s->count; i++)
        mem_free(s->list[i].queue);
    mem_free(s->list);
    map128_done(&s->by_name);
    buf_done(&s->essence);
}

/* NULL: no memory. */
static struct sum *sum_of(struct sums *s, struct span queue)
{
    struct hash128 key = hash128_of(digest_key, queue);
    uint64_t at = map128_get(&s->by_name, key);
    if (at)
        return &s->list[at - 1];
    struct sum *grown = mem_more(s->list, s->count, &s->room, sizeof *grown);
    if (!grown)
        return NULL;
    s->list = grown;
    char *name = mem_text(queue.at, queue.len);
    if (!name || map128_put(&s->by_name, key, s->count + 1) != 0) {
        mem_free(name);
        return NULL;
    }
    s->list[s->count] = (struct sum){.queue = name};
    return &s->list[s->count++];
}

static void sum_add(struct sum *s, struct span essence, enum job_state state)
{
    struct hash128 h = hash128_of(digest_key, essence);
    s->digest.hi += h.hi;
    s->digest.lo += h.lo;
    s->count[state]++;
}

/* ---- jobs ---- */

static int job_sum(struct migrate *m, struct sums *sums, const struct job_view *v)
{
    enum job_state state;
    struct sum *sum = sum_of(sums, v->queue);
    buf_clear(&sums->essence);
    if (!sum || job_essence(m->now, v, &m->arena, &sums->essence, &state) != 0)
        return client_no_memory();
    sum_add(sum, buf_span(&sums->essence), state);
    return CLIENT_DONE;
}

static int jobs_sum(struct migrate *m, struct migrate_store *s, struct sums *sums)
{
    struct job_page page;
    uint64_t after = 0;
    do {
        int status = job_page_read(s, after, PAGE_WHOLE, &page);
        if (status != CLIENT_DONE)
            return status;
        for (uint32_t i = 0; i < page.count && status == CLIENT_DONE; i++)
            status = job_sum(m, sums, &page.jobs[i]);
        m->done += page.count;
        after = page.next;
        job_page_free(&page);
        arena_reset(&m->arena);
        progress_show(&m->bar, m->done, 2 * counts_jobs(&m->found), false);
        if (status == CLIENT_DONE && after != 0 && migrate_interrupted())
            status =
                client_complain(CLIENT_REFUSED, "interrupted before everything was compared; the "
                                                "same command with --resume does it again");
        if (status != CLIENT_DONE)
            return status;
    } while (after != 0);
    return CLIENT_DONE;
}

static void difference_print(const struct sum *from, const struct sum *to, const char *queue)
{
    static const struct sum none;
    const struct sum *a = from ? from : &none, *b = to ? to : &none;
    bool counts = false;
    for (int s = STATE_SCHEDULED; s < STATE_COUNT; s++) {
        if (a->count[s] == b->count[s])
            continue;
        client_complain(CLIENT_REFUSED,
                        "queue %s: the source has %" PRIu64 " %s jobs, the target %" PRIu64, queue,
                        a->count[s], state_name((enum job_state)s), b->count[s]);
        counts = true;
    }
    if (!counts)
        client_complain(CLIENT_REFUSED,
                        "queue %s: as many jobs in both, but not with the same contents", queue);
}

static bool alike(const struct sum *a, const struct sum *b)
{
    return a && b && memcmp(a->count, b->count, sizeof a->count) == 0 &&
           hash128_equal(a->digest, b->digest);
}

static const struct sum *sum_find(const struct sums *s, const char *queue)
{
    uint64_t at = map128_get(&s->by_name, hash128_of(digest_key, span_text(queue)));
    return at ? &s->list[at - 1] : NULL;
}

static int sums_compare(const struct sums *from, const struct sums *to)
{
    size_t unlike = 0;
    for (size_t i = 0; i < from->count; i++) {
        const struct sum *other = sum_find(to, from->list[i].queue);
        if (!alike(&from->list[i], other) && unlike++ < UNLIKE_SHOWN)
            difference_print(&from->list[i], other, from->list[i].queue);
    }
    for (size_t i = 0; i < to->count; i++)
        if (!sum_find(from, to->list[i].queue) && unlike++ < UNLIKE_SHOWN)
            difference_print(NULL, &to->list[i], to->list[i].queue);
    if (unlike == 0)
        return CLIENT_DONE;
    return client_complain(CLIENT_REFUSED,
                           "%zu queue%s not equal: one of the stores was changed in the meantime, "
                           "or is damaged; the target stays unchanged",
                           unlike, unlike == 1 ? " is" : "s are");
}

int verify_jobs(struct migrate *m)
{
    struct sums from, to;
    sums_init(&from);
    sums_init(&to);
    m->done = 0;
    int status = jobs_sum(m, &m->from, &from);
    if (status == CLIENT_DONE)
        status = jobs_sum(m, &m->to, &to);
    if (status == CLIENT_DONE)
        status = sums_compare(&from, &to);
    sums_done(&from);
    sums_done(&to);
    return status;
}

/* ---- what belongs to no queue ---- */

/* A digest of a list in its order. */
struct chain {
    uint64_t count;
    struct hash128 digest;
    struct buf text;
};

static int chain_text(struct chain *c, struct span s)
{
    uint64_t len = s.len;
    int err = buf_append(&c->text, (const char *)&len, sizeof len);
    return err == 0 && s.len > 0 ? buf_append_span(&c->text, s) : err;
}

static int chain_number(struct chain *c, int64_t n)
{
    return buf_append(&c->text, (const char *)&n, sizeof n);
}

/* Chains the digests. */
static int chain_link(struct chain *c)
{
    int err = chain_number(c, (int64_t)c->digest.hi);
    if (err == 0)
        err = chain_number(c, (int64_t)c->digest.lo);
    if (err == 0)
        c->digest = hash128_of(digest_key, buf_span(&c->text));
    c->count++;
    buf_clear(&c->text);
    return err;
}

static int chains_compare(const struct chain *from, const struct chain *to, const char *what)
{
    if (from->count == to->count && hash128_equal(from->digest, to->digest))
        return CLIENT_DONE;
    if (from->count != to->count)
        return client_complain(CLIENT_REFUSED,
                               "the source has %" PRIu64 " %s, the target %" PRIu64
                               "; the target stays unchanged",
                               from->count, what, to->count);
    return client_complain(CLIENT_REFUSED,
                           "%s are as many in both, but not the same; the target stays unchanged",
                           what);
}

typedef int (*chain_fn)(struct migrate *m, struct migrate_store *s, struct chain *c);

static int verify_chain(struct migrate *m, chain_fn fn, const char *what)
{
    struct chain from = {0}, to = {0};
    buf_init(&from.text);
    buf_init(&to.text);
    int status = fn(m, &m->from, &from);
    if (status == CLIENT_DONE)
        status = fn(m, &m->to, &to);
    if (status == CLIENT_DONE)
        status = chains_compare(&from, &to, what);
    buf_done(&from.text);
    buf_done(&to.text);
    return status;
}

static int keys_page(struct migrate *m, const struct reply *page, void *ctx)
{
    struct chain *c = ctx;
    int err = 0;
    for (uint32_t i = 0; i < page->kv_count && err == 0; i++) {
        const struct kv_view *k = &page->kvs[i];
        if (key_expired(m, k))
            continue;
        err = chain_text(c, k->key);
        if (err == 0)
            err = chain_number(c, k->expires_at.ms);
        if (err == 0)
            err = chain_number(c, k->kind);
        if (err == 0)
            err = chain_text(c, k->value);
        if (err == 0)
            err = chain_link(c);
    }
    return err ? client_no_memory() : CLIENT_DONE;
}

static int keys_chain(struct migrate *m, struct migrate_store *s, struct chain *c)
{
    return each_keys(m, s, true, keys_page, c);
}

int verify_keys(struct migrate *m)
{
    return verify_chain(m, keys_chain, "keys");
}

static int schedules_page(struct migrate *m, const struct reply *page, void *ctx)
{
    struct chain *c = ctx;
    int err = 0;
    (void)m;
    for (uint32_t i = 0; i < page->schedule_count && err == 0; i++) {
        const struct schedule_view *s = &page->schedules[i];
        const struct span texts[] = {s->name, s->owner, s->note, s->attributes};
        for (size_t k = 0; k < 4 && err == 0; k++)
            err = chain_text(c, texts[k]);
        if (err == 0)
            err = chain_number(c, s->paused);
        if (err == 0)
            err = schedule_encode(&s->spec, &c->text);
        if (err == 0)
            err = chain_link(c);
    }
    return err ? client_no_memory() : CLIENT_DONE;
}

static int schedules_chain(struct migrate *m, struct migrate_store *s, struct chain *c)
{
    return each_schedules(m, s, schedules_page, c);
}

int verify_schedules(struct migrate *m)
{
    return verify_chain(m, schedules_chain, "schedules");
}

static int alert_link(struct chain *c, const struct alert_view *a)
{
    const struct alert_rule *r = &a->rule;
    const struct span texts[] = {a->name, r->queue, r->url, r->secret};
    const int64_t numbers[] = {r->on,      r->enabled,   r->with_payload, (int64_t)r->depth,
                               r->percent, r->window_ms, r->min_ends,     r->after_ms};
    int err = 0;
    for (size_t i = 0; i < 4 && err == 0; i++)
        err = chain_text(c, texts[i]);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers && err == 0; i++)
        err = chain_number(c, numbers[i]);
    return err ? err : chain_link(c);
}

static int alerts_chain(struct migrate *m, struct migrate_store *s, struct chain *c)
{
    int status, err = 0;
    struct reply *r = alerts_of(s, &status);
    (void)m;
    for (uint32_t i = 0; r && i < r->alert_count && err == 0; i++)
        err = alert_link(c, &r->alerts[i]);
    mem_free(r);
    return err ? client_no_memory() : status;
}

int verify_alerts(struct migrate *m)
{
    return verify_chain(m, alerts_chain, "alert rules");
}

/* ---- queues ---- */

static bool policies_equal(const struct queue_policy *a, const struct queue_policy *b)
{
    struct buf x, y;
    buf_init(&x);
    buf_init(&y);
    bool equal = policy_encode(a, &x) == 0 && policy_encode(b, &y) == 0 &&
                 span_equal(buf_span(&x), buf_span(&y));
    buf_done(&x);
    buf_done(&y);
    return equal;
}

static int queue_compare(struct migrate *m, const struct queue_view *q)
{
    struct op op = {.kind = OP_QUEUE_GET};
    int status;
    op.queue.name = q->name;
    struct reply *r = migrate_need(&m->to, op, "a queue", &status);
    if (!r)
        return status;
    const struct queue_view *there = &r->queues[0];
    bool same = r->queue_count == 1 && span_equal(q->owner, there->owner) &&
                span_equal(q->note, there->note) && span_equal(q->attributes, there->attributes) &&
                q->paused_until.ms == there->paused_until.ms &&
                policies_equal(q->policy, there->policy);
    mem_free(r);
    if (same)
        return CLIENT_DONE;
    return client_complain(CLIENT_REFUSED,
                           "queue %.*s is not defined in the target as it is in the source",
                           (int)q->name.len, q->name.at);
}

int verify_queues(struct migrate *m)
{
    return migrate_each_queue(m, queue_compare);
}
