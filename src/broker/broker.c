/* SPDX-License-Identifier: Apache-2.0 */
/* Batches: the operations of one iteration of the loop go to the backend together.
 *
 * The prepare handle submits just before the loop would wait for input. libuv runs prepare handles
 * from the newest to the oldest, so a broker opened after its backend submits before the backend
 * ends its iteration: there is one commit for all of it, and no iteration is lost. While ops are
 * being collected an idle handle is active, which costs no system call and prevents the loop from
 * sleeping. */
#include "broker/broker.h"

#include <string.h>

#include "base/check.h"
#include "base/digest/random.h"
#include "base/mem.h"
#include "broker/alerts/webhook_delivery.h"
#include "broker/broker_impl.h"
#include "core/alerts/webhook.h"

#define BATCH_ROOM_FIRST 64
#define BATCH_ROOM_KEPT 4096 /* larger ones are freed after use */
#define BATCHES_KEPT 8

static const struct broker_label default_labels[] = {{"high", 10}, {"normal", 0}, {"low", -10}};

/* ---- the memory of batches ---- */

static void batch_free(struct broker_batch *t)
{
    if (!t)
        return;
    mem_free(t->ops);
    mem_free(t->slots);
    mem_free(t);
}

static struct broker_batch *batch_take(struct broker *b)
{
    struct broker_batch *t = b->spare;
    if (t) {
        b->spare = t->next;
        b->spare_count--;
    } else {
        t = mem_zalloc(sizeof(*t));
        if (!t)
            return NULL;
        t->broker = b;
    }
    t->count = t->left = 0;
    return t;
}

static void batch_give(struct broker_batch *t)
{
    struct broker *b = t->broker;
    if (t->room > BATCH_ROOM_KEPT || b->spare_count >= BATCHES_KEPT) {
        batch_free(t);
        return;
    }
    t->next = b->spare;
    b->spare = t;
    b->spare_count++;
}

static int batch_reserve(struct broker_batch *t, size_t more)
{
    if (t->room - t->count >= more)
        return 0;
    size_t room = t->room ? t->room : BATCH_ROOM_FIRST;
    while (room - t->count < more)
        room *= 2;
    struct op *ops = mem_regrow(t->ops, room, sizeof(*ops));
    if (!ops)
        return -ERR_NOMEM;
    t->ops = ops;
    struct broker_slot *slots = mem_regrow(t->slots, room, sizeof(*slots));
    if (!slots)
        return -ERR_NOMEM;
    t->slots = slots;
    t->room = room;
    return 0;
}

static void batch_add(struct broker_batch *t, const struct op *op, broker_reply_fn fn, void *ctx)
{
    size_t i = t->count++;
    t->ops[i] = *op;
    t->ops[i].tag = i;
    if (op->kind == OP_SCHEDULE_PUT || op->kind == OP_SCHEDULE_PAUSE)
        schedules_prepare(t->broker, &t->ops[i]);
    t->broker->reads.weight += reads_weight(op);
    t->slots[i] = (struct broker_slot){fn, ctx, op->tag};
}

/* ---- replies ---- */

static void observe(struct broker *b, const struct op *op, const struct reply *r)
{
    figures_observe(b, op, r);
    workers_observe(b, op, r);
    claimed_observe(b, op, r);
    schedules_observe(b, op, r);
    bool ends = op->kind == OP_ACK || op->kind == OP_FAIL || op->kind == OP_RELEASE ||
                op->kind == OP_CANCEL;
    if (ends && r->outcome == OUT_OK && r->state != STATE_RUNNING && b->streams.count > 0)
        streams_lease_ended(b, r->seq);
    if (ends && r->outcome == OUT_OK && op->kind != OP_CANCEL)
        heartbeats_lease_ended(b, r->seq);
    if (b->deliveries)
        deliveries_observe(b->deliveries, op, r);
}

static void deliver(struct broker_batch *t, const struct reply *reply)
{
    struct broker *b = t->broker;
    size_t i = (size_t)reply->tag;
    CHECK(i < t->count && t->left > 0 && reply->kind == t->ops[i].kind);
    struct broker_slot slot = t->slots[i];
    observe(b, &t->ops[i], reply);
    struct reply r = *reply;
    r.tag = slot.tag;
    t->left--;
    b->outstanding--;
    if (slot.fn)
        slot.fn(slot.ctx, &r);
    unsigned weight = reads_weight(&t->ops[i]);
    if (weight)
        reads_ended(b, weight);
    if (t->left == 0)
        batch_give(t);
    broker_maybe_closed(b);
}

