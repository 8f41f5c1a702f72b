/* SPDX-License-Identifier: Apache-2.0 */
/* The pipeline: which items are in progress, what the write connection does next, and what happens
 * when it is lost.
 *
 * An item is a unit, a set of quick queries, a search, a tick, a slice of a bulk action or a
 * heartbeat. At most PIPELINE_ITEMS are in progress. The second item sends its first call when the
 * last call of the first one was sent (STAGE_LAST); Redis executes them in this order, so the
 * second sees what the first has stored. If the first has to begin again, because another node
 * stored something in between, what the second has loaded is stale and it begins again, too.
 *
 * The next item is, in this order: a heartbeat that is due, the work of the leader that is due, and
 * then, alternately, a slice of the work list of dependencies, a slice of a bulk action and the
 * oldest operations of clients. Operations are
 * taken in the order in which they were submitted; consecutive ones of one class form one item. */
#include "backend/redis/impl.h"

#define VIEWS_MAX 64 /* queries of one item */

void rd_args_now(const struct rd_store *s, struct rargs *a)
{
    if (s->sh.config.clock.manual)
        redis_args_int(a, shared_manual_now(&s->sh));
    else
        redis_args_text(a, "");
}

/* --- what to do next --- */

static bool line_has(const struct rd_store *s, enum item_kind kind)
{
    for (size_t i = 0; i < s->line_count; i++)
        if (s->line[i]->kind == kind)
            return true;
    return false;
}

/* Slices of bulk actions and operations of clients alternate. */
static bool bulk_turn(struct rd_store *s)
{
    s->bulk_turn_last =
        s->sh.bulks && !line_has(s, ITEM_BULK) && (!s->sh.first || !s->bulk_turn_last);
    return s->bulk_turn_last;
}

/* The same for slices of the work list of dependencies. */
static bool dependencies_turn(struct rd_store *s)
{
    s->dependency_last = rd_dependencies_due(s) && !line_has(s, ITEM_DEPENDENCIES) &&
                         (!s->sh.first || !s->dependency_last);
    return s->dependency_last;
}

static bool choose(struct rd_store *s, enum item_kind *ret)
{
    const struct op *op = shared_front(&s->sh);
    if (s->sh.closing && !s->sh.first && !s->sh.bulks)
        return false;
    if (shared_heartbeat_due(&s->sh) && !line_has(s, ITEM_HEARTBEAT))
        *ret = ITEM_HEARTBEAT;
    else if (shared_tick_due(&s->sh) && !line_has(s, ITEM_TICK))
        *ret = ITEM_TICK;
    else if (dependencies_turn(s))
        *ret = ITEM_DEPENDENCIES;
    else if (bulk_turn(s))
        *ret = ITEM_BULK;
    else if (!op)
        return false;
    else if (shared_class(op) == CLASS_LOOK)
        *ret = ITEM_VIEW;
    else
        *ret = shared_class(op) == CLASS_SEARCH ? ITEM_SEARCH : ITEM_UNIT;
    return true;
}

/* False: there is nothing to do, or no memory for it. */
static bool line_add(struct rd_store *s)
{
    enum item_kind kind;
    if (!choose(s, &kind))
        return false;
    struct item *it = rd_item_take(s);
    if (!it)
        return false;
    it->kind = kind;
    it->stage = STAGE_WAIT;
    if (kind == ITEM_UNIT)
        shared_gather(&it->unit, shared_class(shared_front(&s->sh)), UNIT_OPS_MAX);
    else if (kind == ITEM_VIEW)
        shared_gather(&it->unit, CLASS_LOOK, VIEWS_MAX);
    else if (kind == ITEM_SEARCH)
        shared_turn_add(&it->unit);
    s->line[s->line_count++] = it;
    return true;
}

/* A node that tries again, or waits for another node, must not seem dead meanwhile, nor lose its
 * lease as the leader. */
static void heartbeat_first(struct rd_store *s)
{
    if (s->line_count == 0 || s->line[0]->stage != STAGE_WAIT || !shared_heartbeat_due(&s->sh) ||
        line_has(s, ITEM_HEARTBEAT))
        return;
    struct item *it = rd_item_take(s);
    if (!it)
        return;
    it->kind = ITEM_HEARTBEAT;
    it->stage = STAGE_WAIT;
    for (size_t i = s->line_count++; i > 0; i--)
        s->line[i] = s->line[i - 1];
    s->line[0] = it;
}

/* Starts the item that may send next: one that waits, if no item before it will send again. */
void rd_pipeline_wake(struct rd_store *s)
{
    if (!s->ready || !redis_conn_open_now(s->pipeline))
        return;
    heartbeat_first(s);
    for (size_t i = 0; i < PIPELINE_ITEMS; i++) {
        if (i > 0 && s->line[i - 1]->stage != STAGE_LAST)
            return;
        if (i == s->line_count && !line_add(s))
            return;
        if (s->line[i]->stage == STAGE_WAIT && !s->line[i]->stale)
            rd_item_begin(s->line[i]);
        if (i >= s->line_count)
            return;
    }
}

/* --- the connection --- */

