/* SPDX-License-Identifier: Apache-2.0 */
/* What the leader does as time passes: leases that expire, jobs that become due or expire, leases
 * of connections whose node has died, the slices of purges and deletes, retention (by the rule of
 * core/queues/retention.h), and moving sums from the deltas to the totals.
 *
 * A tick is one transaction that locks the row of the leader and finds its own epoch there; a
 * leader that was paused and replaced finds another epoch and does nothing. Each part takes a
 * bounded number of rows; if rows are left, the next tick is due at once. */
#include "backend/postgres/impl.h"

#define HOUR_MS INT64_C(3600000)

enum tick_slot {
    TICK_BEGIN,
    TICK_LOCK,
    TICK_QUEUES_LOCK,
    TICK_ADD_DELTAS,
    TICK_LEASES,
    TICK_JOBS,
    TICK_EXPIRY,
    TICK_BOUND,
    TICK_RESUMED,
    TICK_ORPHANS,
    TICK_PURGING,
    TICK_RETENTION,
    TICK_KEYS,
    TICK_KEPT_REPLIES,
    TICK_HOURS,
    TICK_KV,
    TICK_ITEMS,
    TICK_ALERTS, /* behind it what limits at the claim need, if queues have them */
};

#define ROW_SLOTS 5 /* parts that end rows, as in tick_rows */

static void send_due(struct pg_store *s, enum sql_id id, int64_t now)
{
    struct args *a = &pg_unit(s->unit)->args;
    pg_args_i8(a, now);
    pg_args_i4(a, LIMIT_SLICE);
    pg_conn_send(s->pipeline, id, a);
}

static void tick_send(struct pg_store *s)
{
    struct args *a = &pg_unit(s->unit)->args;
    int64_t now = shared_now(&s->sh);
    s->unit->now.ms = now;
    s->sh.tick_wanted = s->sh.trim_wanted = s->sh.dirty = s->tick_more = false;
    s->tick_stepped = NULL;
    pg_conn_send(s->pipeline, SQL_BEGIN, a);
    pg_args_i8(a, s->sh.node.leader_epoch);
    pg_args_i4(a, (int32_t)s->sh.facts.epoch);
    pg_conn_send(s->pipeline, SQL_LEADER_LOCK, a);
    send_due(s, SQL_CLAIM_DUE_LOCK, now);
    pg_conn_send(s->pipeline, SQL_ADD_DELTAS, a);
    send_due(s, SQL_DUE_LEASES, now);
    send_due(s, SQL_DUE_JOBS, now);
    send_due(s, SQL_DUE_EXPIRY, now);
    pg_args_i8(a, now - shared_silent_ms(&s->sh));
    pg_args_i4(a, LIMIT_SLICE);
    pg_args_i4(a, (int32_t)s->sh.facts.epoch);
    pg_conn_send(s->pipeline, SQL_DUE_BOUND, a);
    pg_args_i8(a, s->resume_from_ms ? s->resume_from_ms : now);
    pg_args_i8(a, now);
    pg_conn_send(s->pipeline, SQL_RESUMED, a);
    pg_args_i4(a, (int32_t)s->sh.facts.epoch);
    pg_args_i8(a, now - shared_silent_ms(&s->sh));
    pg_conn_send(s->pipeline, SQL_BULK_ORPHANS, a);
    pg_args_i4(a, LIMIT_SLICE);
    pg_conn_send(s->pipeline, SQL_DUE_PURGING, a);
    pg_args_i8(a, now);
    pg_args_i4(a, LIMIT_SLICE);
    pg_args_i4(a, (int32_t)(now / HOUR_MS));
    pg_conn_send(s->pipeline, SQL_DUE_RETENTION, a);
    pg_args_i8(a, now);
    pg_args_i4(a, LIMIT_SLICE);
    pg_conn_send(s->pipeline, SQL_DUE_IDEMPOTENCY_KEYS, a);
    send_due(s, SQL_DUE_KEPT_REPLIES, now - LIMIT_KEPT_REPLY_MS);
    pg_args_i4(a, (int32_t)(now / HOUR_MS) - (int32_t)HISTORY_HOURS + 1);
    pg_conn_send(s->pipeline, SQL_DUE_HOURS, a);
    pg_keys_send_expired(s, now);
    pg_args_i4(a, LIMIT_SLICE);
    pg_conn_send(s->pipeline, SQL_DUE_ITEMS, a);
    pg_alerts_send_version(s->unit);
    pg_limits_send_due(s);
}

