/* SPDX-License-Identifier: Apache-2.0 */
/* The commit gate: replies that wait until what they report is durable.
 *
 * Why it exists. With synchronous_commit on, each commit waits for a sync of the disk, and the next
 * unit could not begin before that. The write connection therefore commits with synchronous_commit
 * off: PostgreSQL makes the changes visible at once and writes them to the disk a little later. A
 * second connection, the syncer, executes commits that do wait. PostgreSQL's log has one order:
 * when a commit of the syncer that began after a unit's commit had returned comes back, that unit
 * is on the disk as well. Then its replies are sent, its events are published and its memory is
 * reused. While the disk works, the write connection continues, and all units that commit meanwhile
 * share the next sync (group commit).
 *
 * The invariant. A reply that promises durability is never sent if the server may have restarted: a
 * server that crashed has lost commits, and would still answer a new sync. The connection of the
 * syncer must therefore have been open before the unit's commit was sent (sent_under), and the same
 * connection must confirm the sync (sync_number). If it breaks in between, the outcome of the units
 * in the gate is unknown. While it is not open, no unit is begun.
 *
 * What need not wait. A claim of jobs that were durably ready is answered before the claim itself
 * is durable: if a crash loses it, the job is ready again, and the token is then refused. The same
 * holds for everything in a queue with relaxed durability. */
#include "backend/postgres/impl.h"

struct unit *pg_unit_take(struct pg_store *s)
{
    struct unit *u = s->spare;
    if (u) {
        s->spare = u->next;
        u->next = NULL;
        return u;
    }
    struct pg_unit *p = mem_zalloc(sizeof *p);
    struct turn *turns = mem_array(UNIT_OPS_MAX, sizeof *turns);
    if (!p || !turns) {
        mem_free(p);
        mem_free(turns);
        return NULL;
    }
    pg_unit_init(p, s);
    p->unit.turns = turns;
    return &p->unit;
}

static void unit_free(struct unit *u)
{
    mem_free(u->turns);
    pg_unit_done(pg_unit(u));
    mem_free(u);
}

void pg_units_free(struct pg_store *s)
{
    while (s->spare) {
        struct unit *u = s->spare;
        s->spare = u->next;
        unit_free(u);
    }
    if (s->unit)
        unit_free(s->unit);
    if (s->next_unit)
        unit_free(s->next_unit);
    s->unit = s->next_unit = NULL;
}

void pg_unit_give(struct pg_store *s, struct unit *u)
{
    pg_unit_reset(u);
    u->count = 0;
    u->next = s->spare;
    s->spare = u;
}

bool pg_gate_needed(const struct pg_store *s)
{
    return !s->url.relaxed;
}

bool pg_gate_watched(const struct pg_store *s)
{
    return !pg_gate_needed(s) || pg_conn_up(s->syncer);
}

/* Whether a job of this claim was changed by a unit that may not be on the disk yet. */
static bool depends(const struct pg_store *s, const struct unit *of, const struct turn *t)
{
    for (uint32_t i = 0; i < t->reply.job_count; i++) {
        uint64_t seq = t->reply.jobs[i].job.seq;
        const struct row *own = unit_row(of, seq);
        if (!own || own->loaded_state != STATE_READY)
            return true;
        for (const struct unit *u = s->gate; u; u = u->next)
            if (unit_row(u, seq) && unit_row(u, seq)->changed)
                return true;
    }
    return false;
}

static bool may_leave(const struct pg_store *s, const struct unit *u, const struct turn *t)
{
    if (t->op->kind == OP_CLAIM && t->reply.outcome == OUT_OK)
        return t->op->claim.one.seq == 0 && !depends(s, u, t);
    return t->reply.relaxed;
}

static void answer_rest(struct unit *u)
{
    for (size_t i = 0; i < u->count; i++)
        if (!u->turns[i].later && !u->turns[i].answered)
            unit_turn_answer(&u->turns[i]);
    u->count = 0;
}

static void is_durable(struct pg_store *s, struct unit *u)
{
    if (u->position > s->sh.figures.durable)
        s->sh.figures.durable = u->position;
    shared_events_take(&s->sh, u);
    pg_notify_keys(s, u);
}

/* A repeated request changes nothing and reports what was done before, perhaps by another node that
 * still waits for the disk. */
static bool reports_earlier_work(const struct unit *u)
{
    for (size_t i = 0; i < u->count; i++)
        if (!op_is_query(u->turns[i].op->kind) && u->turns[i].op->kind != OP_CLAIM &&
            !u->turns[i].reply.relaxed &&
            (u->turns[i].reply.outcome == OUT_OK || u->turns[i].reply.outcome == OUT_DUPLICATE))
            return true;
    return false;
}

/* False if neither the unit nor one before it changed anything, or if no reply has to wait. */
static bool must_wait(const struct pg_store *s, const struct unit *u)
{
    return pg_gate_needed(s) && (u->records || s->gate || reports_earlier_work(u));
}