static void reply_cb(void *ctx, const struct reply *reply)
{
    deliver(ctx, reply);
}

/* Replies without the backend. */
static void answer_all(struct broker_batch *t, enum outcome outcome, const char *note)
{
    size_t count = t->count;
    t->left = count;
    for (size_t i = 0; i < count; i++) {
        struct reply r = {.kind = t->ops[i].kind, .outcome = outcome, .tag = i, .note = note};
        reply_guard(&r);
        deliver(t, &r);
    }
}

/* ---- one iteration ---- */

void broker_submit_open(struct broker *b)
{
    struct broker_batch *t = b->open;
    if (!t)
        return;
    b->open = NULL;
    if (t->count == 0) { /* everything was refused */
        batch_give(t);
        return;
    }
    t->left = t->count;
    b->batches++;
    b->ops += t->count;
    int err = backend_submit(b->config.backend, t->ops, t->count, reply_cb, t);
    if (err)
        answer_all(t, OUT_UNAVAILABLE, err_text(err));
}

static void prepare_cb(uv_prepare_t *handle)
{
    struct broker *b = handle->data;
    struct broker_batch *refused = b->refused;
    b->refused = NULL;
    uv_idle_stop(&b->idle);
    if (b->listeners.fresh) {
        b->listeners.fresh = false;
        listeners_news(b);
    }
    broker_submit_open(b);
    if (refused)
        answer_all(refused, OUT_UNAVAILABLE,
                   "the server is shutting down and does not accept new jobs");
}

static void idle_cb(uv_idle_t *handle)
{
    (void)handle;
}

static bool refuse_new(const struct broker *b, const struct op *op)
{
    return b->draining && (op->kind == OP_ENQUEUE ||
                           (op->kind == OP_KV_COMMIT && op->kv_commit.enqueue_count > 0));
}

void broker_wake(struct broker *b)
{
    if (!uv_is_active((uv_handle_t *)&b->idle))
        uv_idle_start(&b->idle, idle_cb);
}

/* Makes room in the batch of this iteration, and makes sure that the iteration ends. */
static int collect(struct broker *b, struct broker_batch **which, size_t count)
{
    if (!*which)
        *which = batch_take(b);
    if (!*which || batch_reserve(*which, count) != 0)
        return -ERR_NOMEM;
    broker_wake(b);
    return 0;
}

int broker_collect(struct broker *b, const struct op *op, broker_reply_fn fn, void *ctx)
{
    int err = collect(b, &b->open, 1);
    if (!err)
        batch_add(b->open, op, fn, ctx);
    return err;
}

int broker_submit(struct broker *b, const struct op *ops, size_t count, broker_reply_fn fn,
                  void *ctx)
{
    if (uv_is_closing((uv_handle_t *)&b->prepare))
        return -ERR_CLOSED;
    if (count == 0)
        return 0;
    if (count == 1 && reads_must_wait(b, ops)) {
        int err = reads_wait(b, ops, fn, ctx);
        b->outstanding += err == 0;
        return err;
    }
    bool refuse = false;
    for (size_t i = 0; i < count; i++)
        refuse = refuse || refuse_new(b, &ops[i]);
    if (collect(b, &b->open, count) != 0 || (refuse && collect(b, &b->refused, count) != 0))
        return -ERR_NOMEM;
    for (size_t i = 0; i < count; i++)
        batch_add(refuse_new(b, &ops[i]) ? b->refused : b->open, &ops[i], fn, ctx);
    b->outstanding += count;
    return 0;
}

/* ---- new events ---- */

static void news_cb(void *ctx)
{
    struct broker *b = ctx;
    streams_news(b);
    heartbeats_news(b);
    listeners_news(b);
}

void broker_want_news(struct broker *b)
{
    bool want = b->streams.count > 0 || b->listeners.count > 0 || b->heartbeats.count > 0;
    backend_on_news(b->config.backend, want ? news_cb : NULL, b);
}

/* ---- open and close ---- */

static void handles_init(struct broker *b)
{
    uv_loop_t *loop = b->config.loop;
    /* These cannot fail: they only initialise memory. */
    CHECK(uv_prepare_init(loop, &b->prepare) == 0 && uv_idle_init(loop, &b->idle) == 0);
    CHECK(uv_timer_init(loop, &b->retry_timer) == 0 && uv_timer_init(loop, &b->claims.timer) == 0);
    CHECK(uv_timer_init(loop, &b->workers.timer) == 0 &&
          uv_timer_init(loop, &b->heartbeats.timer) == 0);
    b->workers.timer.data = b->heartbeats.timer.data = b;
    b->prepare.data = b->idle.data = b->retry_timer.data = b->claims.timer.data = b;
    schedules_handles(b);
    b->open_handles = 9;
    uv_prepare_start(&b->prepare, prepare_cb);
}

