/* SPDX-License-Identifier: Apache-2.0 */
/* The delivery of a notice: it is taken from the outbox, written as JSON (with the job's payload,
 * if the rule says so), signed and sent; then the result is reported to the outbox. A report whose
 * outcome is uncertain is repeated; a notice whose result was not reported before a crash is
 * delivered again. A receiver may therefore get a notice twice, under the same id, but misses none.
 */
#include "broker/alerts/webhook_delivery.h"

#include <stdio.h>

#include "base/check.h"
#include "base/digest/random.h"
#include "base/mem.h"
#include "broker/alerts/breaker_sweep.h"
#include "broker/alerts/notice_text.h"
#include "broker/alerts/webhook.h"
#include "broker/broker_impl.h"
#include "core/jobs/id.h"

#define CHECK_MS 1000 /* how often conditions are checked, and at the latest the outbox */
#define HOLD_SPARE_MS                                                                              \
    60000 /* a delivery that has not ended this long after its timeout never will */

struct delivery {
    struct webhook_deliveries *owner;
    struct delivery *prev, *next;
    struct notice_view view; /* texts in the arena */
    struct arena arena;
    struct op op;    /* reads the job, then reports the result */
    bool asked;      /* op is outstanding */
    bool unasked;    /* the store did not return the job; the timer tries again */
    bool unreported; /* the result is known, but the outbox does not have it yet */
    bool sending;
};

struct webhook_deliveries {
    struct broker *broker;
    struct broker_webhooks config;
    struct webhooks *webhooks;
    struct conditions *conditions;
    struct breaker_sweep *sweep;
    struct broker_listener *listener;
    struct random random;
    struct delivery *first;
    uint32_t count;
    struct op take;
    uint64_t *mine; /* for take: the notices in progress; room for `concurrency` */
    bool taking, take_again;
    bool take_lost; /* it is not known which notices the last take returned */
    bool draining, closing, timer_closed;
    bool leads;    /* of the nodes that share a store, this one checks conditions */
    bool delivers; /* … and this one delivers, for at least one of its stores */
    uv_timer_t timer;
    uint64_t delivered, failed, refused;
    uint64_t dropped; /* as last logged */
    void (*closed)(void *ctx);
    void *closed_ctx;
};

static void take_more(struct webhook_deliveries *n);
static void maybe_closed(struct webhook_deliveries *n);

/* ---- one delivery ---- */

static void delivery_free(struct delivery *d)
{
    struct webhook_deliveries *n = d->owner;
    *(d->prev ? &d->prev->next : &n->first) = d->next;
    if (d->next)
        d->next->prev = d->prev;
    n->count--;
    arena_done(&d->arena);
    mem_free(d);
}

static void end_reply(void *ctx, const struct reply *r)
{
    struct delivery *d = ctx;
    struct webhook_deliveries *n = d->owner;
    d->asked = false;
    if (!n->closing && (r->outcome == OUT_UNKNOWN || r->outcome == OUT_UNAVAILABLE)) {
        d->unreported = true; /* the timer reports it again */
        return;
    }
    delivery_free(d);
    take_more(n);
    maybe_closed(n);
}

static void say_end(struct delivery *d)
{
    d->unreported = broker_submit(d->owner->broker, &d->op, 1, end_reply, d) != 0;
    d->asked = !d->unreported;
}

static void log_failure(const struct webhook_deliveries *n, const struct delivery *d,
                        const struct webhook_result *result, bool give_up)
{
    char id[ID_ULID_BYTES];
    id_ulid(id_make(d->view.notice.id_hi, d->view.notice.number), id);
    log_event(n->broker->config.log, LOG_WARN, give_up ? "notice_given_up" : "notice_not_delivered",
              LOG_TEXT("notice", id), LOG_SPAN("alert", d->view.notice.alert),
              LOG_INT("attempt", d->view.tried.tries + 1), LOG_INT("status", result->status),
              LOG_TEXT("why", result->error));
}

static void ended(struct delivery *d, const struct webhook_result *result)
{
    struct webhook_deliveries *n = d->owner;
    bool delivered = result->status >= 200 && result->status <= 299;
    struct wall_time now = clock_now(&n->broker->config.clock).wall;
    bool give_up = !delivered && now.ms - d->view.tried.since.ms >= (int64_t)n->config.give_up_ms;
    int64_t wait = notice_backoff_ms(d->view.tried.tries + 1, &n->random);
    const char *error = delivered ? "" : arena_text(&d->arena, span_text(result->error));
    d->op = (struct op){
        .kind = OP_NOTICE_END,
        .notice_end = {.number = d->view.notice.number,
                       .tries = d->view.tried.tries,
                       .delivered = delivered,
                       .reached = result->reached,
                       .give_up = give_up,
                       .due = {now.ms + wait},
                       .status = result->status,
                       .error = span_text(error ? error : ""),
                       .breaker = n->config.breaker},
    };
    n->delivered += delivered;
    n->failed += !delivered;
    n->refused += !delivered && !result->reached;
    if (!delivered)
        log_failure(n, d, result, give_up);
    say_end(d);
}

