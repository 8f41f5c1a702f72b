/* SPDX-License-Identifier: Apache-2.0 */
/* Heartbeats of workers: one request renews all leases of a worker, in one batch, and says which
 * jobs are to be cancelled and which leases are lost. A heartbeat that waits is parked until an
 * event concerns one of its leases or its time is over.
 *
 * When an event of this node concerns a lease, its job is read. On a store that other nodes share,
 * the jobs are also read every CHECK_MS, because the events of those nodes are not seen here; if no
 * other node is alive, nothing is read. */
#include "base/mem.h"
#include "broker/broker_impl.h"

#define CHECK_MS 500

struct broker_heartbeat {
    struct broker *broker;
    struct broker_heartbeat *prev, *next; /* parked */
    broker_heartbeat_fn fn;
    void *ctx;
    size_t count;          /* leases */
    size_t left;           /* outstanding replies */
    uint64_t deadline;     /* loop time */
    bool parked, checking; /* it waits; jobs are being read */
    bool gone;             /* the client has disconnected: fn is not called any more */
    bool check_again;      /* an event arrived meanwhile */
    enum outcome refused;  /* the store did not answer; OUT_OK = it did */
    struct broker_lease *cancel, *lost;
    size_t cancel_count, lost_count;
    struct op *ops;             /* one for each lease */
    struct broker_held *leases; /* token counter 0 = ended by its holder, not watched any more */
    struct job_ref *ids;
};

/* Whether the reply to an extend asks the holder of this lease to stop. */
static bool reply_cancels(const struct reply *r)
{
    return r->lease.cancel_by.ms != 0;
}

/* The same for a job that was read. */
static bool view_cancels(const struct job_view *v)
{
    return cancel_requested(&v->limits);
}

/* ---- the reply ---- */

static struct hash128 seq_key(uint64_t seq)
{
    return (struct hash128){.hi = 0, .lo = seq};
}

static void unwatch(struct broker_heartbeat *h)
{
    struct heartbeats *hs = &h->broker->heartbeats;
    for (size_t i = 0; i < h->count; i++)
        if (map128_get(&hs->holders, seq_key(h->leases[i].seq)) == (uintptr_t)h)
            map128_drop(&hs->holders, seq_key(h->leases[i].seq));
    *(h->prev ? &h->prev->next : &hs->first) = h->next;
    if (h->next)
        h->next->prev = h->prev;
    h->parked = false;
    hs->count--;
    broker_want_news(h->broker);
}

static void heartbeat_free(struct broker_heartbeat *h)
{
    mem_free(h);
}

static void finish(struct broker_heartbeat *h)
{
    if (h->parked)
        unwatch(h);
    if (!h->gone)
        h->fn(h->ctx, &(struct broker_heartbeat_result){.refused = h->refused,
                                                        .cancel = h->cancel,
                                                        .cancel_count = h->cancel_count,
                                                        .lost = h->lost,
                                                        .lost_count = h->lost_count});
    h->gone = true;
    if (h->left == 0)
        heartbeat_free(h);
}

static void add_lost(struct broker_heartbeat *h, size_t i)
{
    if (h->leases[i].token.counter)
        h->lost[h->lost_count++] = (struct broker_lease){h->ids[i], h->leases[i].token};
    h->leases[i].token.counter = 0;
}

static void add_cancel(struct broker_heartbeat *h, size_t i)
{
    if (h->leases[i].token.counter)
        h->cancel[h->cancel_count++] = (struct broker_lease){h->ids[i], h->leases[i].token};
    h->leases[i].token.counter = 0;
}

/* ---- waiting ---- */

static void timer_cb(uv_timer_t *timer);

static bool others_live(const struct broker *b)
{
    struct backend_cluster c;
    size_t live = 0;
    if (!(backend_caps(b->config.backend) & CAP_SHARED))
        return false;
    backend_cluster(b->config.backend, &c);
    for (size_t i = 0; i < c.node_count; i++)
        live += !c.nodes[i].silent;
    return live > 1;
}

static void arm(struct broker *b)
{
    uint64_t now = uv_now(b->config.loop), next = UINT64_MAX;
    for (const struct broker_heartbeat *h = b->heartbeats.first; h; h = h->next)
        next = h->deadline < next ? h->deadline : next;
    if (next == UINT64_MAX) {
        uv_timer_stop(&b->heartbeats.timer);
        return;
    }
    uint64_t wait = next > now ? next - now : 0;
    /* Another node may start: this is checked as often. */
    if ((backend_caps(b->config.backend) & CAP_SHARED) && wait > CHECK_MS)
        wait = CHECK_MS;
    uv_timer_start(&b->heartbeats.timer, timer_cb, wait, 0);
}

