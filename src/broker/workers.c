/* SPDX-License-Identifier: Apache-2.0 */
/* The registry of workers: their names, when each last made a request, and what it did.
 *
 * A worker is identified by the name that it gives in claims and heartbeats. This node remembers
 * the workers whose requests it got, at most NAMES_MAX: then the one that was silent longest is
 * removed. An entry stays for an hour after the last request and after the end of the last lease.
 * Nodes that share a store write their entries there, too (OP_REGISTRY): entries that have changed
 * are written once a second, and a list merges the entries of all nodes. With an embedded store the
 * registry lasts as long as the process; the backend always says which leases a worker holds, so
 * that this is right after a restart. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "broker/broker_impl.h"
#include "core/limits.h"
#include "core/records/wire.h"

#define NAMES_MAX 10000
#define KEEP_MS (INT64_C(3600) * 1000)
#define FLUSH_MS 1000
#define FLUSH_AGAIN_MS 5000 /* after the store did not reply */

/* ---- the entries of this node ---- */

static void list_unlink(struct workers *ws, struct worker *w)
{
    *(w->prev ? &w->prev->next : &ws->first) = w->next;
    *(w->next ? &w->next->prev : &ws->last) = w->prev;
    w->prev = w->next = NULL;
}

static void list_first(struct workers *ws, struct worker *w)
{
    w->next = ws->first;
    *(ws->first ? &ws->first->prev : &ws->last) = w;
    ws->first = w;
}

static void worker_free(struct workers *ws, struct worker *w)
{
    list_unlink(ws, w);
    map128_drop(&ws->by_name, w->key);
    ws->count--;
    mem_free(w);
}

static struct worker *worker_find(const struct broker *b, struct span name)
{
    return (struct worker *)(uintptr_t)map128_get(&b->workers.by_name,
                                                  hash128_of(b->hash_key, name));
}

static struct worker *worker_add(struct broker *b, struct span name)
{
    struct workers *ws = &b->workers;
    if (ws->count >= NAMES_MAX)
        worker_free(ws, ws->last);
    struct worker *w = mem_zalloc(sizeof(*w) + name.len);
    if (!w)
        return NULL;
    w->key = hash128_of(b->hash_key, name);
    if (map128_put(&ws->by_name, w->key, (uintptr_t)w) != 0) {
        mem_free(w);
        return NULL;
    }
    memcpy(w + 1, name.at, name.len);
    w->public.name = span_of(w + 1, name.len);
    list_first(ws, w);
    ws->count++;
    return w;
}

static void flush_cb(uv_timer_t *timer);

void workers_write_later(struct broker *b)
{
    if ((backend_caps(b->config.backend) & CAP_SHARED) && !b->workers.flushing && !b->closing &&
        !uv_is_active((const uv_handle_t *)&b->workers.timer))
        uv_timer_start(&b->workers.timer, flush_cb, FLUSH_MS, 0);
}

static void changed(struct broker *b, struct worker *w)
{
    w->changed = true;
    workers_write_later(b);
}

/* A request of this worker. */
static struct worker *worker_seen(struct broker *b, struct span name)
{
    if (!name.len || name.len > LIMIT_WORKER_BYTES)
        return NULL;
    struct worker *w = worker_find(b, name);
    if (w) {
        list_unlink(&b->workers, w);
        list_first(&b->workers, w);
    } else {
        w = worker_add(b, name);
    }
    if (!w)
        return NULL;
    w->public.last_seen = broker_now(b).wall;
    w->public.stopped = false;
    changed(b, w);
    return w;
}

static bool about_lease(enum op_kind kind)
{
    return kind == OP_ACK || kind == OP_FAIL || kind == OP_EXTEND || kind == OP_RELEASE ||
           kind == OP_PROGRESS || kind == OP_LOG || kind == OP_STEP;
}

/* When the longest of its leases ends, if no further request comes. */
static void holds_for(struct broker *b, struct worker *w, uint32_t lease_ms)
{
    int64_t until = broker_now(b).wall.ms + lease_ms;
    if (until > w->public.held_until.ms)
        w->public.held_until.ms = until;
}

void workers_observe(struct broker *b, const struct op *op, const struct reply *r)
{
    if (r->outcome != OUT_OK)
        return;
    struct worker *w = NULL;
    if (op->kind == OP_CLAIM)
        w = worker_seen(b, op->claim.worker);
    else if (about_lease(op->kind))
        w = worker_seen(b, r->worker);
    if (!w || r->repeat)
        return;
    w->public.claimed += op->kind == OP_CLAIM ? r->job_count : 0;
    w->public.done += op->kind == OP_ACK;
    w->public.failed += op->kind == OP_FAIL;
    w->public.released += op->kind == OP_RELEASE;
    for (uint32_t i = 0; op->kind == OP_CLAIM && i < r->job_count; i++)
        holds_for(b, w, r->jobs[i].lease_ms);
    if (op->kind == OP_EXTEND || op->kind == OP_PROGRESS)
        holds_for(b, w, op->lease.lease_ms);
}

