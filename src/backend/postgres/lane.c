/* SPDX-License-Identifier: Apache-2.0 */
/* The lane: one thing after the other on one connection.
 *
 * A sign of life when it is time, then what time brings, then slices of bulk work between what
 * clients ask for. Operations go in the order they came; those of one class that stand together
 * make one unit. While a commit is on its way the next unit gathers. */
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

static void turns_refuse(struct pg_store *s, enum outcome out, const char *note)
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

bool pg_lane_idle(const struct pg_store *s)
{
    return s->doing == LANE_NOTHING && !s->first && !s->searches && !s->gate;
}

static void begin_unit(struct pg_store *s);
static void begin_tick(struct pg_store *s);
static void begin_look(struct pg_store *s);
static void begin_bulk(struct pg_store *s);
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
        begin_tick(s);
    else if (bulk_turn(s))
        begin_bulk(s);
    else if (front(s) && ops[front(s)->kind].class == CLASS_LOOK)
        begin_look(s);
    else if (front(s))
        begin_unit(s);
    else
        s->quiet = true;
}

/* --- when it is over --- */

/* What an answer points to must last as long as it waits for the disk. */
static void keep_result(struct pg_store *s, size_t index)
{
    PGresult *r = pg_conn_take_result(s->lane, index);
    if (r)
        pg_unit_keep(s->unit, r);
}

static void wake_all(struct pg_store *s)
{
    const struct unit *u = s->unit;
    for (size_t i = 0; i < u->queue_count; i++) {
        const struct wqueue *q = u->queues[i];
        if (!q->wake || q->gone)
            continue;
        pg_ear_tell(s, q->name);
        pg_watches_wake(s, q->name);
    }
}

static void count_commit(struct pg_store *s)
{
    struct backend_figures *f = &s->figures;
    uint64_t records = s->unit->records, ns = clock_ns() - s->unit_began_ns;
    if (records == 0)
        return;
    f->position += records;
    s->unit->position = f->position;
    f->commits++;
    f->commit_ns_total += ns;
    f->commit_ns_last = ns;
    histogram_add(&f->commit_us, ns / 1000);
    histogram_add(&f->commit_records, records);
    for (size_t i = 0; i < s->unit->queue_count; i++)
        for (int state = STATE_SCHEDULED; state < STATE_COUNT; state++) {
            int64_t add = s->unit->queues[i]->adds[state - 1];
            f->by_state[state] = (uint64_t)((int64_t)f->by_state[state] + add);
            f->jobs = (uint64_t)((int64_t)f->jobs + add);
        }
}

/* After everything: nothing of the unit is needed any more. */
static void over(struct pg_store *s)
{
    pg_unit_reset(s->unit);
    s->unit->count = 0;
    s->doing = LANE_NOTHING;
    s->storing = false;
    s->tries = 0;
    pg_ear_kick(s);
    pg_lane_after(s);
}

/* Committed: others may see it. What it says happened is told when the disk has it. */
static void committed(struct pg_store *s)
{
    const struct unit *u = s->unit;
    if (s->doing != LANE_TICK)
        s->dirty |= u->records > 0;
    count_commit(s);
    wake_all(s);
}

/* --- trouble --- */

static void rolled_back_cb(void *ctx, int err, const struct round_error *error);

/* Another try may end otherwise: somebody was quicker, or two waited for each other. */
static bool worth_repeating(const struct round_error *e)
{
    static const char *const states[] = {"40001", "40P01", "23505", "55P03"};
    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++)
        if (strcmp(e->state, states[i]) == 0)
            return true;
    return false;
}

static const char *sentence(const struct round_error *e)
{
    if (strncmp(e->state, "53", 2) == 0)
        return "the database has no room or memory left";
    if (strcmp(e->state, "57014") == 0 || strcmp(e->state, "55P03") == 0)
        return "the database took too long";
    return "the database refused the change; its log and ours say why";
}

static void give_up(struct pg_store *s, enum outcome out, const char *note)
{
    pg_bulk_forget(s->unit);
    if (s->doing == LANE_BULK)
        pg_bulk_answer_all(s, out);
    turns_refuse(s, out, note);
    over(s);
}

static void roll_back(struct pg_store *s)
{
    s->storing = false;
    pg_conn_send(s->lane, SQL_ROLLBACK, &s->unit->args);
    if (pg_conn_round(s->lane, rolled_back_cb, s) != 0)
        give_up(s, OUT_UNAVAILABLE, "the database cannot be reached");
}

static void begin_again(struct pg_store *s)
{
    enum lane_job doing = s->doing;
    pg_bulk_forget(s->unit);
    s->doing = LANE_NOTHING;
    if (doing == LANE_UNIT)
        begin_unit(s);
    else if (doing == LANE_BULK)
        begin_bulk(s);
    else
        over(s); /* what time brings comes again by itself */
}

