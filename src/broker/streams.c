/* SPDX-License-Identifier: Apache-2.0 */
/* Streams: a client gets jobs as they become ready, up to `prefetch` at a time.
 *
 * A stream is a claim that waits without a limit and is repeated while there is room. The number of
 * jobs that it claims follows what the client accepted: jobs that find no room are claimed and
 * released for nothing, and their payloads are in memory meanwhile. Its leases are bound: they end
 * with the connection. A place becomes free when a held job's lease ends: by a request that this
 * broker saw, or without one (the lease expired, the job was cancelled elsewhere, the queue was
 * deleted), which the events show. An event only says where to look: the held jobs are then read,
 * and those with another token are dropped. */
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "broker/broker_impl.h"

#define EVENTS_A_LOOK 64
#define STRIDE_FIRST 16
#define STRIDE_MAX 128

static void ask_more(struct broker_stream *s);

/* ---- held jobs ---- */

static struct broker_held *held_find(struct broker_stream *s, uint64_t seq)
{
    for (uint32_t i = 0; i < s->held_count; i++)
        if (s->held[i].seq == seq)
            return &s->held[i];
    return NULL;
}

static struct hash128 holder_key(const struct broker *b, uint64_t seq)
{
    return hash128_of(b->hash_key, span_of(&seq, sizeof(seq)));
}

/* NULL: no stream holds this job. */
static struct broker_stream *holder_of(const struct broker *b, uint64_t seq)
{
    uint64_t found = map128_get(&b->streams.holders, holder_key(b, seq));
    return (struct broker_stream *)(uintptr_t)found;
}

static void held_drop(struct broker_stream *s, struct broker_held *held)
{
    map128_drop(&s->broker->streams.holders, holder_key(s->broker, held->seq));
    *held = s->held[--s->held_count];
}

void streams_lease_ended(struct broker *b, uint64_t seq)
{
    struct broker_stream *s = holder_of(b, seq);
    if (!s)
        return;
    held_drop(s, held_find(s, seq));
    ask_more(s);
}

/* There is room for the holder. The previous holder has lost the job and does not know it yet. */
static void held_add(struct broker_stream *s, struct broker_held held)
{
    struct broker *b = s->broker;
    struct broker_stream *before = holder_of(b, held.seq);
    if (before)
        held_drop(before, held_find(before, held.seq));
    if (before && before != s) /* this one is still being given jobs */
        ask_more(before);
    CHECK(map128_put(&b->streams.holders, holder_key(b, held.seq), (uintptr_t)s) == 0);
    s->held[s->held_count++] = held;
}

/* ---- claiming ---- */

/* false: the client has no room, and the job is released. */
static bool deliver_job(struct broker_stream *s, const struct job_view *job)
{
    struct broker_held held = {job->job.seq, job->token};
    if (!s->paused && map128_reserve(&s->broker->streams.holders, 1) == 0 &&
        s->config.job(s->config.ctx, job)) {
        held_add(s, held);
        return true;
    }
    s->paused = true;
    broker_give_back(s->broker, &held, 1);
    return false;
}

static void hand_out_all(struct broker_stream *s, const struct reply *r)
{
    uint32_t taken = 0;
    for (uint32_t i = 0; i < r->job_count; i++)
        taken += deliver_job(s, &r->jobs[i]);
    if (taken < r->job_count)
        s->stride = taken > 1 ? taken : 1;
    else if (taken == s->stride && s->stride < STRIDE_MAX)
        s->stride *= 2;
}

static void claimed_cb(void *ctx, const struct reply *r)
{
    struct broker_stream *s = ctx;
    s->claim = NULL;
    hand_out_all(s, r);
    if (r->outcome == OUT_OK) {
        ask_more(s);
    } else {
        /* The store does not answer: the client's own retry determines when to try again. */
        s->paused = true;
        if (!s->told) {
            s->told = true;
            s->config.ended(s->config.ctx);
        }
    }
}

static void ask_more(struct broker_stream *s)
{
    struct broker *b = s->broker;
    if (s->claim || s->paused || s->closed || b->draining || s->held_count >= s->config.prefetch)
        return;
    uint32_t room = s->config.prefetch - s->held_count;
    struct op_claim want = {
        .queues = &s->config.queue,
        .queue_count = 1,
        .count = room < s->stride ? room : s->stride,
        .lease_ms = s->config.lease_ms,
        .worker = s->config.worker,
        .bound = true,
        .want_body = true,
    };
    if (broker_claim(b, &want, BROKER_WAIT_FOREVER, claimed_cb, s, &s->claim) != 0)
        s->paused = true; /* until the client has room, or disconnects */
}

void broker_stream_resume(struct broker_stream *s)
{
    s->paused = false;
    ask_more(s);
}

/* ---- leases that ended without a request ---- */

static void stream_free(struct broker_stream *s)
{
    mem_free(s->checks);
    mem_free(s->held);
    mem_free(s);
}

static void check_held(struct broker_stream *s);

static void checked_cb(void *ctx, const struct reply *r)
{
    struct broker_stream *s = ctx;
    struct broker_held *held = held_find(s, r->tag);
    bool answered = r->outcome == OUT_OK || r->outcome == OUT_NOT_FOUND || r->outcome == OUT_GONE;
    bool still = r->outcome == OUT_OK && r->job_count == 1 &&
                 r->jobs[0].job.state == STATE_RUNNING && held &&
                 token_equal(r->jobs[0].token, held->token);
    if (held && answered && !still)
        held_drop(s, held);
    if (--s->checks_left > 0)
        return;
    s->checking = false;
    if (s->closed) {
        stream_free(s);
        return;
    }
    if (s->check_again)
        check_held(s);
    ask_more(s);
}