void workers_wait_begun(struct broker *b, struct span name, uint32_t wait_ms)
{
    struct worker *w = wait_ms ? worker_seen(b, name) : NULL;
    if (w)
        w->public.waits_until.ms = broker_now(b).wall.ms + wait_ms;
}

void workers_wait_ended(struct broker *b, struct span name)
{
    struct worker *w = name.len ? worker_find(b, name) : NULL;
    if (!w || w->public.waits_until.ms == 0)
        return;
    w->public.waits_until.ms = 0;
    w->public.last_seen = broker_now(b).wall;
    changed(b, w);
}

static struct span text_fill(char *room, size_t size, struct span text)
{
    size_t len = text.len < size ? text.len : size;
    if (len)
        memcpy(room, text.at, len);
    return span_of(room, len);
}

void workers_heard(struct broker *b, const struct broker_heartbeat_in *in)
{
    struct worker *w = worker_seen(b, in->worker);
    if (!w)
        return;
    w->public.host = text_fill(w->host, sizeof w->host, in->host);
    w->public.version = text_fill(w->version, sizeof w->version, in->version);
    w->public.pid = in->pid;
    w->public.stopped = in->stopping;
    w->public.told = w->public.told || in->has_done || in->has_failed;
    if (in->has_done)
        w->public.told_done = in->done;
    if (in->has_failed)
        w->public.told_failed = in->failed;
    w->public.waits_until.ms = in->wait_ms ? broker_now(b).wall.ms + in->wait_ms : 0;
}

/* ---- entries that nodes exchange ---- */

static uint8_t *facts_encode(const struct broker *b, const struct broker_worker *w, uint8_t *at)
{
    at = put_varint(at, b->workers.epoch);
    at = put_wall(at, w->last_seen);
    at = put_wall(at, w->held_until);
    at = put_wall(at, w->waits_until);
    at = put_varint(at, w->claimed);
    at = put_varint(at, w->done);
    at = put_varint(at, w->failed);
    at = put_varint(at, w->released);
    at = put_u8(at, (uint8_t)(w->stopped | w->told << 1));
    at = put_varint(at, w->told_done);
    at = put_varint(at, w->told_failed);
    at = put_varint(at, w->pid);
    at = put_span(at, w->host);
    return put_span(at, w->version);
}

struct span registry_name(struct arena *a, char about, struct span name)
{
    char *at = arena_alloc(a, name.len + 1);
    if (!at)
        return span_of(NULL, 0);
    at[0] = about;
    memcpy(at + 1, name.at, name.len);
    return span_of(at, name.len + 1);
}

/* False: an entry of this node, or not readable. Texts point into the entry. */
static bool facts_decode(const struct broker *b, const struct worker_entry *e,
                         struct broker_worker *ret)
{
    struct wire_in in = {e->facts, false};
    uint32_t epoch = take_u32(&in);
    struct span name = span_of(e->name.at + 1, e->name.len - 1);
    *ret = (struct broker_worker){.name = name, .last_seen = take_wall(&in)};
    ret->held_until = take_wall(&in);
    ret->waits_until = take_wall(&in);
    ret->claimed = take_varint(&in);
    ret->done = take_varint(&in);
    ret->failed = take_varint(&in);
    ret->released = take_varint(&in);
    uint8_t bits = take_u8(&in);
    ret->stopped = bits & 1;
    ret->told = bits & 2;
    ret->told_done = take_varint(&in);
    ret->told_failed = take_varint(&in);
    ret->pid = take_u32(&in);
    ret->host = take_text(&in, WORKER_HOST_BYTES);
    ret->version = take_text(&in, WORKER_VERSION_BYTES);
    return wire_ended(&in) && epoch != b->workers.epoch;
}

static struct wall_time keep_until(const struct broker_worker *w)
{
    int64_t last = w->last_seen.ms > w->held_until.ms ? w->last_seen.ms : w->held_until.ms;
    last = w->waits_until.ms > last ? w->waits_until.ms : last;
    last += KEEP_MS;
    return (struct wall_time){last < LIMIT_WALL_MS ? last : LIMIT_WALL_MS};
}

struct flush {
    struct broker *broker;
    struct arena arena;
    struct worker_entry *entries;
    struct op op;
};

static void flush_free(struct flush *f)
{
    arena_done(&f->arena);
    mem_free(f);
}

