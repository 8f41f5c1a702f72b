/* SPDX-License-Identifier: Apache-2.0 */
/* The lane: one thing after the other on one connection.
 *
 * A sign of life when it is time, then what time brings, then slices of bulk work between what
 * clients ask for. Operations go in the order they came; those of one class that stand together
 * make one unit. While one is under way the next gathers. */
#include "backend/postgres/impl.h"
#include "base/check.h"

enum op_class { CLASS_UNIT, CLASS_ALONE, CLASS_LOOK, CLASS_SEARCH };

static const struct {
    uint8_t class;
    work_fn work;
} ops[OP_KIND_COUNT] = {
    [OP_ENQUEUE] = {CLASS_UNIT, pg_work_enqueue},
    [OP_CLAIM] = {CLASS_UNIT, pg_work_claim},
    [OP_ACK] = {CLASS_UNIT, pg_work_ack},
    [OP_FAIL] = {CLASS_UNIT, pg_work_fail},
    [OP_EXTEND] = {CLASS_UNIT, pg_work_extend},
    [OP_RELEASE] = {CLASS_UNIT, pg_work_release},
    [OP_RELEASE_CLAIM] = {CLASS_UNIT, pg_work_release_claim},
    [OP_CANCEL] = {CLASS_UNIT, pg_work_cancel},
    [OP_REQUEUE] = {CLASS_UNIT, pg_work_requeue},
    [OP_PATCH] = {CLASS_UNIT, pg_work_patch},
    [OP_REMOVE] = {CLASS_UNIT, pg_work_remove},
    [OP_NOTE] = {CLASS_UNIT, pg_work_note},
    [OP_QUEUE_PUT] = {CLASS_ALONE, pg_work_queue_put},
    [OP_QUEUE_DELETE] = {CLASS_ALONE, pg_work_queue_delete},
    [OP_PAUSE] = {CLASS_ALONE, pg_work_pause},
    [OP_PURGE] = {CLASS_ALONE, pg_work_purge},
    [OP_BULK] = {CLASS_ALONE, pg_work_bulk},
    [OP_ACCEPT_CLOCK] = {CLASS_UNIT, pg_work_accept_clock},
    [OP_GET] = {CLASS_LOOK, NULL},
    [OP_PEEK] = {CLASS_LOOK, NULL},
    [OP_QUEUE_GET] = {CLASS_LOOK, NULL},
    [OP_QUEUE_LIST] = {CLASS_LOOK, NULL},
    [OP_LIST] = {CLASS_SEARCH, NULL},
    [OP_WORKERS] = {CLASS_SEARCH, NULL},
    [OP_EXCEPTIONS] = {CLASS_SEARCH, NULL},
    [OP_HISTORY] = {CLASS_SEARCH, NULL},
    [OP_PAGE] = {CLASS_SEARCH, NULL},
};

#define LOOKS_MAX 24 /* questions of one round: each is up to two statements */
#define WIDE_MAX 12  /* operations of one unit that need a statement of their own */

int64_t pg_manual_now(const struct pg_store *s)
{
    return s->config.clock.manual ? clock_now(&s->config.clock).wall.ms : 0;
}

int64_t pg_db_now(const struct pg_store *s)
{
    int64_t given = pg_manual_now(s);
    return given ? given : clock_now(&s->config.clock).wall.ms + s->offset_ms;
}

static int64_t process_ms(void)
{
    return (int64_t)(clock_ns() / 1000000);
}

/* --- answers --- */

static void batch_free_if_done(struct batch *b)
{
    if (b->left == 0 && b->next == b->count)
        mem_free(b);
}

void pg_batch_answer(struct pg_store *s, struct batch *b, const struct reply *reply)
{
    (void)s;
    CHECK(b->left > 0);
    b->left--;
    b->fn(b->ctx, reply);
    batch_free_if_done(b);
}

void pg_turn_answer(struct pg_store *s, struct turn *t)
{
    t->reply.kind = t->op->kind;
    t->reply.tag = t->op->tag;
    pg_batch_answer(s, t->batch, &t->reply);
}