static void check_held(struct broker_stream *s)
{
    s->check_again = s->checking;
    if (s->checking || s->held_count == 0)
        return;
    for (uint32_t i = 0; i < s->held_count; i++)
        s->checks[i] = (struct op){
            .kind = OP_GET, .tag = s->held[i].seq, .job = {.job = {.seq = s->held[i].seq}}};
    if (broker_submit(s->broker, s->checks, s->held_count, checked_cb, s) != 0)
        return;
    s->checking = true;
    s->checks_left = s->held_count;
}

#define BIT(kind) (UINT64_C(1) << (kind))
/* Kinds of events after which a lease may have ended. */
#define KINDS                                                                                      \
    (BIT(EVENT_CRASHED) | BIT(EVENT_DEAD) | BIT(EVENT_CANCELLED) | BIT(EVENT_RETRIED) |            \
     BIT(EVENT_RELEASED) | BIT(EVENT_DONE) | BIT(EVENT_QUEUE_DELETED))

static void look_at(struct broker *b, const struct backend_event *e)
{
    struct broker_stream *s = e->seq ? holder_of(b, e->seq) : NULL;
    if (s)
        check_held(s);
    for (s = b->streams.first; e->kind == EVENT_QUEUE_DELETED && s; s = s->next)
        check_held(s);
}

static void news_look(struct broker *b)
{
    struct streams *ss = &b->streams;
    struct backend_event events[EVENTS_A_LOOK];
    size_t n;
    uint64_t oldest;
    bool missed = backend_events_missed(b->config.backend, ss->seen);
    do {
        n = backend_events(b->config.backend, ss->seen, KINDS, events, EVENTS_A_LOOK, &oldest);
        for (size_t i = 0; i < n; i++)
            look_at(b, &events[i]);
        ss->seen = n == EVENTS_A_LOOK ? events[n - 1].id : backend_events_last(b->config.backend);
    } while (n == EVENTS_A_LOOK);
    for (struct broker_stream *s = ss->first; missed && s; s = s->next)
        check_held(s);
}

/* Without a stream nothing is read: the array of events on the stack, which the compiler fills with
 * zeros, would cost each iteration a noticeable part of its time. */
void streams_news(struct broker *b)
{
    if (b->streams.count > 0)
        news_look(b);
}

/* ---- open and close ---- */

void streams_init(struct broker *b)
{
    map128_init(&b->streams.holders);
}

void streams_done(struct broker *b)
{
    CHECK(map128_count(&b->streams.holders) == 0);
    map128_done(&b->streams.holders);
}

static int copy_config(struct broker_stream *s, const struct broker_stream_config *config)
{
    s->config = *config;
    s->held = mem_array(config->prefetch, sizeof(*s->held));
    s->checks = mem_array(config->prefetch, sizeof(*s->checks));
    char *texts = (char *)(s + 1);
    if (!s->held || !s->checks)
        return -ERR_NOMEM;
    memcpy(texts, config->queue.at, config->queue.len);
    s->config.queue = span_of(texts, config->queue.len);
    texts += config->queue.len;
    if (config->worker.len)
        memcpy(texts, config->worker.at, config->worker.len);
    s->config.worker = span_of(texts, config->worker.len);
    return 0;
}

int broker_stream_open(struct broker *b, const struct broker_stream_config *config,
                       struct broker_stream **ret)
{
    CHECK(config->prefetch >= 1 && config->prefetch <= LIMIT_BATCH);
    struct broker_stream *s = mem_zalloc(sizeof(*s) + config->queue.len + config->worker.len);
    if (!s)
        return -ERR_NOMEM;
    int err = copy_config(s, config);
    if (err) {
        stream_free(s);
        return err;
    }
    s->broker = b;
    s->stride = STRIDE_FIRST;
    if (b->streams.count == 0)
        b->streams.seen = backend_events_last(b->config.backend);
    s->next = b->streams.first;
    if (s->next)
        s->next->prev = s;
    b->streams.first = s;
    b->streams.count++;
    broker_want_news(b);
    ask_more(s);
    *ret = s;
    return 0;
}

static void hand_back(struct broker_stream *s, bool lost)
{
    while (s->held_count > 0) {
        struct broker_held *held = &s->held[0];
        struct op op = {.kind = OP_RELEASE,
                        .lease = {.job = {.seq = held->seq}, .token = held->token, .lost = lost}};
        broker_retry_release(s->broker, &op);
        held_drop(s, held);
    }
}

void broker_stream_close(struct broker_stream *s, bool lost)
{
    struct broker *b = s->broker;
    if (s->claim)
        broker_claim_cancel(b, s->claim);
    s->claim = NULL;
    s->closed = true;
    hand_back(s, lost);
    *(s->prev ? &s->prev->next : &b->streams.first) = s->next;
    if (s->next)
        s->next->prev = s->prev;
    b->streams.count--;
    broker_want_news(b);
    if (!s->checking)
        stream_free(s);
}

void streams_drain(struct broker *b)
{
    struct broker_stream *s = b->streams.first;
    while (s) {
        struct broker_stream *next = s->next;
        if (!s->told) {
            s->told = true;
            s->config.ended(s->config.ctx);
        }
        s = next;
    }
}