static int park(struct broker_heartbeat *h)
{
    struct heartbeats *hs = &h->broker->heartbeats;
    int err = 0;
    for (size_t i = 0; i < h->count && !err; i++)
        err = map128_put(&hs->holders, seq_key(h->leases[i].seq), (uintptr_t)h);
    if (!hs->first)
        hs->seen = backend_events_last(h->broker->config.backend);
    h->next = hs->first;
    if (h->next)
        h->next->prev = h;
    hs->first = h;
    hs->count++;
    h->parked = true;
    broker_want_news(h->broker);
    arm(h->broker);
    return err;
}

static void check(struct broker_heartbeat *h);

/* All replies of a round have arrived. */
static void round_over(struct broker_heartbeat *h)
{
    bool tell = h->cancel_count || h->lost_count || h->refused != OUT_OK;
    h->checking = false;
    if (h->gone)
        heartbeat_free(h);
    else if (tell || uv_now(h->broker->config.loop) >= h->deadline || h->broker->draining ||
             (!h->parked && park(h) != 0))
        finish(h);
    else if (h->check_again)
        check(h);
}

static void checked_cb(void *ctx, const struct reply *r)
{
    struct broker_heartbeat *h = ctx;
    size_t i = (size_t)r->tag;
    const struct job_view *v = r->job_count == 1 ? &r->jobs[0] : NULL;
    bool held = v && v->job.state == STATE_RUNNING && token_equal(v->token, h->leases[i].token);
    if (r->outcome == OUT_NOT_FOUND || (r->outcome == OUT_OK && !held))
        add_lost(h, i);
    else if (r->outcome == OUT_OK && view_cancels(v))
        add_cancel(h, i);
    if (--h->left == 0)
        round_over(h);
}

/* Reads the jobs whose leases are still watched. */
static void check(struct broker_heartbeat *h)
{
    size_t n = 0;
    for (size_t i = 0; i < h->count; i++)
        if (h->leases[i].token.counter)
            h->ops[n++] =
                (struct op){.kind = OP_GET, .tag = i, .job = {.job = {.seq = h->leases[i].seq}}};
    if (n == 0 || broker_submit(h->broker, h->ops, n, checked_cb, h) != 0)
        return;
    h->left = n;
    h->checking = true;
    h->check_again = false;
}

static void timer_cb(uv_timer_t *timer)
{
    struct broker *b = timer->data;
    uint64_t now = uv_now(b->config.loop);
    bool read = others_live(b);
    for (struct broker_heartbeat *h = b->heartbeats.first, *next; h; h = next) {
        next = h->next;
        if (now >= h->deadline)
            finish(h);
        else if (read && !h->checking)
            check(h);
    }
    arm(b);
}

/* ---- events ---- */

/* After one of these the holder may have lost its lease, or be asked to stop. */
#define CONCERNS                                                                                   \
    (UINT64_C(1) << EVENT_CRASHED | UINT64_C(1) << EVENT_CANCELLED | UINT64_C(1) << EVENT_DEAD |   \
     UINT64_C(1) << EVENT_RELEASED | UINT64_C(1) << EVENT_CANCEL_REQUESTED)

static struct broker_heartbeat *watcher(const struct broker *b, uint64_t seq, size_t *ret_index)
{
    struct broker_heartbeat *h =
        (struct broker_heartbeat *)(uintptr_t)map128_get(&b->heartbeats.holders, seq_key(seq));
    for (*ret_index = 0; h && h->leases[*ret_index].seq != seq;)
        ++*ret_index;
    return h;
}

/* The event may concern an earlier lease, so the job itself is read. */
static void take_event(struct broker *b, const struct backend_event *e)
{
    size_t i;
    struct broker_heartbeat *h = e->seq ? watcher(b, e->seq, &i) : NULL;
    if (!h || !h->leases[i].token.counter)
        return;
    if (h->checking)
        h->check_again = true;
    else
        check(h);
}

void heartbeats_lease_ended(struct broker *b, uint64_t seq)
{
    size_t i;
    struct broker_heartbeat *h = b->heartbeats.first ? watcher(b, seq, &i) : NULL;
    if (h)
        h->leases[i].token.counter = 0;
}