int broker_open(const struct broker_config *config, struct broker **ret)
{
    CHECK(config->loop && config->backend && config->clock.read);
    struct broker *b = mem_zalloc(sizeof(*b));
    if (!b)
        return -ERR_NOMEM;
    b->config = *config;
    if (!b->config.labels) {
        b->config.labels = default_labels;
        b->config.label_count = sizeof(default_labels) / sizeof(default_labels[0]);
    }
    if (!b->config.silent_ms)
        b->config.silent_ms = 60000;
    int err = random_bytes(&b->hash_key, sizeof(b->hash_key));
    if (!err)
        err = claims_init(b);
    if (!err)
        err = schedules_init(b);
    if (err) {
        mem_free(b);
        return err;
    }
    streams_init(b);
    figures_init(b);
    workers_init(b);
    claimed_init(b);
    heartbeats_init(b);
    handles_init(b);
    if (announce_open(b) != 0)
        log_event(config->log, LOG_WARN, "event_logging_disabled",
                  LOG_TEXT("why", "out of memory"));
    if (config->webhooks) {
        if (deliveries_open(b, config->webhooks, &b->deliveries) == 0)
            deliveries_begin(b->deliveries);
        else
            log_event(config->log, LOG_ERROR, "webhook_delivery_disabled",
                      LOG_TEXT("why", "out of memory"));
    }
    *ret = b;
    return 0;
}

static void broker_free(struct broker *b)
{
    claims_done(b);
    streams_done(b);
    figures_done(b);
    workers_done(b);
    claimed_done(b);
    heartbeats_done(b);
    schedules_done(b);
    retries_free(b);
    while (b->spare) {
        struct broker_batch *t = b->spare;
        b->spare = t->next;
        batch_free(t);
    }
    mem_free(b);
}

static void handle_closed_cb(uv_handle_t *handle)
{
    struct broker *b = handle->data;
    if (--b->open_handles > 0)
        return;
    void (*fn)(void *ctx) = b->closed_fn;
    void *ctx = b->closed_ctx;
    broker_free(b);
    fn(ctx);
}

void broker_maybe_closed(struct broker *b)
{
    bool busy = b->outstanding > 0 || b->claims.count > 0 || b->streams.count > 0 || b->retries ||
                b->deliveries || b->schedules.settling;
    if (!b->closing || busy || uv_is_closing((uv_handle_t *)&b->prepare))
        return;
    announce_close(b);
    backend_on_news(b->config.backend, NULL, NULL);
    uv_close((uv_handle_t *)&b->prepare, handle_closed_cb);
    uv_close((uv_handle_t *)&b->idle, handle_closed_cb);
    uv_close((uv_handle_t *)&b->retry_timer, handle_closed_cb);
    uv_close((uv_handle_t *)&b->claims.timer, handle_closed_cb);
    uv_close((uv_handle_t *)&b->workers.timer, handle_closed_cb);
    uv_close((uv_handle_t *)&b->heartbeats.timer, handle_closed_cb);
    uv_close((uv_handle_t *)&b->schedules.timer, handle_closed_cb);
    uv_close((uv_handle_t *)&b->schedules.trouble_timer, handle_closed_cb);
    uv_close((uv_handle_t *)&b->schedules.follow_timer, handle_closed_cb);
}

void broker_drain(struct broker *b)
{
    if (b->draining)
        return;
    b->draining = true;
    claims_drain(b);
    streams_drain(b);
    heartbeats_drain(b);
    listeners_drain(b);
    if (b->deliveries)
        deliveries_drain(b->deliveries);
    schedules_drain(b);
}

bool broker_draining(const struct broker *b)
{
    return b->draining;
}

static void deliveries_closed(void *ctx)
{
    struct broker *b = ctx;
    b->deliveries = NULL;
    broker_maybe_closed(b);
}

void broker_close(struct broker *b, void (*fn)(void *ctx), void *ctx)
{
    broker_drain(b);
    b->closing = true;
    b->closed_fn = fn;
    b->closed_ctx = ctx;
    if (b->deliveries)
        deliveries_close(b->deliveries, deliveries_closed, b);
    broker_maybe_closed(b);
}