static bool hopeless(const struct rd_store *s)
{
    return !redis_conn_open_now(s->pipeline) && (s->ready_once || redis_conn_down(s->pipeline));
}

static void refuse_waiting(struct rd_store *s)
{
    struct item *it = s->sh.first ? rd_item_take(s) : NULL;
    while (it && s->sh.first) {
        it->unit.count = 0;
        shared_turn_add(&it->unit);
        unit_turns_refuse(&it->unit, OUT_UNAVAILABLE, REDIS_GONE);
    }
    if (it)
        rd_item_give(s, it);
    shared_bulks_answer(&s->sh);
}

/* Ends items that could not begin, or wait for another attempt. */
static void give_up_line(struct rd_store *s)
{
    while (s->line_count) {
        struct item *it = s->line[s->line_count - 1];
        rd_item_give_up(it, OUT_UNAVAILABLE, REDIS_GONE);
    }
}

/* Called by the loop, so replies may be sent. */
void rd_later_cb(uv_timer_t *timer)
{
    struct rd_store *s = timer->data;
    if (hopeless(s)) {
        give_up_line(s);
        refuse_waiting(s);
    }
    rd_pipeline_wake(s);
    rd_pipeline_after(s);
    rd_timer_set(s);
}

/* After leaving, the same timer closes everything: nothing may be sent in between. */
void rd_pipeline_later(struct rd_store *s)
{
    if (!s->leaving && !uv_is_closing((uv_handle_t *)&s->later))
        uv_timer_start(&s->later, rd_later_cb, 0, 0);
}

static void tell_down(struct rd_store *s, const char *why)
{
    if (!s->lost_logged)
        log_event(s->sh.config.log, LOG_ERROR, "redis_lost", LOG_TEXT("why", why),
                  LOG_TEXT("note", "Redis cannot be used; trying again"));
    s->lost_logged = true;
}

void rd_pipeline_lost_cb(void *ctx, const char *why)
{
    struct rd_store *s = ctx;
    tell_down(s, why);
    shared_store_lost(&s->sh, why);
    shared_leader_lost(&s->sh, false);
    s->ready = s->handshaking = false;
    rd_pipeline_later(s);
}

/* --- handshakes --- */

/* The state that this node remembers belongs to lost data. */
static void data_lost(struct rd_store *s)
{
    log_event(s->sh.config.log, LOG_ERROR, "redis_data_lost",
              LOG_BOOL("empty", s->handshake.found.created), LOG_INT("stores_known", s->stores),
              LOG_INT("stores_found", s->handshake.found.stores),
              LOG_TEXT("note", "the server has lost data: jobs and "
                               "acknowledgements that were confirmed are missing"));
    queue_cache_free(&s->sh);
    alerts_known_done(&s->sh);
    shared_events_gap(&s->sh); /* the jobs that they describe no longer exist */
    s->stores = 0;
    s->went = false;
    /* Tokens of this boot may have been lost, and must not be issued again. */
    s->handshake.boot = true;
    s->handshake.epoch_least = s->sh.facts.epoch;
}

static void is_ready(struct rd_store *s)
{
    s->server = s->handshake.found;
    s->ready = s->ready_once = true;
    shared_store_opened(&s->sh);
    if (s->handshake.found.stores > s->stores)
        s->stores = s->handshake.found.stores;
    if (s->lost_logged)
        log_event(s->sh.config.log, LOG_INFO, "redis_back", LOG_TEXT("version", s->server.version),
                  LOG_BOOL("durable", s->server.durable));
    s->lost_logged = false;
    s->sh.node.seen_at_ms = 0;
    /* What happened meanwhile is not known. */
    s->contended = true;
    shared_watches_wake(&s->sh, (struct span){NULL, 0});
    rd_pipeline_later(s);
}

static void handshake_cb(void *ctx, int err, const struct err_note *note)
{
    struct rd_store *s = ctx;
    s->handshaking = false;
    if (err) {
        tell_down(s, note->text);
        shared_store_lost(&s->sh, note->text);
        shared_leader_lost(&s->sh, false);
        s->ready = false;
        redis_conn_drop(s->pipeline);
        rd_pipeline_later(s);
        return;
    }
    s->handshake.boot = false;
    if (s->went || (s->stores && s->handshake.found.stores < s->stores)) {
        data_lost(s);
        rd_pipeline_handshake(s);
        return;
    }
    is_ready(s);
}

void rd_pipeline_handshake(struct rd_store *s)
{
    if (s->handshaking)
        return;
    s->ready = false;
    s->handshaking = true;
    s->handshake.conn = s->pipeline;
    redis_handshake(&s->handshake, handshake_cb, s);
}

/* The number of stores never decreases, and replies come in their order. */
bool rd_data_went(struct rd_store *s, const char *stores)
{
    if (strtoull(stores, NULL, 10) >= s->stores)
        return false;
    s->went = true;
    shared_leader_lost(&s->sh, false);
    rd_pipeline_handshake(s);
    return true;
}

void rd_pipeline_opened_cb(void *ctx)
{
    rd_pipeline_handshake(ctx);
}