static void flushed_cb(void *ctx, const struct reply *r)
{
    struct flush *f = ctx;
    struct broker *b = f->broker;
    bool failed = r->outcome != OUT_OK, more = failed;
    b->workers.flushing = false;
    for (struct worker *w = b->workers.first; w; w = w->next) {
        w->changed |= failed;
        more |= w->changed;
    }
    if (failed)
        claimed_lost(b);
    more = more || claimed_unwritten(b);
    if (more && !b->closing)
        uv_timer_start(&b->workers.timer, flush_cb, failed ? FLUSH_AGAIN_MS : FLUSH_MS, 0);
    flush_free(f);
}

/* Collects the entries that have changed; those for which there is no room wait for the next
 * time. */
static uint32_t flush_gather(struct broker *b, struct flush *f)
{
    uint32_t n = 0;
    f->entries = arena_array(&f->arena, LIMIT_BATCH, sizeof *f->entries);
    for (struct worker *w = b->workers.first; f->entries && w && n < LIMIT_BATCH; w = w->next) {
        uint8_t *facts = w->changed ? arena_alloc(&f->arena, LIMIT_WORKER_FACTS_BYTES) : NULL;
        struct span name =
            facts ? registry_name(&f->arena, REGISTRY_WORKER, w->public.name) : SPAN_LITERAL("");
        if (!name.len)
            continue;
        uint8_t *end = facts_encode(b, &w->public, facts);
        f->entries[n++] = (struct worker_entry){.name = name,
                                                .keep_until = keep_until(&w->public),
                                                .facts = span_of(facts, (size_t)(end - facts))};
        w->changed = false;
    }
    return f->entries ? n + claimed_gather(b, &f->arena, f->entries + n, LIMIT_BATCH - n) : 0;
}

static void flush_cb(uv_timer_t *timer)
{
    struct broker *b = timer->data;
    struct flush *f = b->closing ? NULL : mem_zalloc(sizeof *f);
    if (!f) {
        if (!b->closing)
            uv_timer_start(&b->workers.timer, flush_cb, FLUSH_AGAIN_MS, 0);
        return;
    }
    f->broker = b;
    arena_init(&f->arena);
    uint32_t n = flush_gather(b, f);
    f->op = (struct op){.kind = OP_REGISTRY, .registry = {.entries = f->entries, .count = n}};
    b->workers.flushing = n > 0 && broker_submit(b, &f->op, 1, flushed_cb, f) == 0;
    if (b->workers.flushing)
        return;
    flush_free(f);
    if (claimed_unwritten(b)) /* written a short time ago */
        uv_timer_start(&b->workers.timer, flush_cb, FLUSH_MS, 0);
}

/* ---- open and close ---- */

void workers_init(struct broker *b)
{
    struct backend_figures f;
    backend_figures(b->config.backend, &f);
    map128_init(&b->workers.by_name);
    b->workers.since = broker_now(b).wall;
    b->workers.epoch = f.epoch;
}

void workers_done(struct broker *b)
{
    while (b->workers.first)
        worker_free(&b->workers, b->workers.first);
    map128_done(&b->workers.by_name);
}

/* ---- the list ---- */

struct workers_call {
    struct broker *broker;
    broker_workers_fn fn;
    void *ctx;
    struct arena arena;
    struct broker_worker *others; /* entries of other nodes */
    size_t other_count;
};

static void call_end(struct workers_call *call, const struct broker_worker *list, size_t count,
                     int error)
{
    call->fn(call->ctx, list, count, error);
    arena_done(&call->arena);
    mem_free(call);
}

static int names_order(struct span a, struct span b)
{
    size_t len = a.len < b.len ? a.len : b.len;
    int order = len ? memcmp(a.at, b.at, len) : 0;
    return order ? order : (a.len > b.len) - (a.len < b.len);
}

/* By name; entries of one name newest first. */
static int by_name(const void *x, const void *y)
{
    const struct broker_worker *a = x, *b = y;
    int order = names_order(a->name, b->name);
    return order ? order
                 : (a->last_seen.ms < b->last_seen.ms) - (a->last_seen.ms > b->last_seen.ms);
}

/* After a restart a worker that holds a job gets the whole time to make a request. */
static enum broker_worker_state state_of(const struct broker *b, const struct broker_worker *w)
{
    int64_t seen = w->last_seen.ms ? w->last_seen.ms : b->workers.since.ms;
    seen = w->waits_until.ms > seen ? w->waits_until.ms : seen;
    if (w->stopped)
        return WORKER_STOPPED;
    return broker_now(b).wall.ms - seen > b->config.silent_ms ? WORKER_SILENT : WORKER_ACTIVE;
}

