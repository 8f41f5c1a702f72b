/* SPDX-License-Identifier: Apache-2.0 */
/* A unit of operations from begin to commit, and the end of every transaction of the write
 * connection (a tick and a slice of a bulk action end here, too).
 *
 * A unit needs two or three round trips: begin and load; a second load, if the first one showed
 * that more is needed (enum second_question); store and commit. Between them the operations are
 * executed in memory by shared/. The state (work_state.h) says what an error means: a refusal by
 * the database is rolled back, and the unit begins again if another attempt may succeed
 * (worth_repeating), at most UNIT_TRIES_MAX times; a connection that is lost before the commit was
 * sent leaves no change, one that is lost after it leaves an unknown outcome.
 *
 * Pipelining. If operations wait when a unit is stored, they form the next unit, and its begin and
 * its load are sent behind the commit in the same round: the database continues with the next unit
 * without waiting for this process. When the commit is confirmed (passed_on_cb), the next unit
 * becomes the current one. If the commit is refused, the statements behind it were not executed:
 * the next unit waits until the outcome of the first is settled, and is then begun by pipeline.c.
 */
#include "backend/postgres/impl.h"
#include "backend/shared/row_check.h"

#define LOAD_STATEMENTS 36 /* no unit begins with more */

/* --- the end of a unit --- */

/* The results to which a reply points must last as long as it waits for the disk. */
void pg_keep_result(struct pg_store *s, size_t index)
{
    PGresult *r = pg_conn_take_result(s->pipeline, index);
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
        pg_notify_queue(s, q->name);
        shared_watches_wake(&s->sh, q->name);
    }
}

/* Nothing of the unit is needed any more. */
void pg_over(struct pg_store *s)
{
    pg_unit_reset(s->unit);
    s->unit->count = 0;
    work_end(&s->progress);
    pg_notify_wake(s);
    pg_pipeline_after(s);
}

/* The next work is sent before the replies are, so that the database does not wait for this
 * process. */
void pg_over_with_answers(struct pg_store *s)
{
    struct unit *u = s->unit, *next = pg_unit_take(s);
    uint64_t sent_under = s->sent_under;
    if (!next) {
        pg_gate_refuse(s); /* without memory nothing can wait */
        pg_over(s);
        return;
    }
    s->unit = next;
    work_end(&s->progress);
    pg_pipeline_wake(s);
    pg_gate_enter(s, u, sent_under);
    pg_notify_wake(s);
    pg_pipeline_after(s);
}

/* The unit is committed and visible to others. Its events are published when it is on the disk. */
static void committed(struct pg_store *s)
{
    struct unit *u = s->unit;
    unit_limits_committed(u);
    if (s->progress.work != WORK_TICK)
        s->sh.dirty |= u->records > 0;
    unit_count_commit(s->unit, pg_unit(s->unit)->began_ns);
    wake_all(s);
}

/* --- errors --- */

static void rolled_back_cb(void *ctx, int err, const struct round_error *error);

/* Another attempt may succeed: another node was faster, or two transactions deadlocked. */
static bool worth_repeating(const struct round_error *e)
{
    static const char states[][6] = {"40001", "40P01", "23505", "55P03"};
    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++)
        if (strcmp(e->state, states[i]) == 0)
            return true;
    return false;
}

const char *pg_sentence(const struct round_error *e)
{
    if (strncmp(e->state, "53", 2) == 0)
        return "the database has no space or memory left";
    if (strcmp(e->state, "57014") == 0 || strcmp(e->state, "55P03") == 0)
        return "the database took too long";
    return "the database refused the change; its log and the log of Holdfast say why";
}

void pg_give_up(struct pg_store *s, enum outcome out, const char *note)
{
    shared_bulk_forget(s->unit);
    if (s->progress.work == WORK_BULK)
        shared_bulks_answer(&s->sh);
    if (s->progress.work == WORK_INBOX)
        pg_inbox_failed(s);
    unit_turns_refuse(s->unit, out, note);
    pg_over(s);
}