void heartbeats_news(struct broker *b)
{
    struct heartbeats *hs = &b->heartbeats;
    struct backend_event found[32];
    uint64_t oldest;
    size_t n;
    if (!hs->first) {
        hs->seen = backend_events_last(b->config.backend);
        return;
    }
    if (backend_events_missed(b->config.backend, hs->seen)) {
        hs->seen = backend_events_last(b->config.backend);
        for (struct broker_heartbeat *h = hs->first; h; h = h->next)
            if (!h->checking)
                check(h);
    }
    do {
        n = backend_events(b->config.backend, hs->seen, CONCERNS, found, 32, &oldest);
        for (size_t i = 0; i < n; i++) {
            hs->seen = found[i].id;
            take_event(b, &found[i]);
        }
    } while (n == 32);
    hs->seen = backend_events_last(b->config.backend);
}

/* ---- a heartbeat ---- */

static bool is_lost(enum outcome o)
{
    return o == OUT_LEASE_LOST || o == OUT_NOT_FOUND || o == OUT_GONE || o == OUT_CANCELLED;
}

static void extended_cb(void *ctx, const struct reply *r)
{
    struct broker_heartbeat *h = ctx;
    size_t i = (size_t)r->tag;
    if (r->id_hi)
        h->ids[i] = (struct job_ref){.seq = r->seq, .hi = r->id_hi};
    if (is_lost(r->outcome))
        add_lost(h, i);
    else if (r->outcome != OUT_OK)
        h->refused = r->outcome;
    else if (reply_cancels(r))
        add_cancel(h, i);
    if (--h->left == 0)
        round_over(h);
}

static struct broker_heartbeat *heartbeat_new(struct broker *b,
                                              const struct broker_heartbeat_in *in)
{
    size_t n = in->lease_count ? in->lease_count : 1;
    size_t each = sizeof(struct op) + sizeof(struct broker_held) + 2 * sizeof(struct broker_lease) +
                  sizeof(struct job_ref);
    struct broker_heartbeat *h = mem_zalloc(sizeof *h + n * each);
    if (!h)
        return NULL;
    h->broker = b;
    h->count = in->lease_count;
    h->ops = (struct op *)(h + 1);
    h->leases = (struct broker_held *)(h->ops + n);
    h->cancel = (struct broker_lease *)(h->leases + n);
    h->lost = h->cancel + n;
    h->ids = (struct job_ref *)(h->lost + n);
    for (size_t i = 0; i < h->count; i++) {
        h->leases[i] =
            (struct broker_held){.seq = in->leases[i].job.seq, .token = in->leases[i].token};
        h->ids[i] = in->leases[i].job;
        h->ops[i] = (struct op){.kind = OP_EXTEND,
                                .tag = i,
                                .lease = {.job = in->leases[i].job,
                                          .token = in->leases[i].token,
                                          .lease_ms = in->extend_ms}};
    }
    return h;
}

int broker_heartbeat(struct broker *b, const struct broker_heartbeat_in *in, broker_heartbeat_fn fn,
                     void *ctx, struct broker_heartbeat **ret)
{
    struct broker_heartbeat *h = b->draining ? NULL : heartbeat_new(b, in);
    if (!h)
        return b->draining ? -ERR_CLOSED : -ERR_NOMEM;
    h->fn = fn;
    h->ctx = ctx;
    h->deadline = uv_now(b->config.loop) + in->wait_ms;
    int err = 0;
    if (h->count) {
        h->left = h->count;
        err = broker_submit(b, h->ops, h->count, extended_cb, h);
    } else {
        err = park(h);
    }
    if (err) {
        if (h->parked)
            unwatch(h);
        heartbeat_free(h);
        return err;
    }
    workers_heard(b, in);
    *ret = h;
    return 0;
}

void broker_heartbeat_cancel(struct broker_heartbeat *h)
{
    h->gone = true;
    finish(h);
}

void heartbeats_init(struct broker *b)
{
    map128_init(&b->heartbeats.holders);
    b->heartbeats.seen = backend_events_last(b->config.backend);
}

void heartbeats_done(struct broker *b)
{
    map128_done(&b->heartbeats.holders);
}

void heartbeats_drain(struct broker *b)
{
    while (b->heartbeats.first)
        finish(b->heartbeats.first);
}
