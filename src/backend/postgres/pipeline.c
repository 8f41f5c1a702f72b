/* SPDX-License-Identifier: Apache-2.0 */
/* The pipeline: what the write connection does next, and what happens when it is lost.
 *
 * The connection does one piece of work at a time (work_state.h). When it is idle it takes, in this
 * order: a heartbeat that is due; a unit that had to wait behind another one (transact.c); the work
 * of the leader that is due; and then, alternately, a slice of the work list of dependencies, a
 * batch of the inbox, a slice of a bulk action and the oldest operations of clients. Operations are
 * taken in the order in which they were submitted. Consecutive operations of one class
 * (shared_class) form one unit: while a unit is in progress the next operations are collected, so
 * that a higher load leads to larger units, not to more round trips.
 *
 * When the connection is lost, the current work ends as pg_lost_outcome says, and waiting
 * operations are refused with OUT_UNAVAILABLE. Replies may be sent only from the loop, never from
 * inside a call of the broker: pg_pipeline_wake therefore sends none, and pg_pipeline_later
 * continues from a timer. */
#include "backend/postgres/impl.h"
#include "base/check.h"

#define VIEWS_MAX 18 /* queries of one round … */
#define VIEW_STATEMENTS_MAX                                                                        \
    5 /* … each with at most this many statements, and the time comes first */
_Static_assert(VIEWS_MAX *VIEW_STATEMENTS_MAX < ROUND_MAX, "they fit in a round");

/* --- what to do next --- */

bool pg_pipeline_idle(const struct pg_store *s)
{
    return work_idle(&s->progress) && !s->next_unit && !s->sh.first && !s->searches && !s->gate;
}

static void begin_view(struct pg_store *s);
static void begin_heartbeat(struct pg_store *s);

/* The next unit had to wait until the outcome of the one before it was known. */
static void begin_next_unit(struct pg_store *s)
{
    pg_unit_give(s, s->unit);
    s->unit = s->next_unit;
    s->next_unit = NULL;
    pg_begin_unit(s);
}

/* Slices of bulk actions and operations of clients alternate. */
static bool bulk_turn(struct pg_store *s)
{
    s->bulk_last = s->sh.bulks && (!s->sh.first || !s->bulk_last);
    return s->bulk_last;
}

void pg_pipeline_wake(struct pg_store *s)
{
    const struct op *op = NULL;
    if (!work_idle(&s->progress) || !pg_conn_usable(s->pipeline))
        return;
    while (!s->next_unit && (op = shared_front(&s->sh)) && shared_class(op) == CLASS_SEARCH)
        pg_search_add(s, op, shared_take_front(&s->sh));
    pg_search_wake(s);
    if (s->sh.closing && !s->sh.first && !s->sh.bulks && !s->next_unit)
        return;
    if (shared_heartbeat_due(&s->sh))
        begin_heartbeat(s);
    else if (!pg_gate_watched(s))
        return; /* without the syncer nothing can be confirmed */
    else if (s->next_unit)
        begin_next_unit(s);
    else if (shared_tick_due(&s->sh))
        pg_begin_tick(s);
    else if (pg_dependencies_turn(s))
        pg_begin_dependencies(s);
    else if (pg_inbox_turn(s))
        pg_begin_inbox(s);
    else if (bulk_turn(s))
        pg_begin_bulk(s);
    else if (op && shared_class(op) == CLASS_LOOK)
        begin_view(s);
    else if (op) {
        shared_gather(s->unit, shared_class(op), UNIT_OPS_MAX);
        pg_begin_unit(s);
    }
}

/* --- heartbeats --- */

static void heartbeat_cb(void *ctx, int err, const struct round_error *error)
{
    struct pg_store *s = ctx;
    (void)error;
    if (!err)
        pg_heartbeat_take(s);
    pg_over(s);
}