static void roll_back(struct pg_store *s)
{
    pg_conn_send(s->pipeline, SQL_ROLLBACK, &pg_unit(s->unit)->args);
    if (pg_conn_round(s->pipeline, rolled_back_cb, s) != 0)
        pg_give_up(s, OUT_UNAVAILABLE, "the database cannot be reached");
}

static void begin_again(struct pg_store *s)
{
    shared_bulk_forget(s->unit);
    if (s->progress.work == WORK_UNIT)
        pg_begin_unit(s);
    else if (s->progress.work == WORK_BULK)
        pg_begin_bulk(s);
    else if (s->progress.work == WORK_INBOX)
        pg_begin_inbox(s);
    else if (s->progress.work == WORK_DEPENDENCIES)
        pg_begin_dependencies(s);
    else
        pg_over(s); /* the next tick comes by itself */
}

static void rolled_back_cb(void *ctx, int err, const struct round_error *error)
{
    struct pg_store *s = ctx;
    (void)error;
    if (err)
        pg_give_up(s, OUT_UNAVAILABLE, "the database cannot be reached");
    else if (s->progress.state == WORK_STATE_RETRYING && ++s->progress.tries < UNIT_TRIES_MAX)
        begin_again(s);
    else
        pg_give_up(s, OUT_UNAVAILABLE, s->progress.trouble);
}

void pg_give_back(struct pg_store *s, bool again, const char *trouble)
{
    work_move(&s->progress, again ? WORK_STATE_RETRYING : WORK_STATE_REFUSING);
    s->progress.trouble = trouble;
    roll_back(s);
}

/* A commit that was sent may have taken effect. */
enum outcome pg_lost_outcome(const struct pg_store *s)
{
    return work_outcome_unknown(&s->progress) ? OUT_UNKNOWN : OUT_UNAVAILABLE;
}

/* A round of a transaction failed. */
void pg_round_failed(struct pg_store *s, int err, const struct round_error *error)
{
    if (err == -ERR_IO) {
        pg_give_up(s, pg_lost_outcome(s), "the database cannot be reached");
        return;
    }
    bool again = worth_repeating(error);
    const char *words = pg_sentence(error);
    if (!again && s->progress.work == WORK_INBOX)
        pg_inbox_error(s, error);
    if (!again)
        log_event(s->sh.config.log, LOG_WARN, "postgres_refused", LOG_TEXT("state", error->state),
                  LOG_TEXT("text", error->text));
    pg_give_back(s, again, words);
}

void pg_go(struct pg_store *s, round_fn fn)
{
    s->sent_under = pg_conn_up(s->syncer) ? s->sync_number : 0;
    if (pg_conn_round(s->pipeline, fn, s) != 0) {
        work_move(&s->progress, work_outcome_unknown(&s->progress) ? WORK_STATE_COMMIT_UNSENT
                                                                   : WORK_STATE_READ_UNSENT);
        uv_timer_start(&s->later, pg_later_cb, 0, 0);
    }
}

/* --- a unit --- */

static void store_with_next(struct pg_store *s);
static void stored_cb(void *ctx, int err, const struct round_error *error);

static void take_bodies(struct unit *u, const PGresult *r)
{
    for (int i = 0; i < PQntuples(r); i++) {
        struct row *row = unit_row(u, (uint64_t)pg_col_i8(r, i, 0));
        if (!row)
            continue;
        row->payload = row->set_payload || row->fresh ? row->payload : pg_col_bytes(r, i, 1);
        row->result = pg_col_bytes(r, i, 2);
        row->error = pg_col_bytes(r, i, 3);
    }
}