/* Merges what another node, or the backend, knows about the same worker. */
static void merge_into(struct broker_worker *to, const struct broker_worker *from)
{
    to->claimed += from->claimed;
    to->done += from->done;
    to->failed += from->failed;
    to->released += from->released;
    to->running += from->running;
    if (from->held_until.ms > to->held_until.ms)
        to->held_until = from->held_until;
    if (from->held_count) {
        memcpy(to->held, from->held, sizeof to->held);
        to->held_count = from->held_count;
    }
    if (from->told && !to->told) {
        to->told = true;
        to->told_done = from->told_done;
        to->told_failed = from->told_failed;
    }
    if (!to->host.len) {
        to->host = from->host;
        to->pid = from->pid;
    }
    to->version = to->version.len ? to->version : from->version;
}

static size_t fold_all(struct broker *b, struct broker_worker *all, size_t count)
{
    size_t n = 0, kept = 0;
    qsort(all, count, sizeof *all, by_name);
    for (size_t i = 0; i < count; i++) {
        if (n > 0 && span_equal(all[n - 1].name, all[i].name))
            merge_into(&all[n - 1], &all[i]);
        else
            all[n++] = all[i];
    }
    for (size_t i = 0; i < n; i++) {
        if (!all[i].running && keep_until(&all[i]).ms <= broker_now(b).wall.ms)
            continue;
        all[i].state = state_of(b, &all[i]);
        all[kept++] = all[i];
    }
    return kept < NAMES_MAX ? kept : NAMES_MAX;
}

static struct broker_worker holder_of(const struct worker_view *v)
{
    struct broker_worker w = {.name = v->name, .running = v->running, .held_count = v->held_count};
    memcpy(w.held, v->held, sizeof w.held);
    return w;
}

/* Removes entries whose time is over; they are at the end of the list. */
static void forget_old(struct broker *b)
{
    struct workers *ws = &b->workers;
    while (ws->last && keep_until(&ws->last->public).ms <= broker_now(b).wall.ms)
        worker_free(ws, ws->last);
}

static void holders_cb(void *ctx, const struct reply *r)
{
    struct workers_call *call = ctx;
    struct broker *b = call->broker;
    if (r->outcome != OUT_OK) {
        call_end(call, NULL, 0, -ERR_IO);
        return;
    }
    forget_old(b);
    size_t n = 0, room = r->worker_count + b->workers.count + call->other_count + 1;
    struct broker_worker *all = arena_array(&call->arena, room, sizeof *all);
    if (!all) {
        call_end(call, NULL, 0, -ERR_NOMEM);
        return;
    }
    for (const struct worker *w = b->workers.first; w; w = w->next)
        all[n++] = w->public;
    for (size_t i = 0; i < call->other_count; i++)
        all[n++] = call->others[i];
    for (uint32_t i = 0; i < r->worker_count; i++)
        all[n++] = holder_of(&r->workers[i]);
    call_end(call, all, fold_all(b, all, n), 0);
}

static struct span text_keep(struct arena *a, struct span s)
{
    const char *copy = s.len ? arena_copy(a, s.at, s.len) : NULL;
    return span_of(copy, copy ? s.len : 0);
}

static int ask_holders(struct workers_call *call)
{
    struct op op = {.kind = OP_WORKERS};
    return broker_submit(call->broker, &op, 1, holders_cb, call);
}

/* While the store does not answer, the list shows what this node knows. */
static void registry_cb(void *ctx, const struct reply *r)
{
    struct workers_call *call = ctx;
    call->others = arena_array(&call->arena, r->entry_count + 1, sizeof *call->others);
    for (uint32_t i = 0; call->others && i < r->entry_count; i++) {
        struct broker_worker *w = &call->others[call->other_count];
        if (!facts_decode(call->broker, &r->entries[i], w))
            continue;
        w->name = text_keep(&call->arena, w->name);
        w->host = text_keep(&call->arena, w->host);
        w->version = text_keep(&call->arena, w->version);
        call->other_count += w->name.len > 0;
    }
    int err = ask_holders(call);
    if (err)
        call_end(call, NULL, 0, err);
}

int broker_workers(struct broker *b, broker_workers_fn fn, void *ctx)
{
    struct workers_call *call = mem_zalloc(sizeof(*call));
    if (!call)
        return -ERR_NOMEM;
    call->broker = b;
    call->fn = fn;
    call->ctx = ctx;
    arena_init(&call->arena);
    static const char about[] = {REGISTRY_WORKER};
    struct op op = {.kind = OP_REGISTRY, .registry = {.prefix = span_of(about, sizeof about)}};
    bool shared = backend_caps(b->config.backend) & CAP_SHARED;
    int err = shared ? broker_submit(b, &op, 1, registry_cb, call) : ask_holders(call);
    if (err)
        mem_free(call);
    return err;
}

void broker_set_silent_ms(struct broker *b, uint32_t silent_ms)
{
    b->config.silent_ms = silent_ms;
}