static void sent_cb(void *ctx, const struct webhook_result *result)
{
    struct delivery *d = ctx;
    d->sending = false;
    ended(d, result);
}

static void not_sent(struct delivery *d, const char *why)
{
    struct webhook_result result = {.error = why};
    ended(d, &result);
}

static int post(struct delivery *d, struct span body)
{
    struct webhook_deliveries *n = d->owner;
    char id[ID_ULID_BYTES], timestamp[24], signature[NOTICE_SIGNATURE_BYTES] = "";
    id_ulid(id_make(d->view.notice.id_hi, d->view.notice.number), id);
    snprintf(timestamp, sizeof timestamp, "%lld",
             (long long)(clock_now(&n->broker->config.clock).wall.ms / 1000));
    int err = 0;
    if (d->view.secret.len)
        err = notice_sign(d->view.secret, timestamp, body, signature);
    struct webhook_header headers[] = {{"Holdfast-Notice", id},
                                       {"Holdfast-Timestamp", timestamp},
                                       {"Holdfast-Signature", signature}};
    struct webhook_post request = {.url = d->view.url,
                                   .body = body,
                                   .headers = headers,
                                   .header_count = d->view.secret.len ? 3 : 2,
                                   .done = sent_cb,
                                   .ctx = d};
    if (!err)
        err = webhooks_send(n->webhooks, &request);
    d->sending = err == 0;
    return err;
}

static void delivery_send(struct delivery *d, const struct job_view *job)
{
    struct buf body;
    buf_init(&body);
    int err = notice_json(&d->view, job, &body);
    if (!err)
        err = post(d, buf_span(&body));
    buf_done(&body);
    if (err)
        not_sent(d, err_text(err));
}

static void job_reply(void *ctx, const struct reply *r)
{
    struct delivery *d = ctx;
    d->asked = false;
    if (d->owner->closing) {
        struct webhook_deliveries *n = d->owner;
        delivery_free(d);
        maybe_closed(n);
        return;
    }
    d->unasked = r->outcome == OUT_UNAVAILABLE || r->outcome == OUT_UNKNOWN;
    if (!d->unasked)
        delivery_send(d, r->outcome == OUT_OK && r->job_count == 1 ? &r->jobs[0] : NULL);
}

/* The job in its present state: it may have been removed, or have run again. */
static bool ask_job(struct delivery *d)
{
    if (!d->view.notice.job_seq)
        return false;
    d->op = (struct op){.kind = OP_GET,
                        .job = {.job = {.seq = d->view.notice.job_seq},
                                .want_body = d->view.with_payload,
                                .want_texts = !d->view.with_payload}};
    d->asked = broker_submit(d->owner->broker, &d->op, 1, job_reply, d) == 0;
    return d->asked;
}

static bool keep_text(struct arena *arena, struct span *text)
{
    char *copy = text->len ? arena_copy(arena, text->at, text->len) : NULL;
    if (text->len && !copy)
        return false;
    text->at = copy;
    return true;
}

static bool view_keep(struct delivery *d, const struct notice_view *v)
{
    d->view = *v;
    struct span *texts[] = {&d->view.notice.alert, &d->view.notice.queue, &d->view.notice.subject,
                            &d->view.notice.text,  &d->view.tried.error,  &d->view.url,
                            &d->view.secret};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (!keep_text(&d->arena, texts[i]))
            return false;
    return true;
}

/* Without memory it stays held, and is due again later. */
static void deliver(struct webhook_deliveries *n, const struct notice_view *v)
{
    for (const struct delivery *other = n->first; other; other = other->next)
        if (other->view.notice.number == v->notice.number)
            return;
    struct delivery *d = mem_zalloc(sizeof *d);
    if (!d)
        return;
    arena_init(&d->arena);
    d->owner = n;
    d->next = n->first;
    if (d->next)
        d->next->prev = d;
    n->first = d;
    n->count++;
    if (!view_keep(d, v))
        delivery_free(d);
    else if (!ask_job(d))
        delivery_send(d, NULL);
}

/* ---- taking ---- */

static void timer_cb(uv_timer_t *timer);

/* Real time, also with a test clock: the code that moves the test clock waits for deliveries. */
static void timer_set(struct webhook_deliveries *n, struct wall_time due)
{
    int64_t now = clock_now(&n->broker->config.clock).wall.ms;
    int64_t wait = due.ms == 0 || due.ms - now > CHECK_MS ? CHECK_MS : due.ms - now;
    uv_timer_start(&n->timer, timer_cb, wait > 0 ? (uint64_t)wait : 1, 0);
}