/* The results of steps, by job. */
static void take_steps(struct unit *u, const PGresult *r)
{
    struct row *row = NULL;
    int n = PQntuples(r);
    for (int i = 0; i < n; i++) {
        uint64_t seq = (uint64_t)pg_col_i8(r, i, 0);
        if (i == 0 || seq != (uint64_t)pg_col_i8(r, i - 1, 0))
            unit_steps_begin(u);
        unit_steps_add(u, pg_col_bytes(r, i, 1), pg_col_bytes(r, i, 2));
        bool last = i + 1 == n || (uint64_t)pg_col_i8(r, i + 1, 0) != seq;
        if (last && (row = unit_row(u, seq)) != NULL)
            row->steps = unit_steps_end(u);
    }
}

static void bodies_lost(struct unit *u)
{
    for (size_t i = 0; i < u->count; i++)
        if (u->turns[i].bodies)
            u->turns[i].reply = (struct reply){.outcome = OUT_UNKNOWN, .note = "out of memory"};
}

static void fill_bodies(struct pg_store *s)
{
    struct unit *u = s->unit;
    size_t at = pg_unit(u)->slots[0];
    PGresult *r = at == SIZE_MAX ? NULL : pg_conn_take_result(s->pipeline, at);
    if (r && !pg_unit_keep(u, r)) {
        bodies_lost(u);
        return;
    }
    if (r)
        take_bodies(u, r);
    at = pg_unit(u)->slots[STEPS_SLOT];
    r = at == SIZE_MAX ? NULL : pg_conn_take_result(s->pipeline, at);
    if (r && !pg_unit_keep(u, r)) {
        bodies_lost(u);
        return;
    }
    if (r)
        take_steps(u, r);
    unit_fill_bodies(u);
}

/* Whether operations may follow the current unit at once. */
static bool may_pipeline(const struct pg_store *s)
{
    return s->progress.work == WORK_UNIT && !s->url.pooled && !s->sh.closing && !s->sh.bulks &&
           !s->unit->bulk && !pg_inbox_due(s) && !pg_dependencies_due(s) &&
           !shared_heartbeat_due(&s->sh) && !shared_tick_due(&s->sh) && pg_gate_watched(s) &&
           pg_conn_sent(s->pipeline) + LOAD_STATEMENTS <= ROUND_MAX;
}

/* The next unit is one that had to wait, or is formed from the waiting operations. False: no
 * operation waits. */
static bool gather_next_unit(struct pg_store *s)
{
    const struct op *op = shared_front(&s->sh);
    if (s->next_unit)
        return true;
    if (!op || shared_class(op) != CLASS_UNIT)
        return false;
    s->next_unit = pg_unit_take(s);
    if (s->next_unit)
        shared_gather(s->next_unit, CLASS_UNIT, UNIT_OPS_MAX);
    return s->next_unit;
}

/* The end of every transaction: stores the changes and commits. */
void pg_store_and_commit(struct pg_store *s)
{
    struct unit *u = s->unit;
    pg_unit_send_store(u);
    if (s->progress.work == WORK_BULK)
        pg_bulk_send_store(s);
    if (s->progress.work == WORK_INBOX)
        pg_inbox_send_store(s);
    if (s->progress.work == WORK_DEPENDENCIES)
        pg_dependencies_send_end(s);
    if (s->progress.work == WORK_TICK)
        pg_tick_send_next(s);
    if (u->nomem) {
        pg_give_back(s, false, "out of memory");
        return;
    }
    pg_conn_send(s->pipeline, SQL_COMMIT, &pg_unit(u)->args);
    if (unit_changed(u) || s->progress.work != WORK_UNIT)
        work_move(&s->progress, WORK_STATE_COMMITTING);
    if (may_pipeline(s) && gather_next_unit(s))
        store_with_next(s);
    else
        pg_go(s, stored_cb);
}

/* Reads the results of the round that stored the unit. */
static void take_stored(struct pg_store *s)
{
    if (s->progress.work == WORK_UNIT) {
        fill_bodies(s);
        unit_rates_take(s->unit);
        pg_bulk_begun(s, s->unit);
        pg_alerts_stored(s->unit);
    } else if (s->progress.work == WORK_TICK) {
        pg_tick_done(s);
        pg_alerts_stored(s->unit);
    } else if (s->progress.work == WORK_INBOX) {
        unit_rates_take(s->unit);
        pg_alerts_stored(s->unit);
        pg_inbox_stored(s);
    } else if (s->progress.work == WORK_DEPENDENCIES) {
        pg_alerts_stored(s->unit);
    }
    pg_dependencies_stored(s);
    committed(s);
    if (s->progress.work == WORK_BULK)
        shared_bulk_stored(s->unit);
}