void pg_turns_refuse(struct pg_store *s, enum outcome out, const char *note)
{
    size_t count = s->unit->count;
    s->unit->count = 0;
    for (size_t i = 0; i < count; i++) {
        s->unit->turns[i].reply = (struct reply){.outcome = out, .note = note};
        pg_turn_answer(s, &s->unit->turns[i]);
    }
}

/* --- what comes next --- */

static const struct op *front(const struct pg_store *s)
{
    return s->first ? &s->first->ops[s->first->next] : NULL;
}

static struct batch *take_front(struct pg_store *s)
{
    struct batch *b = s->first;
    b->next++;
    if (b->next == b->count) {
        s->first = b->after;
        if (!s->first)
            s->last = NULL;
    }
    return b;
}

static void turn_add(struct pg_store *s)
{
    const struct op *op = front(s);
    struct turn *t = &s->unit->turns[s->unit->count++];
    *t = (struct turn){.op = op, .batch = take_front(s)};
}

/* What a unit can take no number of: statements and jobs looked at. */
static bool fits(const struct pg_store *s, const struct op *op, size_t *wide, size_t *claims,
                 size_t *bytes)
{
    struct pg_store *known = (struct pg_store *)(uintptr_t)s;
    if (op->kind == OP_CLAIM)
        *claims += op->claim.count;
    if (op->kind == OP_ENQUEUE) {
        *bytes += op->enqueue.payload.len;
        *wide += !pg_known_find(known, op->enqueue.queue);
    }
    if (op->kind == OP_PATCH && op->patch.has_payload) {
        *bytes += op->patch.payload.len;
        ++*wide;
    }
    return s->unit->count == 0 ||
           (*wide <= WIDE_MAX && *claims <= UNIT_CLAIMS_MAX && *bytes <= LIMIT_ANSWER_BYTES);
}

/* Fills the turns with operations of one class. */
static void gather(struct pg_store *s, enum op_class class)
{
    size_t wide = 0, claims = 0, bytes = 0;
    size_t most = class == CLASS_ALONE ? 1 : class == CLASS_LOOK ? LOOKS_MAX : UNIT_OPS_MAX;
    const struct op *op;
    s->unit->count = 0;
    while (s->unit->count < most && (op = front(s)) != NULL && ops[op->kind].class == class &&
           fits(s, op, &wide, &claims, &bytes))
        turn_add(s);
}

void pg_work_turns(struct pg_store *s)
{
    struct unit *u = s->unit;
    for (size_t i = 0; i < u->count && !u->nomem; i++) {
        struct turn *t = &u->turns[i];
        work_fn fn = ops[t->op->kind].work;
        (fn ? fn : pg_work_not_yet)(u, t);
        t->later = t->op->kind == OP_BULK && t->reply.outcome == OUT_OK;
    }
}

bool pg_lane_idle(const struct pg_store *s)
{
    return s->doing == LANE_NOTHING && !s->first && !s->searches && !s->gate;
}

static void begin_look(struct pg_store *s);
static void begin_beat(struct pg_store *s);

static bool beat_due(const struct pg_store *s)
{
    if (s->seen_at_ms == 0 || process_ms() - s->seen_at_ms >= BEAT_MS)
        return true;
    /* A manual clock may leap over the leader's lease. */
    return s->config.clock.manual && llabs(pg_db_now(s) - s->beat_now_ms) >= BEAT_MS;
}

/* Slices of bulk work and what clients ask for take turns. */
static bool bulk_turn(struct pg_store *s)
{
    s->bulk_last = s->bulks && (!s->first || !s->bulk_last);
    return s->bulk_last;
}

void pg_lane_kick(struct pg_store *s)
{
    if (s->doing != LANE_NOTHING || !pg_conn_usable(s->lane))
        return;
    while (front(s) && ops[front(s)->kind].class == CLASS_SEARCH) {
        const struct op *op = front(s);
        pg_search_add(s, op, take_front(s));
    }
    pg_search_kick(s);
    if (s->closing && !s->first && !s->bulks)
        return;
    if (beat_due(s))
        begin_beat(s);
    else if (pg_tick_due(s))
        pg_begin_tick(s);
    else if (bulk_turn(s))
        pg_begin_bulk(s);
    else if (front(s) && ops[front(s)->kind].class == CLASS_LOOK)
        begin_look(s);
    else if (front(s)) {
        gather(s, ops[front(s)->kind].class);
        pg_begin_unit(s);
    }
}

