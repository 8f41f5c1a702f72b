/* SPDX-License-Identifier: Apache-2.0 */
/* The lane: one thing after the other on one connection.
 *
 * A sign of life when it is time, then a unit that waited behind another, then what time brings,
 * then slices of bulk work between what clients ask for. Operations go in the order they came;
 * those of one class that stand together make one unit. While one is under way the next gathers. */
#include "backend/postgres/impl.h"
#include "base/check.h"

#define VIEWS_MAX 24 /* questions of one round: each is up to two statements */

/* --- what comes next --- */

bool pg_pipeline_idle(const struct pg_store *s)
{
    return work_idle(&s->progress) && !s->next_unit && !s->sh.first && !s->searches && !s->gate;
}

static void begin_view(struct pg_store *s);
static void begin_heartbeat(struct pg_store *s);

/* The unit ahead had to wait: what was before it is settled. */
static void begin_next_unit(struct pg_store *s)
{
    pg_unit_give(s, s->unit);
    s->unit = s->next_unit;
    s->next_unit = NULL;
    pg_begin_unit(s);
}

/* Slices of bulk work and what clients ask for take turns. */
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
    if (shared_beat_due(&s->sh))
        begin_heartbeat(s);
    else if (!pg_gate_watched(s))
        return; /* nobody could say what is on the disk */
    else if (s->next_unit)
        begin_next_unit(s);
    else if (shared_tick_due(&s->sh))
        pg_begin_tick(s);
    else if (bulk_turn(s))
        pg_begin_bulk(s);
    else if (op && shared_class(op) == CLASS_LOOK)
        begin_view(s);
    else if (op) {
        shared_gather(s->unit, shared_class(op), UNIT_OPS_MAX);
        pg_begin_unit(s);
    }
}

/* --- signs of life --- */

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
    shared_beat_begun(&s->sh);
    pg_heartbeat_send(s);
    pg_go(s, heartbeat_cb);
}

/* --- questions --- */

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
    if (s->unit->nomem) /* what the answers point to is not there any more */
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

/* --- connections that break --- */

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

/* From the loop: here answers may be given. */
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
        return; /* the timer has its last errand */
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
    /* Nobody knows what happened meanwhile. */
    shared_watches_wake(&s->sh, (struct span){NULL, 0});
    pg_pipeline_later(s);
}