static void stored_cb(void *ctx, int err, const struct round_error *error)
{
    struct pg_store *s = ctx;
    if (err) {
        pg_round_failed(s, err, error);
        return;
    }
    take_stored(s);
    pg_over_with_answers(s);
}

static void work(struct pg_store *s)
{
    struct unit *u = s->unit;
    if (!sound_drawn(u)) {
        pg_give_back(s, false, "the database returned a time or a number that is out of range");
        return;
    }
    unit_work(s->unit);
    if (u->short_of_limits) {
        u->limits_wanted = true;
        pg_give_back(s, true, "the limits of its queue change repeatedly");
    } else if (u->short_of_numbers) {
        for (size_t i = 0; i < u->name_count; i++)
            queue_cache_forget(&s->sh, u->names[i].name);
        pg_give_back(s, true, "its queue is created and deleted repeatedly");
    } else if (u->nomem) {
        pg_give_back(s, false, "out of memory");
    } else {
        pg_store_and_commit(s);
    }
}

bool pg_rules_wrong(struct pg_store *s)
{
    int err = pg_unit(s->unit)->asked & ASKED_ALERTS ? pg_alerts_loaded(s->unit) : 0;
    if (err)
        pg_give_back(s, false, err == -ERR_NOMEM ? "out of memory" : "an alert's row is damaged");
    return err != 0;
}

static void second_cb(void *ctx, int err, const struct round_error *error)
{
    struct pg_store *s = ctx;
    struct unit *u = s->unit;
    if (err) {
        pg_round_failed(s, err, error);
        return;
    }
    if (pg_unit(u)->asked & ASKED_SHARERS)
        pg_unit_sharers_loaded(u);
    if (pg_unit(u)->asked & ASKED_REPLIES && pg_unit_replies_loaded(u) != 0)
        u->nomem = true;
    if (pg_unit(u)->asked & ASKED_KEYS)
        pg_keys_of_rows_loaded(u);
    if (pg_rules_wrong(s))
        return;
    work(s);
}

static const PGresult *locks_at(const struct unit *u, enum load_slot slot)
{
    size_t at = pg_unit((struct unit *)(uintptr_t)u)->slots[slot];
    return at == SIZE_MAX ? NULL : pg_conn_result(pg_pipeline_of(u), at);
}

/* The queues of nonces are locked by a statement of their own. */
static bool limits_locked(const struct unit *u)
{
    return pg_limits_locked(u, locks_at(u, LOAD_LOCKS), locks_at(u, LOAD_NONCE_LOCKS));
}

static void loaded_cb(void *ctx, int err, const struct round_error *error)
{
    struct pg_store *s = ctx;
    if (err) {
        pg_round_failed(s, err, error);
        return;
    }
    err = pg_unit_loaded(s->unit);
    if (err) {
        if (err != -ERR_NOMEM && s->progress.work == WORK_INBOX)
            pg_inbox_fault(s, "the row of its queue is damaged");
        pg_give_back(s, false, err == -ERR_NOMEM ? "out of memory" : "a queue's row is damaged");
        return;
    }
    if (!limits_locked(s->unit) || !unit_limits_expected(s->unit)) {
        pg_give_back(s, true, "the limits of its queue change repeatedly");
        return;
    }
    /* The first statement that is sent drops the results of this round. */
    bool stale = pg_alerts_stale(s->unit, pg_unit(s->unit)->slots[LOAD_ALERTS]);
    bool second = pg_unit_needs_replies(s->unit) || pg_unit_needs_sharers(s->unit);
    second |= pg_keys_needed_by_rows(s->unit, false);
    if (stale)
        pg_alerts_ask(s->unit);
    if (second || stale)
        pg_go(s, second_cb);
    else
        work(s);
}

