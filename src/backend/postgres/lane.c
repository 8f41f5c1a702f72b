/* SPDX-License-Identifier: Apache-2.0 */
/* The lane: one thing after the other on one connection.
 *
 * A sign of life when it is time, then a unit that waited behind another, then what time brings,
 * then slices of bulk work between what clients ask for. Operations go in the order they came;
 * those of one class that stand together make one unit. While one is under way the next gathers. */
#include "backend/postgres/impl.h"
#include "base/check.h"

#define LOOKS_MAX 24 /* questions of one round: each is up to two statements */

/* --- what comes next --- */

bool pg_lane_idle(const struct pg_store *s)
{
    return work_idle(&s->progress) && !s->ahead && !s->sh.first && !s->searches && !s->gate;
}

static void begin_look(struct pg_store *s);
static void begin_beat(struct pg_store *s);

/* The unit ahead had to wait: what was before it is settled. */
static void begin_ahead(struct pg_store *s)
{
    pg_unit_give(s, s->unit);
    s->unit = s->ahead;
    s->ahead = NULL;
    pg_begin_unit(s);
}

/* Slices of bulk work and what clients ask for take turns. */
static bool bulk_turn(struct pg_store *s)
{
    s->bulk_last = s->sh.bulks && (!s->sh.first || !s->bulk_last);
    return s->bulk_last;
}

void pg_lane_kick(struct pg_store *s)
{
    const struct op *op = NULL;
    if (!work_idle(&s->progress) || !pg_conn_usable(s->lane))
        return;
    while (!s->ahead && (op = shared_front(&s->sh)) && shared_class(op) == CLASS_SEARCH)
        pg_search_add(s, op, shared_take_front(&s->sh));
    pg_search_kick(s);
    if (s->sh.closing && !s->sh.first && !s->sh.bulks && !s->ahead)
        return;
    if (shared_beat_due(&s->sh))
        begin_beat(s);
    else if (!pg_gate_watched(s))
        return; /* nobody could say what is on the disk */
    else if (s->ahead)
        begin_ahead(s);
    else if (shared_tick_due(&s->sh))
        pg_begin_tick(s);
    else if (bulk_turn(s))
        pg_begin_bulk(s);
    else if (op && shared_class(op) == CLASS_LOOK)
        begin_look(s);
    else if (op) {
        shared_gather(s->unit, shared_class(op), UNIT_OPS_MAX);
        pg_begin_unit(s);
    }
}

/* --- signs of life --- */

static void beat_cb(void *ctx, int err, const struct round_error *error)
{
    struct pg_store *s = ctx;
    (void)error;
    if (!err)
        pg_beat_take(s);
    pg_over(s);
}

static void begin_beat(struct pg_store *s)
{
    pg_unit_reset(s->unit);
    s->unit->count = 0;
    work_begin(&s->progress, WORK_HEARTBEAT);
    shared_beat_begun(&s->sh);
    pg_beat_send(s);
    pg_go(s, beat_cb);
}

/* --- questions --- */

static void looked_cb(void *ctx, int err, const struct round_error *error)
{
    struct pg_store *s = ctx;
    if (err) {
        unit_turns_refuse(s->unit, OUT_UNAVAILABLE,
                          err == -ERR_IO ? "the database cannot be reached" : pg_sentence(error));
        pg_over(s);
        return;
    }
    pg_look_answer(s);
    for (size_t i = 0; i < ROUND_MAX; i++)
        pg_keep_result(s, i);
    if (s->unit->nomem) /* what the answers point to is not there any more */
        pg_give_up(s, OUT_UNAVAILABLE, "out of memory");
    else
        pg_over_with_answers(s);
}

static void begin_look(struct pg_store *s)
{
    shared_gather(s->unit, CLASS_LOOK, LOOKS_MAX);
    pg_unit_reset(s->unit);
    work_begin(&s->progress, WORK_VIEW);
    pg_look_send(s);
    pg_go(s, looked_cb);
}

/* --- connections that break --- */

static void refuse_waiting(struct pg_store *s)
{
    if (s->ahead) {
        unit_turns_refuse(s->ahead, OUT_UNAVAILABLE, "the database cannot be reached");
        pg_unit_give(s, s->ahead);
        s->ahead = NULL;
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
        pg_lane_lost_cb(s);
        pg_give_up(s, pg_lost_outcome(s), "the database cannot be reached");
    }
    bool unwatched = !pg_gate_watched(s) && pg_conn_down(s->syncer);
    if (work_idle(&s->progress) && (!pg_conn_up(s->lane) || unwatched)) {
        refuse_waiting(s);
        shared_bulks_answer(&s->sh);
    }
    if (pg_conn_down(s->reader))
        pg_search_fail_all(s);
    if (s->gate && !s->syncing && pg_conn_down(s->syncer))
        pg_gate_break(s);
    pg_lane_kick(s);
    pg_lane_after(s);
    pg_timer_set(s);
}

void pg_lane_later(struct pg_store *s)
{
    if (s->progress.state == WORK_STATE_LEAVING)
        return; /* the timer has its last errand */
    if (!uv_is_closing((uv_handle_t *)&s->later))
        uv_timer_start(&s->later, pg_later_cb, 0, 0);
}

void pg_lane_lost_cb(void *ctx)
{
    struct pg_store *s = ctx;
    if (!s->down_told)
        log_event(s->sh.config.log, LOG_ERROR, "postgres_lost",
                  LOG_TEXT("note", "the database cannot be reached; trying again"));
    s->down_told = true;
    shared_store_lost(&s->sh, pg_conn_trouble(s->lane));
    shared_leader_lost(&s->sh, false);
    pg_lane_later(s);
}

void pg_lane_opened_cb(void *ctx)
{
    struct pg_store *s = ctx;
    if (s->down_told)
        log_event(s->sh.config.log, LOG_INFO, "postgres_back",
                  LOG_TEXT("note", "connected to the database again"));
    s->down_told = false;
    pg_link_heard(s);
    shared_store_opened(&s->sh);
    s->sh.node.seen_at_ms = 0;
    /* Nobody knows what happened meanwhile. */
    shared_watches_wake(&s->sh, (struct span){NULL, 0});
    pg_lane_later(s);
}