static void begin_heartbeat(struct pg_store *s)
{
    pg_unit_reset(s->unit);
    s->unit->count = 0;
    work_begin(&s->progress, WORK_HEARTBEAT);
    shared_heartbeat_begun(&s->sh);
    pg_heartbeat_send(s);
    pg_go(s, heartbeat_cb);
}

/* --- queries --- */

static void viewed_cb(void *ctx, int err, const struct round_error *error)
{
    struct pg_store *s = ctx;
    if (err) {
        unit_turns_refuse(s->unit, OUT_UNAVAILABLE,
                          err == -ERR_IO ? "the database cannot be reached" : pg_sentence(error));
        pg_over(s);
        return;
    }
    pg_read_view_answer(s);
    for (size_t i = 0; i < ROUND_MAX; i++)
        pg_keep_result(s, i);
    if (s->unit->nomem) /* the memory to which the replies point was not allocated */
        pg_give_up(s, OUT_UNAVAILABLE, "out of memory");
    else
        pg_over_with_answers(s);
}

static void begin_view(struct pg_store *s)
{
    shared_gather(s->unit, CLASS_LOOK, VIEWS_MAX);
    pg_unit_reset(s->unit);
    work_begin(&s->progress, WORK_VIEW);
    pg_read_view_send(s);
    pg_go(s, viewed_cb);
}

/* --- lost connections --- */

static void refuse_waiting(struct pg_store *s)
{
    if (s->next_unit) {
        unit_turns_refuse(s->next_unit, OUT_UNAVAILABLE, "the database cannot be reached");
        pg_unit_give(s, s->next_unit);
        s->next_unit = NULL;
    }
    while (s->sh.first) {
        s->unit->count = 0;
        shared_turn_add(s->unit);
        unit_turns_refuse(s->unit, OUT_UNAVAILABLE, "the database cannot be reached");
    }
}

/* Called by the loop, so replies may be sent. */
void pg_later_cb(uv_timer_t *timer)
{
    struct pg_store *s = timer->data;
    if (work_unsent(&s->progress)) {
        pg_pipeline_lost_cb(s);
        pg_give_up(s, pg_lost_outcome(s), "the database cannot be reached");
    }
    bool unwatched = !pg_gate_watched(s) && pg_conn_down(s->syncer);
    if (work_idle(&s->progress) && (!pg_conn_up(s->pipeline) || unwatched)) {
        refuse_waiting(s);
        shared_bulks_answer(&s->sh);
    }
    if (pg_conn_down(s->reader))
        pg_search_fail_all(s);
    if (s->gate && !s->syncing && pg_conn_down(s->syncer))
        pg_gate_break(s);
    pg_pipeline_wake(s);
    pg_pipeline_after(s);
    pg_timer_set(s);
}

void pg_pipeline_later(struct pg_store *s)
{
    if (s->progress.state == WORK_STATE_LEAVING)
        return; /* the timer has been used for the last time */
    if (!uv_is_closing((uv_handle_t *)&s->later))
        uv_timer_start(&s->later, pg_later_cb, 0, 0);
}

void pg_pipeline_lost_cb(void *ctx)
{
    struct pg_store *s = ctx;
    if (!s->lost_logged)
        log_event(s->sh.config.log, LOG_ERROR, "postgres_lost",
                  LOG_TEXT("note", "the database cannot be reached; trying again"));
    s->lost_logged = true;
    shared_store_lost(&s->sh, pg_conn_trouble(s->pipeline));
    shared_leader_lost(&s->sh, false);
    pg_pipeline_later(s);
}

void pg_pipeline_opened_cb(void *ctx)
{
    struct pg_store *s = ctx;
    if (s->lost_logged)
        log_event(s->sh.config.log, LOG_INFO, "postgres_back",
                  LOG_TEXT("note", "connected to the database again"));
    s->lost_logged = false;
    pg_link_heard(s);
    shared_store_opened(&s->sh);
    s->sh.node.seen_at_ms = 0;
    /* What happened meanwhile is not known. */
    shared_watches_wake(&s->sh, (struct span){NULL, 0});
    pg_pipeline_later(s);
}