/* --- signs of life --- */

static void beat_cb(void *ctx, int err, const struct round_error *error)
{
    struct pg_store *s = ctx;
    (void)error;
    if (!err) {
        const PGresult *led = pg_conn_result(s->lane, 2);
        bool before = s->leader;
        int64_t given = pg_manual_now(s), theirs = pg_col_i8(pg_conn_result(s->lane, 0), 0, 0);
        s->offset_ms = (given ? given : theirs) - clock_now(&s->config.clock).wall.ms;
        s->others = (unsigned)pg_col_i4(pg_conn_result(s->lane, 1), 0, 0);
        s->leader = PQntuples(led) == 1;
        if (s->leader)
            s->leader_epoch = pg_col_i8(led, 0, 0);
        s->tick_wanted |= s->leader && !before;
    }
    pg_over(s);
}

static void begin_beat(struct pg_store *s)
{
    struct args *a = &s->unit->args;
    pg_unit_reset(s->unit);
    s->unit->count = 0;
    s->doing = LANE_BEAT;
    s->seen_at_ms = process_ms();
    s->beat_now_ms = pg_db_now(s);
    pg_conn_send(s->lane, SQL_NOW, a);
    pg_args_i4(a, (int32_t)s->facts.epoch);
    pg_args_i4(a, (int32_t)s->config.node);
    pg_args_i8(a, pg_db_now(s));
    pg_conn_send(s->lane, SQL_NODE_SEEN, a);
    pg_args_i4(a, (int32_t)s->facts.epoch);
    pg_args_i8(a, pg_db_now(s));
    pg_args_i8(a, LEADER_LEASE_MS);
    pg_conn_send(s->lane, SQL_LEADER_TAKE, a);
    pg_go(s, beat_cb);
}

/* --- questions --- */

static void looked_cb(void *ctx, int err, const struct round_error *error)
{
    struct pg_store *s = ctx;
    if (err) {
        pg_turns_refuse(s, OUT_UNAVAILABLE,
                        err == -ERR_IO ? "the database cannot be reached" : pg_sentence(error));
    } else {
        pg_look_answer(s);
        for (size_t i = 0; i < ROUND_MAX; i++)
            pg_keep_result(s, i);
        pg_gate_enter(s, pg_unit_take(s));
    }
    pg_over(s);
}

static void begin_look(struct pg_store *s)
{
    gather(s, CLASS_LOOK);
    pg_unit_reset(s->unit);
    s->doing = LANE_LOOK;
    pg_look_send(s);
    pg_go(s, looked_cb);
}

/* --- connections that break --- */

/* From the loop: here answers may be given. */
void pg_later_cb(uv_timer_t *timer)
{
    struct pg_store *s = timer->data;
    if (s->broken) {
        s->broken = false;
        pg_give_up(s, OUT_UNAVAILABLE, "the database cannot be reached");
    }
    if (!pg_conn_up(s->lane)) {
        while (s->first) {
            s->unit->count = 0;
            turn_add(s);
            pg_turns_refuse(s, OUT_UNAVAILABLE, "the database cannot be reached");
        }
        pg_bulk_answer_all(s, OUT_UNKNOWN);
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
    if (!uv_is_closing((uv_handle_t *)&s->later))
        uv_timer_start(&s->later, pg_later_cb, 0, 0);
}

void pg_lane_lost_cb(void *ctx)
{
    struct pg_store *s = ctx;
    if (!s->down_told)
        log_event(s->config.log, LOG_ERROR, "postgres_lost",
                  LOG_TEXT("note", "the database cannot be reached; trying again"));
    s->down_told = true;
    s->leader = false;
    pg_lane_later(s);
}

void pg_lane_opened_cb(void *ctx)
{
    struct pg_store *s = ctx;
    if (s->down_told)
        log_event(s->config.log, LOG_INFO, "postgres_back",
                  LOG_TEXT("note", "connected to the database again"));
    s->down_told = false;
    s->seen_at_ms = 0;
    /* Nobody knows what happened meanwhile. */
    pg_watches_wake(s, (struct span){NULL, 0});
    pg_lane_later(s);
}