/* The number in the first column of a statement that returns one row. */
static int64_t number_at(struct pg_store *s, enum tick_slot slot)
{
    const PGresult *r = pg_conn_result(s->pipeline, slot);
    int64_t n = 0;
    for (int i = 0; r && i < PQntuples(r); i++)
        n += pg_col_sum(r, i, 0);
    return n;
}

static bool full(struct pg_store *s, enum tick_slot slot)
{
    return PQntuples(pg_conn_result(s->pipeline, slot)) >= LIMIT_SLICE;
}

/* Loads the rows of a slot, marked with their slot; sends the query for their queues. */
static bool tick_needs_queues(struct pg_store *s)
{
    struct unit *u = s->unit;
    static const enum tick_slot slots[] = {TICK_LEASES, TICK_JOBS, TICK_EXPIRY, TICK_BOUND,
                                           TICK_ITEMS};
    size_t n = 0;
    s->tick_more |= full(s, TICK_LEASES) || full(s, TICK_JOBS) || full(s, TICK_EXPIRY) ||
                    full(s, TICK_BOUND) || full(s, TICK_PURGING) ||
                    number_at(s, TICK_RETENTION) > 0 || number_at(s, TICK_KEYS) >= LIMIT_SLICE ||
                    full(s, TICK_KV) || PQntuples(pg_conn_result(s->pipeline, TICK_ITEMS)) > 0;
    for (size_t i = 0; i < ROW_SLOTS; i++) {
        PGresult *r = pg_conn_take_result(s->pipeline, slots[i]);
        s->tick_rows[i] = r;
        n += (size_t)PQntuples(r);
        pg_unit_keep(u, r);
    }
    PGresult *resumed = pg_conn_take_result(s->pipeline, TICK_RESUMED);
    s->tick_resumed = resumed;
    pg_unit_keep(u, resumed);
    PGresult *purging = pg_conn_take_result(s->pipeline, TICK_PURGING);
    s->tick_purging = purging;
    pg_unit_keep(u, purging);
    PGresult *keys = pg_conn_take_result(s->pipeline, TICK_KV);
    s->tick_keys = keys;
    pg_unit_keep(u, keys);
    s->tick_stale = pg_alerts_stale(u, TICK_ALERTS);
    pg_bulk_adopt(s, pg_conn_result(s->pipeline, TICK_ORPHANS));
    if (n == 0 || u->nomem)
        return false;
    for (int part = 0; part < 2; part++) {
        pg_array_begin(&pg_unit(u)->args, ARRAY_TEXT);
        pg_array_end(&pg_unit(u)->args);
        pg_array_begin(&pg_unit(u)->args, ARRAY_I8);
        for (size_t i = 0; i < ROW_SLOTS; i++)
            for (int k = 0; k < PQntuples(s->tick_rows[i]); k++)
                pg_array_i8(&pg_unit(u)->args, pg_col_i8(s->tick_rows[i], k, JOB_SEQ));
        pg_array_end(&pg_unit(u)->args);
        if (part) {
            pg_array_begin(&pg_unit(u)->args, ARRAY_I4);
            pg_array_end(&pg_unit(u)->args);
        }
        pg_conn_send(s->pipeline, part ? SQL_QUEUES : SQL_LOCK_SHARED, &pg_unit(u)->args);
    }
    return true;
}

static void end_one(struct unit *u, struct row *r, size_t slot, uint8_t holder_state)
{
    struct record rec = {.kind = REC_JOB_READY, .job_ready = {.seq = r->job.seq, .at = u->now}};
    if (slot == 0) {
        unit_lease_ran_out(u, r);
    } else if (slot == 1) {
        unit_row_take(u, r, &rec);
    } else if (slot == 2) {
        decide_expire(&r->job, u->now, &rec);
        unit_row_take(u, r, &rec);
        u->s->trim_wanted = true;
    } else if (slot == 3) {
        unit_lease_restarted(u, r);
    } else {
        unit_item_left(u, r, holder_state);
    }
}

/* Whether a row still exists for this part, after the parts before it. */
static bool still(const struct row *r, size_t slot)
{
    static const unsigned from[] = {STATE_BIT(STATE_RUNNING), STATE_BIT(STATE_SCHEDULED),
                                    STATES_WAITING, STATE_BIT(STATE_RUNNING),
                                    STATE_BIT(STATE_RUNNING)};
    return unit_row_there(r) && (STATE_BIT(r->job.state) & from[slot]);
}