static void take_reply(void *ctx, const struct reply *r)
{
    struct webhook_deliveries *n = ctx;
    n->taking = false;
    if (n->closing) {
        maybe_closed(n);
        return;
    }
    bool all_heard = r->outcome == OUT_OK && !r->left_out;
    n->take_lost = r->outcome == OUT_UNKNOWN || (!all_heard && n->take_lost);
    for (uint32_t i = 0; r->outcome == OUT_OK && i < r->notice_count; i++)
        deliver(n, &r->notices[i]);
    bool full = r->outcome == OUT_OK && r->notice_count == n->take.notice_take.limit;
    timer_set(n, r->outcome == OUT_OK ? r->next_due : (struct wall_time){0});
    if (full || n->take_again)
        take_more(n);
}

static void take_more(struct webhook_deliveries *n)
{
    if (n->draining || !n->delivers || n->count >= n->config.concurrency)
        return;
    if (n->taking) {
        n->take_again = true;
        return;
    }
    n->take_again = false;
    uint32_t count = 0;
    for (const struct delivery *d = n->first; d; d = d->next)
        n->mine[count++] = d->view.notice.number;
    n->take =
        (struct op){.kind = OP_NOTICE_TAKE,
                    .notice_take = {.limit = n->config.concurrency - n->count,
                                    .hold_ms = 2 * n->config.policy.timeout_ms + HOLD_SPARE_MS,
                                    .give_up_ms = (int64_t)n->config.give_up_ms,
                                    .reset = n->take_lost,
                                    .mine = n->mine,
                                    .mine_count = count,
                                    .breaker = n->config.breaker}};
    n->taking = broker_submit(n->broker, &n->take, 1, take_reply, n) == 0;
}

static void log_dropped(struct webhook_deliveries *n)
{
    struct backend_figures f;
    backend_figures(n->broker->config.backend, &f);
    if (f.notices_dropped > n->dropped)
        log_event(n->broker->config.log, LOG_ERROR, "notices_dropped",
                  LOG_INT("count", f.notices_dropped - n->dropped),
                  LOG_TEXT("why", "the outbox was full; the oldest were lost"));
    n->dropped = f.notices_dropped;
}

/* Checks the conditions, if this node is responsible. */
static void look(struct webhook_deliveries *n, void (*fn)(void *ctx), void *ctx)
{
    if (n->leads)
        breaker_sweep_pass(n->sweep);
    if (n->leads)
        conditions_pass(n->conditions, fn, ctx);
    else if (fn)
        fn(ctx);
}

/* What another node has reported meanwhile is not known here. */
static void notice_leading(struct webhook_deliveries *n)
{
    bool leads = backend_leads(n->broker->config.backend);
    if (leads && !n->leads)
        conditions_report_again(n->conditions);
    n->leads = leads;
    n->delivers = backend_leads_any(n->broker->config.backend);
}

static void timer_cb(uv_timer_t *timer)
{
    struct webhook_deliveries *n = timer->data;
    struct backend_figures f;
    notice_leading(n);
    for (struct delivery *d = n->first; d; d = d->next) {
        if (d->unreported)
            say_end(d);
        if (d->unasked)
            d->unasked = !ask_job(d);
    }
    if (n->draining) {
        timer_set(n, (struct wall_time){0});
        return;
    }
    log_dropped(n);
    if (!n->broker->config.test_clock) /* otherwise the code that moves the clock checks them */
        look(n, NULL, NULL);
    timer_set(n, (struct wall_time){0});
    backend_figures(n->broker->config.backend, &f);
    if (f.notices_pending > 0)
        take_more(n);
}

/* ---- events ---- */

static bool event_cb(void *ctx, const struct broker_event *e)
{
    struct webhook_deliveries *n = ctx;
    if (e->event.kind != EVENT_QUEUE_DEEP)
        take_more(n);
    else if (n->leads)
        conditions_deep(n->conditions, e->event.queue, e->event.count);
    return true;
}

static bool gap_cb(void *ctx, uint64_t oldest)
{
    (void)oldest;
    take_more(ctx);
    return true;
}

void deliveries_observe(struct webhook_deliveries *n, const struct op *op, const struct reply *r)
{
    if (n->draining)
        return;
    if (op->kind == OP_ALERT_PUT || op->kind == OP_ALERT_DELETE) {
        conditions_changed(n->conditions);
        look(n, NULL, NULL);
        take_more(n);
    } else if (op->kind == OP_NOTICE_AGAIN && r->outcome == OUT_OK) {
        take_more(n);
    }
}

