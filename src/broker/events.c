/* SPDX-License-Identifier: Apache-2.0 */
/* Listeners: each reads the backend's events at its own pace.
 *
 * A listener reads a small batch of events, requests the texts of those jobs that have any (they
 * are stored with the job's body), and delivers the batch in order when all replies have arrived.
 * If the client has no room, it stops there; a listener that is too slow for the number of events
 * that the backend stores gets a gap. */
#include <string.h>

#include "base/mem.h"
#include "broker/broker_impl.h"
#include "core/jobs/job_texts.h"
#include "core/kvkey.h"

#define BATCH 16
#define KEYS_REMEMBERED 64 /* keys whose last delivered version is remembered */

struct broker_listener {
    struct broker *broker;
    struct broker_listener *prev, *next;
    struct broker_listener_config config;
    uint64_t after;   /* everything up to this one was delivered, or was not wanted */
    bool paused;      /* the client has no room */
    bool closed;      /* freed after the last reply */
    bool told_end;    /* ended() was called */
    bool in_call;     /* inside event() or gap(); a close then frees later */
    uint64_t gap_to;  /* a gap that must still be reported; 0 = none */
    size_t count, at; /* the batch, and how much of it is delivered */
    size_t asked;     /* outstanding replies */
    struct broker_event events[BATCH];
    struct op ops[BATCH];
    struct arena arena; /* texts of the batch */
    /* For keys: what was delivered to the client, so that it is not delivered twice. */
    struct {
        struct hash128 key;
        uint64_t version;
    } told[KEYS_REMEMBERED];
};

static bool about_key(const struct backend_event *e)
{
    return e->kind == EVENT_KV_SET || e->kind == EVENT_KV_DELETED;
}

/* An event whose key could not be stored is wanted: its listeners must get a gap. */
static bool wanted(const struct broker_listener *l, const struct backend_event *e)
{
    if (about_key(e) && l->config.prefix.len)
        return e->key.len == 0 || kvkey_begins(e->key, l->config.prefix);
    return !l->config.queue.len || span_equal(l->config.queue, e->queue);
}

static void listener_free(struct broker_listener *l)
{
    arena_done(&l->arena);
    mem_free(l);
}

/* ---- reading a batch ---- */

static bool keep_name(struct broker_listener *l, struct span *name)
{
    char *copy = name->len ? arena_copy(&l->arena, name->at, name->len) : NULL;
    if (name->len && !copy)
        return false;
    name->at = copy;
    return true;
}

static bool keep(struct broker_listener *l, const struct backend_event *e)
{
    struct broker_event *mine = &l->events[l->count];
    *mine = (struct broker_event){.event = *e};
    if (!keep_name(l, &mine->event.queue) || !keep_name(l, &mine->event.key) ||
        !keep_name(l, &mine->event.alert) || !keep_name(l, &mine->event.schedule))
        return false;
    l->count++;
    return true;
}

/* All events that could be delivered are lost, and the stored ones are not durable yet: a listener
 * that read now would find the same gap repeatedly. */
static bool nothing_left(const struct backend *backend)
{
    return backend_events_missed(backend, backend_events_last(backend));
}

/* false: nothing more to read now. */
static bool take(struct broker_listener *l)
{
    struct backend_event found[BATCH];
    uint64_t oldest = 0;
    arena_reset(&l->arena);
    l->count = l->at = 0;
    struct backend *backend = l->broker->config.backend;
    bool missed = backend_events_missed(backend, l->after);
    if (missed && nothing_left(backend))
        return false;
    /* Only one at a time with its value: several of them may need too much memory. */
    size_t most = l->config.values ? 1 : BATCH;
    size_t n =
        backend_events(backend, missed ? 0 : l->after, l->config.kinds, found, most, &oldest);
    if (missed) {
        l->gap_to = oldest;
        l->after = oldest - 1;
    }
    for (size_t i = 0; i < n; i++) {
        if (wanted(l, &found[i]) && !keep(l, &found[i]))
            return false; /* no memory: the next call continues here */
        l->after = found[i].id;
    }
    if (n < most)
        l->after = backend_events_last(backend);
    return n > 0 || missed;
}