/* ---- simple queries ---- */

void broker_figures(const struct broker *b, struct broker_figures *ret)
{
    *ret = (struct broker_figures){
        .waiting = b->claims.parked,
        .streams = b->streams.count,
        .listeners = b->listeners.count - (b->announcer != NULL),
        .heartbeats = b->heartbeats.count,
        .workers = b->workers.count,
        .batches = b->batches,
        .ops = b->ops,
        .draining = b->draining,
    };
    if (b->deliveries)
        deliveries_figures(b->deliveries, ret);
}

void broker_cluster(const struct broker *b, struct backend_cluster *ret)
{
    backend_cluster(b->config.backend, ret);
}

bool broker_store(const struct broker *b, unsigned index, struct backend_store *ret)
{
    return backend_store(b->config.backend, index, ret);
}

bool broker_answers(const struct broker *b)
{
    return backend_answers(b->config.backend);
}

void broker_backend_figures(const struct broker *b, struct backend_figures *ret)
{
    backend_figures(b->config.backend, ret);
}

static int refuse_draining(struct err_note *note)
{
    return err_note_set(note, -ERR_CLOSED, "the server is shutting down; try again soon");
}

int broker_backup(struct broker *b, const struct backup_request *request, struct err_note *note)
{
    return b->draining ? refuse_draining(note) : backend_backup(b->config.backend, request, note);
}

void broker_backup_cancel(struct broker *b)
{
    backend_backup_cancel(b->config.backend);
}

int broker_compact(struct broker *b, const struct compact_request *request, struct err_note *note)
{
    return b->draining ? refuse_draining(note) : backend_compact(b->config.backend, request, note);
}

void broker_compact_cancel(struct broker *b)
{
    backend_compact_cancel(b->config.backend);
}

const char *broker_webhook_refused(const struct broker *b, struct span url)
{
    struct webhook_url parsed;
    struct ip_address address;
    if (!b->config.webhooks || webhook_url_parse(url, &parsed, NULL) != 0 || !parsed.literal ||
        ip_parse(parsed.host, &address) != 0)
        return NULL;
    return webhook_refused(&b->config.webhooks->policy, parsed.host, &address);
}

struct breaker_rules broker_breaker_rules(const struct broker *b)
{
    static const struct breaker_rules defaults = {
        .failure_threshold = 5, .open_cooldown_seconds = 30, .half_open_probe_count = 1};
    return b->config.webhooks ? b->config.webhooks->breaker : defaults;
}

unsigned broker_caps(const struct broker *b)
{
    return backend_caps(b->config.backend);
}

const char *broker_backend_kind(const struct broker *b)
{
    return backend_kind(b->config.backend);
}

/* Each of the stores that are in Redis must answer. */
static bool redis_stores(const struct broker *b, bool *ret_up)
{
    struct backend_store s;
    bool used = false;
    *ret_up = true;
    for (unsigned i = 0; backend_store(b->config.backend, i, &s); i++) {
        if (s.cluster.server != SERVER_REDIS)
            continue;
        used = true;
        *ret_up = *ret_up && s.cluster.up;
    }
    return used;
}

bool broker_uses_redis(const struct broker *b, bool *ret_up)
{
    struct backend_figures f;
    backend_figures(b->config.backend, &f);
    *ret_up = f.has_spool ? f.primary_up : f.dispatch_up[0] && f.dispatch_up[1];
    return f.has_spool || f.dispatches || redis_stores(b, ret_up);
}

bool broker_labels_find(const struct broker_label *labels, size_t count, struct span name,
                        int64_t *ret)
{
    if (!labels) {
        labels = default_labels;
        count = sizeof(default_labels) / sizeof(default_labels[0]);
    }
    for (size_t i = 0; i < count; i++) {
        if (span_equal(name, span_text(labels[i].name))) {
            *ret = labels[i].priority;
            return true;
        }
    }
    return false;
}

bool broker_label_find(const struct broker *b, struct span name, int64_t *ret)
{
    return broker_labels_find(b->config.labels, b->config.label_count, name, ret);
}

const struct broker_label *broker_label_at(const struct broker *b, size_t i)
{
    return i < b->config.label_count ? &b->config.labels[i] : NULL;
}

struct now broker_now(const struct broker *b)
{
    struct now now = clock_now(&b->config.clock);
    now.wall.ms += backend_clock_offset(b->config.backend);
    return now;
}

bool broker_has_test_clock(const struct broker *b)
{
    return b->config.test_clock != NULL;
}