static void rolled_back_cb(void *ctx, int err, const struct round_error *error)
{
    struct pg_store *s = ctx;
    (void)error;
    if (err)
        give_up(s, OUT_UNAVAILABLE, "the database cannot be reached");
    else if (s->again && ++s->tries < UNIT_TRIES_MAX)
        begin_again(s);
    else
        give_up(s, OUT_UNAVAILABLE, s->trouble);
}

static void give_back(struct pg_store *s, bool again, const char *trouble)
{
    s->again = again;
    s->trouble = trouble;
    roll_back(s);
}

/* A round of a transaction did not end well. */
static void round_failed(struct pg_store *s, int err, const struct round_error *error)
{
    if (err == -ERR_IO) {
        /* A commit that was sent may have been done. */
        give_up(s, s->storing ? OUT_UNKNOWN : OUT_UNAVAILABLE, "the database cannot be reached");
        return;
    }
    bool again = worth_repeating(error);
    if (!again)
        log_event(s->config.log, LOG_WARN, "postgres_refused", LOG_TEXT("state", error->state),
                  LOG_TEXT("text", error->text));
    give_back(s, again, sentence(error));
}

static void go(struct pg_store *s, round_fn fn)
{
    if (pg_conn_round(s->lane, fn, s) != 0) {
        s->broken = true; /* answered from the loop */
        uv_timer_start(&s->later, pg_later_cb, 0, 0);
    }
}

/* --- a unit --- */

static void stored_cb(void *ctx, int err, const struct round_error *error);

static void fill_bodies(struct pg_store *s)
{
    struct unit *u = s->unit;
    const PGresult *r = u->slots[0] == SIZE_MAX ? NULL : pg_conn_result(s->lane, u->slots[0]);
    for (int i = 0; r && i < PQntuples(r); i++) {
        struct row *row = pg_unit_row(u, (uint64_t)pg_col_i8(r, i, 0));
        if (!row)
            continue;
        row->payload = row->set_payload || row->fresh ? row->payload : pg_col_bytes(r, i, 1);
        row->result = pg_col_bytes(r, i, 2);
        row->error = pg_col_bytes(r, i, 3);
    }
    for (size_t i = 0; i < u->count; i++) {
        struct turn *t = &u->turns[i];
        struct job_view *views = (struct job_view *)(uintptr_t)t->reply.jobs;
        for (uint32_t k = 0; t->bodies && k < t->reply.job_count; k++) {
            const struct row *row = t->bodies[k];
            views[k].has_body = true;
            views[k].extra = row->extra;
            views[k].payload = row->payload;
            views[k].result_kind = row->result_kind;
            views[k].result = row->result;
            views[k].error_kind = row->error_kind;
            views[k].error = row->error;
        }
    }
    if (r)
        keep_result(s, u->slots[0]);
}

/* The end of every transaction: what was worked out, and the commit. */
static void store(struct pg_store *s)
{
    struct unit *u = s->unit;
    pg_unit_send_store(u);
    if (s->doing == LANE_BULK)
        pg_bulk_send_store(s);
    if (s->doing == LANE_TICK)
        pg_tick_send_next(s);
    if (u->nomem) {
        give_back(s, false, "out of memory");
        return;
    }
    pg_conn_send(s->lane, SQL_COMMIT, &u->args);
    s->storing = pg_unit_changed(u) || s->doing != LANE_UNIT;
    go(s, stored_cb);
}

static void stored_cb(void *ctx, int err, const struct round_error *error)
{
    struct pg_store *s = ctx;
    if (err) {
        round_failed(s, err, error);
        return;
    }
    struct unit *next = pg_unit_take(s);
    if (s->doing == LANE_UNIT) {
        fill_bodies(s);
        pg_rates_take(s->unit);
        pg_bulk_begun(s, s->unit);
    } else if (s->doing == LANE_TICK) {
        pg_tick_done(s);
    }
    committed(s);
    if (s->doing == LANE_BULK)
        pg_bulk_stored(s);
    pg_gate_enter(s, next);
    over(s);
}

static void work(struct pg_store *s)
{
    struct unit *u = s->unit;
    for (size_t i = 0; i < u->count && !u->nomem; i++) {
        struct turn *t = &u->turns[i];
        const struct op *op = t->op;
        work_fn fn = ops[op->kind].work;
        (fn ? fn : pg_work_not_yet)(u, t);
        t->later = op->kind == OP_BULK && t->reply.outcome == OUT_OK;
    }
    if (u->short_of_numbers) {
        for (size_t i = 0; i < u->name_count; i++)
            pg_known_forget(s, u->names[i].name);
        give_back(s, true, "its queue comes and goes");
    } else if (u->nomem) {
        give_back(s, false, "out of memory");
    } else {
        store(s);
    }
}