/* ---- texts ---- */

static void deliver(struct broker_listener *l);

static struct hash128 told_key(const struct broker_listener *l, struct span key)
{
    return hash128_of(l->broker->hash_key, key);
}

static void take_value(struct broker_listener *l, struct broker_event *mine, const struct reply *r)
{
    if (r->outcome != OUT_OK || r->kv_count != 1)
        return;
    struct kv_view *v = arena_copy(&l->arena, &r->kvs[0], sizeof *v);
    char *value = v ? arena_copy(&l->arena, v->value.len ? v->value.at : "", v->value.len) : NULL;
    if (!value)
        return;
    v->key = mine->event.key;
    v->value = span_of(value, v->value.len);
    mine->kv = v;
}

/* Whether this change, or a later one of the key, was already delivered. */
static bool overtaken(const struct broker_listener *l, const struct broker_event *e)
{
    struct hash128 key = told_key(l, e->event.key);
    return l->config.values && about_key(&e->event) &&
           hash128_equal(l->told[key.lo % KEYS_REMEMBERED].key, key) &&
           l->told[key.lo % KEYS_REMEMBERED].version >= e->event.version;
}

static void remember(struct broker_listener *l, const struct broker_event *e)
{
    struct hash128 key = told_key(l, e->event.key);
    uint64_t version = e->kv && e->kv->found ? e->kv->version : e->event.version;
    if (!l->config.values || !about_key(&e->event))
        return;
    l->told[key.lo % KEYS_REMEMBERED].key = key;
    l->told[key.lo % KEYS_REMEMBERED].version = version;
}

static void text_cb(void *ctx, const struct reply *r)
{
    struct broker_listener *l = ctx;
    struct broker_event *mine = &l->events[r->tag];
    if (r->kind == OP_KV_GET)
        take_value(l, mine, r);
    else if (r->outcome == OUT_OK && r->job_count == 1 && r->jobs[0].has_body) {
        struct job_texts texts = {0};
        for (size_t i = 0; i < JOB_TEXTS; i++)
            if (job_texts[i].in_events)
                *job_text_at(&texts, i) = job_text_of(&r->jobs[0].extra, i);
        if (job_texts_keep(&l->arena, &texts) == 0)
            job_texts_set(mine, &texts);
        struct span progress = r->jobs[0].progress;
        char *copy = progress.len ? arena_copy(&l->arena, progress.at, progress.len) : NULL;
        if (copy)
            mine->progress = span_of(copy, progress.len);
    }
    if (--l->asked > 0)
        return;
    if (l->closed)
        listener_free(l);
    else
        deliver(l);
}

/* true: replies are outstanding. */
static bool ask_texts(struct broker_listener *l)
{
    size_t n = 0;
    for (size_t i = 0; i < l->count; i++) {
        const struct backend_event *e = &l->events[i].event;
        if (l->config.values && e->key.len && !overtaken(l, &l->events[i]))
            l->ops[n++] = (struct op){.kind = OP_KV_GET,
                                      .tag = i,
                                      .kv_get = {.keys = &e->key, .count = 1, .want_value = true}};
        bool progress = e->kind == EVENT_PROGRESS;
        if ((e->has_extra || progress) && e->seq && !l->config.no_texts)
            l->ops[n++] = (struct op){
                .kind = OP_GET,
                .tag = i,
                .job = {.job = {.seq = e->seq}, .want_texts = true, .want_attempts = progress}};
    }
    if (n == 0 || broker_submit(l->broker, l->ops, n, text_cb, l) != 0)
        return false;
    l->asked = n;
    return true;
}

/* ---- delivering ---- */