/* *queues: the result of the query that tick_needs_queues sent. */
static int tick_load(struct pg_store *s, PGresult *queues)
{
    struct unit *u = s->unit;
    int err = pg_unit_keep(u, queues) ? pg_load_queues(u, queues) : -ERR_NOMEM;
    for (size_t slot = 0; slot < ROW_SLOTS && !err; slot++)
        for (int i = 0; i < PQntuples(s->tick_rows[slot]) && !err; i++)
            err = pg_load_row(u, s->tick_rows[slot], i) ? 0 : -ERR_NOMEM;
    return err;
}

static bool tick_needs_more(struct pg_store *s)
{
    struct unit *u = s->unit;
    bool keys = pg_keys_needed_by_rows(u, true);
    if (s->tick_stale)
        pg_alerts_ask(u);
    return keys || s->tick_stale;
}

static void end_rows(struct pg_store *s)
{
    struct unit *u = s->unit;
    for (size_t slot = 0; slot < ROW_SLOTS; slot++)
        for (int i = 0; i < PQntuples(s->tick_rows[slot]); i++) {
            struct row *r = unit_row(u, pg_col_seq(s->tick_rows[slot], i, JOB_SEQ));
            if (!r)
                continue; /* nothing was loaded: no job is due */
            if (still(r, slot))
                end_one(u, r, slot,
                        slot == 4 ? (uint8_t)pg_col_i2(s->tick_rows[4], i, JOB_COLUMN_COUNT) : 0);
            else if (!unit_row_there(r))
                s->sh.tick_wanted = true; /* the slices of a purge are not complete */
        }
}

/* Rows of (number, name). */
static struct wqueue *wake_queue(struct unit *u, const PGresult *r, int at)
{
    struct wqueue *q = unit_queue(u, (uint32_t)pg_col_i4(r, at, 0));
    if (!q)
        q = unit_queue_add(u, (uint32_t)pg_col_i4(r, at, 0), pg_col_bytes(r, at, 1));
    if (q)
        q->wake = true;
    return q;
}

static int tick_work(struct pg_store *s)
{
    struct unit *u = s->unit;
    end_rows(s);
    pg_keys_expired(u, s->tick_keys);
    for (int i = 0; i < PQntuples(s->tick_resumed); i++) {
        struct wqueue *q = wake_queue(u, s->tick_resumed, i);
        if (!q)
            return -ERR_NOMEM;
        unit_tell_queue(u, EVENT_QUEUE_RESUMED, q, 0);
    }
    if (s->tick_stepped && !wake_queue(u, s->tick_stepped, 0))
        return -ERR_NOMEM;
    return u->nomem ? -ERR_NOMEM : 0;
}

static void purging_arg(struct pg_store *s)
{
    struct args *a = &pg_unit(s->unit)->args;
    pg_array_begin(a, ARRAY_I8);
    for (int i = 0; i < PQntuples(s->tick_purging); i++)
        pg_array_i8(a, pg_col_i8(s->tick_purging, i, 0));
    pg_array_end(a);
}

/* The jobs of purged and deleted queues, which were counted as removed by the purge. */
static void send_purging(struct pg_store *s)
{
    struct args *a = &pg_unit(s->unit)->args;
    if (PQntuples(s->tick_purging)) {
        pg_dependencies_send_removed(s->unit, s->tick_purging);
        purging_arg(s);
        pg_conn_send(s->pipeline, SQL_JOB_DEL, a);
        purging_arg(s);
        pg_conn_send(s->pipeline, SQL_ATTEMPT_DEL, a);
    }
    pg_conn_send(s->pipeline, SQL_PURGING_END, a);
}

/* The last statements of the transaction: the jobs of purges, and when the next tick is due. */
void pg_tick_send_next(struct pg_store *s)
{
    struct unit *u = s->unit;
    send_purging(s);
    pg_args_i8(&pg_unit(u)->args, u->now.ms);
    pg_args_bool(&pg_unit(u)->args, s->sh.config.clock.manual);
    pg_unit(u)->slots[2] = pg_conn_sent(s->pipeline);
    pg_conn_send(s->pipeline, SQL_NEXT_DUE, &pg_unit(u)->args);
    pg_unit(u)->slots[3] = pg_conn_sent(s->pipeline);
    pg_conn_send(s->pipeline, SQL_FIGURES, &pg_unit(u)->args);
}