static void second_cb(void *ctx, int err, const struct round_error *error)
{
    struct pg_store *s = ctx;
    struct unit *u = s->unit;
    if (err) {
        round_failed(s, err, error);
        return;
    }
    if (u->shared_asked) {
        PGresult *r = pg_conn_take_result(s->lane, 0);
        u->shared = pg_unit_keep(u, r) ? r : NULL;
    } else if (pg_unit_words_loaded(u) != 0) {
        u->nomem = true;
    }
    work(s);
}

static void loaded_cb(void *ctx, int err, const struct round_error *error)
{
    struct pg_store *s = ctx;
    if (err) {
        round_failed(s, err, error);
        return;
    }
    err = pg_unit_loaded(s->unit);
    if (err)
        give_back(s, false, err == -ERR_NOMEM ? "out of memory" : "a queue's row is damaged");
    else if (pg_unit_needs_words(s->unit) || pg_queues_need_shared(s->unit))
        go(s, second_cb);
    else
        work(s);
}

static void begin_unit(struct pg_store *s)
{
    struct unit *u = s->unit;
    if (s->tries == 0) {
        gather(s, ops[front(s)->kind].class);
        s->unit_began_ns = clock_ns();
    }
    pg_unit_reset(u);
    for (size_t i = 0; i < u->count; i++)
        s->unit->turns[i] =
            (struct turn){.op = s->unit->turns[i].op, .batch = s->unit->turns[i].batch};
    s->doing = LANE_UNIT;
    u->alone = ops[s->unit->turns[0].op->kind].class == CLASS_ALONE &&
               s->unit->turns[0].op->kind != OP_BULK;
    pg_unit_ask(u);
    pg_unit_send_load(u);
    go(s, loaded_cb);
}

/* --- bulk slices --- */

static void slice_cb(void *ctx, int err, const struct round_error *error)
{
    struct pg_store *s = ctx;
    if (err)
        round_failed(s, err, error);
    else if ((err = pg_bulk_work(s)) != 0)
        give_back(s, false, "out of memory");
    else
        store(s);
}

static void begin_bulk(struct pg_store *s)
{
    pg_unit_reset(s->unit);
    s->unit->count = 0;
    s->doing = LANE_BULK;
    s->unit_began_ns = clock_ns();
    pg_bulk_send(s);
    go(s, slice_cb);
}

/* --- what time brings --- */

static void tick_store(struct pg_store *s, PGresult *queues)
{
    if (pg_tick_work(s, queues) != 0)
        give_back(s, false, "out of memory");
    else
        store(s);
}

static void tick_queues_cb(void *ctx, int err, const struct round_error *error)
{
    struct pg_store *s = ctx;
    if (err)
        round_failed(s, err, error);
    else
        tick_store(s, pg_conn_take_result(s->lane, 1));
}

static void tick_cb(void *ctx, int err, const struct round_error *error)
{
    struct pg_store *s = ctx;
    if (err) {
        round_failed(s, err, error);
        return;
    }
    if (PQntuples(pg_conn_result(s->lane, 1)) == 0) { /* another leads */
        s->leader = false;
        give_back(s, false, NULL);
        return;
    }
    if (pg_tick_needs_queues(s))
        go(s, tick_queues_cb);
    else
        tick_store(s, NULL);
}

static void begin_tick(struct pg_store *s)
{
    pg_unit_reset(s->unit);
    s->unit->count = 0;
    s->doing = LANE_TICK;
    s->unit_began_ns = clock_ns();
    s->tick_at_ms = pg_db_now(s);
    pg_tick_send(s);
    go(s, tick_cb);
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
    over(s);
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
    go(s, beat_cb);
}

/* --- questions --- */

static void looked_cb(void *ctx, int err, const struct round_error *error)
{
    struct pg_store *s = ctx;
    if (err) {
        turns_refuse(s, OUT_UNAVAILABLE,
                     err == -ERR_IO ? "the database cannot be reached" : sentence(error));
    } else {
        pg_look_answer(s);
        for (size_t i = 0; i < ROUND_MAX; i++)
            keep_result(s, i);
        pg_gate_enter(s, pg_unit_take(s));
    }
    over(s);
}

static void begin_look(struct pg_store *s)
{
    gather(s, CLASS_LOOK);
    pg_unit_reset(s->unit);
    s->doing = LANE_LOOK;
    pg_look_send(s);
    go(s, looked_cb);
}

/* --- connections that break --- */

/* From the loop: here answers may be given. */
void pg_later_cb(uv_timer_t *timer)
{
    struct pg_store *s = timer->data;
    if (s->broken) {
        s->broken = false;
        give_up(s, OUT_UNAVAILABLE, "the database cannot be reached");
    }
    if (!pg_conn_up(s->lane)) {
        while (s->first) {
            s->unit->count = 0;
            turn_add(s);
            turns_refuse(s, OUT_UNAVAILABLE, "the database cannot be reached");
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