/* Delivers the batch; false: the client has no room. */
static bool give(struct broker_listener *l)
{
    if (l->gap_to && !l->config.gap(l->config.ctx, l->gap_to))
        return false;
    l->gap_to = 0;
    for (; l->at < l->count && !l->closed; l->at++) {
        const struct broker_event *e = &l->events[l->at];
        if (overtaken(l, e))
            continue;
        bool lost = about_key(&e->event) && e->event.key.len == 0;
        if (!(lost ? l->config.gap(l->config.ctx, e->event.id) : l->config.event(l->config.ctx, e)))
            return false;
        remember(l, e);
    }
    return true;
}

bool broker_listener_at_rest(const struct broker_listener *l, uint64_t *ret_after)
{
    *ret_after = l->after;
    return !l->paused && l->asked == 0 && l->at == l->count && !l->gap_to;
}

static void caught_up(struct broker_listener *l)
{
    uint64_t after;
    if (!l->config.caught_up || !broker_listener_at_rest(l, &after))
        return;
    l->in_call = true;
    l->config.caught_up(l->config.ctx);
    l->in_call = false;
    if (l->closed)
        listener_free(l);
}

static void deliver(struct broker_listener *l)
{
    for (;;) {
        l->in_call = true;
        l->paused = !give(l);
        l->in_call = false;
        if (l->closed) {
            listener_free(l);
            return;
        }
        if (l->paused)
            return;
        if (!take(l)) {
            caught_up(l);
            return;
        }
        if (ask_texts(l))
            return;
    }
}

static void advance(struct broker_listener *l)
{
    if (!l->paused && l->asked == 0)
        deliver(l);
}

void listeners_news(struct broker *b)
{
    struct broker_listener *l = b->listeners.first;
    while (l) {
        struct broker_listener *next = l->next;
        advance(l);
        l = next;
    }
}

void broker_listener_resume(struct broker_listener *l)
{
    l->paused = false;
    if (!l->in_call)
        advance(l);
}

size_t broker_listener_bytes(void)
{
    return sizeof(struct broker_listener);
}

/* ---- open and close ---- */

int broker_listen(struct broker *b, const struct broker_listener_config *config,
                  struct broker_listener **ret)
{
    struct broker_listener *l = mem_zalloc(sizeof(*l) + config->queue.len + config->prefix.len);
    if (!l)
        return -ERR_NOMEM;
    arena_init(&l->arena);
    l->broker = b;
    l->config = *config;
    if (config->queue.len)
        memcpy(l + 1, config->queue.at, config->queue.len);
    l->config.queue = span_of(l + 1, config->queue.len);
    char *prefix = (char *)(l + 1) + config->queue.len;
    if (config->prefix.len)
        memcpy(prefix, config->prefix.at, config->prefix.len);
    l->config.prefix = span_of(prefix, config->prefix.len);
    l->after = config->resume ? config->after : backend_events_last(b->config.backend);
    l->next = b->listeners.first;
    if (l->next)
        l->next->prev = l;
    b->listeners.first = l;
    b->listeners.count++;
    b->listeners.fresh = true;
    broker_wake(b);
    broker_want_news(b);
    *ret = l;
    return 0;
}

void broker_listener_close(struct broker_listener *l)
{
    if (!l)
        return;
    struct broker *b = l->broker;
    *(l->prev ? &l->prev->next : &b->listeners.first) = l->next;
    if (l->next)
        l->next->prev = l->prev;
    b->listeners.count--;
    broker_want_news(b);
    l->closed = true;
    if (!l->in_call && l->asked == 0)
        listener_free(l);
}

static struct broker_listener *not_told(struct broker *b)
{
    struct broker_listener *l = b->listeners.first;
    while (l && (l->told_end || !l->config.ended))
        l = l->next;
    return l;
}

/* Each may close others as well as itself. */
void listeners_drain(struct broker *b)
{
    struct broker_listener *l;
    while ((l = not_told(b)) != NULL) {
        l->told_end = true;
        l->config.ended(l->config.ctx);
    }
}