void pg_load_unit(struct pg_store *s)
{
    unit_ask(s->unit);
    pg_unit_send_load(s->unit);
    pg_go(s, loaded_cb);
}

/* These operations have a unit to themselves, with their queue locked against all others. */
static bool needs_exclusive_unit(const struct op *op)
{
    return op->kind == OP_QUEUE_PUT || op->kind == OP_QUEUE_DELETE || op->kind == OP_PAUSE ||
           op->kind == OP_PURGE;
}

static void begin(struct pg_store *s, struct unit *u)
{
    pg_unit_reset(u);
    for (size_t i = 0; i < u->count; i++)
        u->turns[i] = (struct turn){.op = u->turns[i].op, .batch = u->turns[i].batch};
    u->alone = needs_exclusive_unit(u->turns[0].op);
    pg_unit(u)->began_ns = clock_ns();
    pg_conn_send(s->pipeline, SQL_BEGIN, &pg_unit(u)->args);
}

/* The commit is confirmed: the next unit, whose load was already sent, is the current one now. */
static void passed_on_cb(void *ctx)
{
    struct pg_store *s = ctx;
    struct unit *u = s->unit;
    take_stored(s);
    s->unit = s->next_unit;
    s->next_unit = NULL;
    work_pass_on(&s->progress);
    pg_unit(s->unit)->began_ns = clock_ns();
    pg_gate_enter(s, u, s->sent_under);
    pg_notify_wake(s);
}

/* While there is a next unit, the commit was not confirmed. */
static void pipelined_cb(void *ctx, int err, const struct round_error *error)
{
    struct pg_store *s = ctx;
    if (s->next_unit)
        pg_round_failed(s, err, error);
    else
        loaded_cb(s, err, error);
}

/* Without memory for what follows the mark the connection is closed, and the outcome of what is
 * before it is not known. */
static void store_with_next(struct pg_store *s)
{
    pg_conn_mark(s->pipeline, passed_on_cb);
    begin(s, s->next_unit);
    unit_ask(s->next_unit);
    pg_unit_send_load(s->next_unit);
    pg_go(s, pipelined_cb);
}

/* Now the jobs of the firings are known. */
static void schedules_cb(void *ctx, int err, const struct round_error *error)
{
    struct pg_store *s = ctx;
    if (err) {
        pg_round_failed(s, err, error);
        return;
    }
    err = pg_schedules_loaded(s->unit);
    if (err)
        pg_give_back(s, false, err == -ERR_NOMEM ? "out of memory" : "a schedule's row is damaged");
    else if (shared_class(s->unit->turns[0].op) == CLASS_FIRE)
        pg_load_unit(s);
    else
        work(s);
}

/* For a unit about alerts this was everything that it needs. */
static void alerts_cb(void *ctx, int err, const struct round_error *error)
{
    struct pg_store *s = ctx;
    if (err) {
        pg_round_failed(s, err, error);
        return;
    }
    err = pg_alerts_all_loaded(s->unit);
    if (err)
        pg_give_back(s, false, err == -ERR_NOMEM ? "out of memory" : "an alert's row is damaged");
    else
        work(s);
}

void pg_begin_unit(struct pg_store *s)
{
    struct unit *u = s->unit;
    uint64_t began_ns = pg_unit(u)->began_ns; /* of the first attempt */
    work_begin(&s->progress, WORK_UNIT);
    begin(s, u);
    if (s->progress.tries > 0)
        pg_unit(u)->began_ns = began_ns;
    if (unit_about_schedules(u)) {
        pg_schedules_send_load(u);
        pg_go(s, schedules_cb);
    } else if (unit_about_alerts(u)) {
        pg_alerts_send_load(u);
        pg_go(s, alerts_cb);
    } else {
        pg_load_unit(s);
    }
}