static void pass(struct pg_store *s, struct unit *u)
{
    is_durable(s, u);
    answer_rest(u);
    shared_events_call(&s->sh);
}

void pg_gate_refuse(struct pg_store *s)
{
    struct unit *u = s->unit;
    bool unknown = must_wait(s, u);
    for (size_t i = 0; i < u->count && unknown; i++)
        u->turns[i].reply = (struct reply){.outcome = OUT_UNKNOWN, .note = "out of memory"};
    pass(s, u);
}

/* Starts the sync before it sends replies. */
void pg_gate_enter(struct pg_store *s, struct unit *u, uint64_t sent_under)
{
    if (!must_wait(s, u)) {
        pass(s, u);
        pg_unit_give(s, u);
        return;
    }
    for (size_t i = 0; i < u->count; i++)
        u->turns[i].answered = !u->turns[i].later && may_leave(s, u, &u->turns[i]);
    *s->gate_last = u;
    s->gate_last = &u->next;
    bool watched = sent_under != 0 && sent_under == s->sync_number;
    if (watched)
        pg_gate_wake(s);
    for (size_t i = 0; i < u->count; i++)
        if (u->turns[i].answered)
            unit_turn_answer(&u->turns[i]);
    if (!watched)
        pg_gate_break(s);
}

/* Removes all units up to `last` from the gate. */
static struct unit *gate_take(struct pg_store *s, struct unit *last)
{
    struct unit *first = s->gate;
    s->gate = last->next;
    last->next = NULL;
    if (!s->gate)
        s->gate_last = &s->gate;
    return first;
}

/* All of these are on the disk. */
static void release_units(struct pg_store *s, struct unit *first)
{
    while (first) {
        struct unit *u = first;
        first = u->next;
        is_durable(s, u);
        answer_rest(u);
        pg_unit_give(s, u);
    }
    shared_events_call(&s->sh);
    pg_notify_wake(s);
}

static void synced_cb(void *ctx, int err, const struct round_error *error)
{
    struct pg_store *s = ctx;
    struct unit *last = s->syncing;
    s->syncing = NULL;
    if (err == -ERR_INVALID)
        log_event(s->sh.config.log, LOG_ERROR, "postgres_sync_failed",
                  LOG_TEXT("state", error->state), LOG_TEXT("text", error->text));
    if (err) {
        pg_gate_break(s);
        pg_pipeline_later(s);
        return;
    }
    struct unit *synced = gate_take(s, last);
    pg_gate_wake(s);
    release_units(s, synced);
    pg_pipeline_after(s);
}

/* Writes something, so that the commit has to wait. */
void pg_send_sync(struct pg_store *s, struct conn *c, struct args *a)
{
    pg_args_i4(a, (int32_t)s->sh.facts.epoch);
    pg_args_i4(a, (int32_t)s->sh.config.node);
    pg_args_i8(a, shared_manual_now(&s->sh));
    pg_conn_send(c, SQL_COMMIT_MARKER, a);
}

void pg_gate_wake(struct pg_store *s)
{
    if (!s->gate || s->syncing || !pg_conn_usable(s->syncer)) {
        if (s->gate && !s->syncing && pg_conn_down(s->syncer))
            pg_pipeline_later(s);
        return;
    }
    struct unit *last = s->gate;
    while (last->next)
        last = last->next;
    pg_send_sync(s, s->syncer, &s->sync_args);
    if (pg_conn_round(s->syncer, synced_cb, s) == 0)
        s->syncing = last;
    else
        pg_pipeline_later(s);
}

/* It is unknown what is on the disk: perhaps everything. */
void pg_gate_break(struct pg_store *s)
{
    while (s->gate) {
        struct unit *u = s->gate;
        s->gate = u->next;
        if (!s->gate)
            s->gate_last = &s->gate;
        for (size_t i = 0; i < u->count; i++) {
            struct turn *t = &u->turns[i];
            if (t->later || t->answered)
                continue;
            t->reply =
                (struct reply){.outcome = op_is_query(t->op->kind) ? OUT_UNAVAILABLE : OUT_UNKNOWN,
                               .note = "the database cannot be reached"};
            unit_turn_answer(t);
        }
        shared_events_take(&s->sh, u); /* other nodes may have seen them */
        pg_notify_keys(s, u);
        pg_unit_give(s, u);
    }
}

void pg_syncer_lost_cb(void *ctx)
{
    struct pg_store *s = ctx;
    s->syncing = NULL;
    /* units that were sent before, and have not entered the gate yet, cannot be confirmed */
    s->sync_number++;
    pg_gate_break(s);
    pg_pipeline_later(s);
    pg_timer_set(s);
}

void pg_syncer_opened_cb(void *ctx)
{
    struct pg_store *s = ctx;
    s->sync_number++;
    pg_pipeline_later(s);
}