static int64_t sooner(int64_t a, int64_t b)
{
    return a == 0 ? b : b == 0 || a < b ? a : b;
}

static void take_figures(struct pg_store *s)
{
    const PGresult *r = pg_conn_result(s->pipeline, pg_unit(s->unit)->slots[3]);
    struct backend_figures *f = &s->sh.figures;
    uint64_t jobs = 0;
    if (PQntuples(r) != 1)
        return;
    for (int state = STATE_SCHEDULED; state < STATE_COUNT; state++) {
        int64_t n = pg_col_sum(r, 0, state - 1);
        f->by_state[state] = n > 0 ? (uint64_t)n : 0;
        jobs += f->by_state[state];
    }
    f->jobs = jobs;
    f->live = f->by_state[STATE_SCHEDULED] + f->by_state[STATE_READY] + f->by_state[STATE_RUNNING] +
              f->by_state[STATE_BLOCKED];
    f->keys = pg_col_count(r, 0, 7);
    f->queues = pg_col_count(r, 0, 8);
    f->kv_keys = pg_col_count(r, 0, 9);
    f->kv_bytes = pg_col_count(r, 0, 10);
    f->notices_pending = pg_col_count(r, 0, 11);
    f->notices_dead = pg_col_count(r, 0, 12);
    s->limits_exist = pg_col_bool(r, 0, 13);
}

void pg_tick_done(struct pg_store *s)
{
    const PGresult *r = pg_conn_result(s->pipeline, pg_unit(s->unit)->slots[2]);
    s->sh.node.next_due_ms = 0;
    for (int i = 0; i < PQnfields(r); i++)
        s->sh.node.next_due_ms = sooner(s->sh.node.next_due_ms, pg_col_time(r, 0, i));
    s->sh.node.tick_at_ms = s->resume_from_ms = s->unit->now.ms;
    s->sh.tick_wanted |= s->tick_more;
    take_figures(s);
}

/* --- from begin to commit --- */

static void tick_store(struct pg_store *s)
{
    if (tick_work(s) != 0)
        pg_give_back(s, false, "out of memory");
    else
        pg_store_and_commit(s);
}

static void tick_keys_cb(void *ctx, int err, const struct round_error *error)
{
    struct pg_store *s = ctx;
    if (err) {
        pg_round_failed(s, err, error);
        return;
    }
    if (pg_unit(s->unit)->asked & ASKED_KEYS)
        pg_keys_of_rows_loaded(s->unit);
    if (!pg_rules_wrong(s))
        tick_store(s);
}

static void tick_queues_cb(void *ctx, int err, const struct round_error *error)
{
    struct pg_store *s = ctx;
    if (err)
        pg_round_failed(s, err, error);
    else if (tick_load(s, pg_conn_take_result(s->pipeline, 1)) != 0)
        pg_give_back(s, false, "out of memory");
    else if (!pg_limits_locked(s->unit, pg_conn_result(s->pipeline, 0), NULL))
        pg_give_back(s, true, NULL); /* limits that are new: the next tick does it */
    else if (tick_needs_more(s))
        pg_go(s, tick_keys_cb);
    else
        tick_store(s);
}

static void tick_cb(void *ctx, int err, const struct round_error *error)
{
    struct pg_store *s = ctx;
    if (err) {
        pg_round_failed(s, err, error);
        return;
    }
    if (PQntuples(pg_conn_result(s->pipeline, 1)) == 0) { /* another node is the leader */
        shared_leader_lost(&s->sh, true);
        pg_give_back(s, false, NULL);
        return;
    }
    if (!pg_limits_stepped(s, pg_conn_result(s->pipeline, TICK_QUEUES_LOCK)))
        pg_give_back(s, true, NULL);
    else if (tick_needs_queues(s))
        pg_go(s, tick_queues_cb);
    else
        tick_store(s);
}

void pg_begin_tick(struct pg_store *s)
{
    pg_unit_reset(s->unit);
    s->unit->count = 0;
    work_begin(&s->progress, WORK_TICK);
    pg_unit(s->unit)->began_ns = clock_ns();
    s->sh.node.tick_at_ms = shared_now(&s->sh);
    tick_send(s);
    pg_go(s, tick_cb);
}