void deliveries_settle(struct webhook_deliveries *n, void (*fn)(void *ctx), void *ctx)
{
    if (n->draining) {
        fn(ctx);
        return;
    }
    notice_leading(n);
    take_more(n);
    look(n, fn, ctx);
}

/* ---- open and close ---- */

static int news_listen(struct webhook_deliveries *n)
{
    struct broker_listener_config config = {
        .kinds = UINT64_C(1) << EVENT_DEAD | UINT64_C(1) << EVENT_ALERT_RAISED |
                 UINT64_C(1) << EVENT_ALERT_CLEARED | UINT64_C(1) << EVENT_SCHEDULE_FAILED |
                 UINT64_C(1) << EVENT_QUEUE_DEEP,
        .no_texts = true,
        .event = event_cb,
        .gap = gap_cb,
        .ctx = n,
    };
    return broker_listen(n->broker, &config, &n->listener);
}

static void swept(void *ctx)
{
    maybe_closed(ctx);
}

int deliveries_open(struct broker *b, const struct broker_webhooks *config,
                    struct webhook_deliveries **ret)
{
    uint64_t seed;
    struct webhook_deliveries *n = mem_zalloc(sizeof *n);
    int err = n ? random_bytes(&seed, sizeof seed) : -ERR_NOMEM;
    if (!err) {
        n->broker = b;
        n->config = *config;
        random_seed(&n->random, seed);
        n->mine = mem_array(config->concurrency, sizeof *n->mine);
        err = n->mine ? conditions_open(b, &n->conditions) : -ERR_NOMEM;
    }
    if (!err)
        err = breaker_sweep_open(b, swept, n, &n->sweep);
    if (!err)
        err = webhooks_open(b->config.loop, &config->policy, &n->webhooks);
    if (err) {
        if (n && n->conditions)
            conditions_close(n->conditions);
        if (n)
            breaker_sweep_close(n->sweep);
        if (n)
            mem_free(n->mine);
        mem_free(n);
        return err;
    }
    CHECK(uv_timer_init(b->config.loop, &n->timer) == 0);
    n->timer.data = n;
    *ret = n;
    return 0;
}

void deliveries_begin(struct webhook_deliveries *n)
{
    if (news_listen(n) != 0)
        log_event(n->broker->config.log, LOG_WARN, "notices_may_be_late",
                  LOG_TEXT("why", "out of memory"));
    notice_leading(n);
    conditions_changed(n->conditions);
    look(n, NULL, NULL);
    take_more(n);
    timer_set(n, (struct wall_time){0});
}

void deliveries_drain(struct webhook_deliveries *n)
{
    n->draining = true;
}

static void closed_now(struct webhook_deliveries *n)
{
    void (*closed)(void *ctx) = n->closed;
    void *ctx = n->closed_ctx;
    conditions_close(n->conditions);
    breaker_sweep_close(n->sweep);
    mem_free(n->mine);
    mem_free(n);
    closed(ctx);
}

static void maybe_closed(struct webhook_deliveries *n)
{
    if (n->closing && n->timer_closed && !n->webhooks && !n->taking && !n->first &&
        conditions_idle(n->conditions) && breaker_sweep_idle(n->sweep))
        closed_now(n);
}

static void webhooks_closed_cb(void *ctx)
{
    struct webhook_deliveries *n = ctx;
    n->webhooks = NULL;
    maybe_closed(n);
}

static void timer_closed_cb(uv_handle_t *handle)
{
    struct webhook_deliveries *n = handle->data;
    n->timer_closed = true;
    maybe_closed(n);
}

static void conditions_ended_cb(void *ctx)
{
    maybe_closed(ctx);
}

void deliveries_close(struct webhook_deliveries *n, void (*fn)(void *ctx), void *ctx)
{
    n->draining = n->closing = true;
    n->closed = fn;
    n->closed_ctx = ctx;
    broker_listener_close(n->listener);
    for (struct delivery *d = n->first, *next; d; d = next) {
        next = d->next;
        if (!d->asked) /* sending, or waiting to be reported: it will be delivered again */
            delivery_free(d);
    }
    webhooks_close(n->webhooks, webhooks_closed_cb, n);
    uv_close((uv_handle_t *)&n->timer, timer_closed_cb);
    conditions_stop(n->conditions);
    if (!conditions_idle(n->conditions))
        conditions_pass(n->conditions, conditions_ended_cb, n);
}

void deliveries_figures(const struct webhook_deliveries *n, struct broker_figures *ret)
{
    ret->listeners -= n->listener != NULL;
    ret->notices_delivered = n->delivered;
    ret->notices_failed = n->failed;
    ret->notices_refused = n->refused;
    ret->notices_under_way = n->count;
}
