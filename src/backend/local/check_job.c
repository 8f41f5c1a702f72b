/* SPDX-License-Identifier: Apache-2.0 */
/* What can be wrong with one job. */
#include <inttypes.h>

#include "backend/local/check_impl.h"
#include "core/validate.h"

/* ---- the row ---- */

static void check_lease(struct check *c, const struct check_row *row)
{
    const struct stored_job *s = &row->stored;
    bool running = s->job.state == STATE_RUNNING;
    /* A lease without end is one that a trigger's job holds. */
    bool leased = s->lease_ms >= LIMIT_LEASE_MS_MIN || (s->lease_ms == 0 && row->sides[SIDE_LINK]);
    if (running && (!leased || s->token.counter == 0))
        check_problem(c, ADVICE_ROWS, "job %" PRId64 " is running, but has no lease", row->seq);
    bool named = s->worker.len != 0 && s->job.state != STATE_DONE; /* who did it stays */
    if (!running && (s->lease_ms != 0 || named || (s->job.flags & JOB_BOUND)))
        check_problem(c, ADVICE_ROWS, "job %" PRId64 " is %s, but has a lease", row->seq,
                      state_name((enum job_state)s->job.state));
    if (validate_text("worker", s->worker, LIMIT_WORKER_BYTES, NULL) != 0)
        check_problem(c, ADVICE_ROWS, "job %" PRId64 ": its worker's name cannot be one", row->seq);
    if ((s->token.counter == 0) != (s->token.epoch == 0))
        check_problem(c, ADVICE_ROWS, "job %" PRId64 ": its token is half empty", row->seq);
    if (s->token.epoch > c->meta.epoch)
        check_problem(c, ADVICE_ROWS,
                      "job %" PRId64 ": its token is of boot %" PRIu32
                      ", but the last was %" PRIu32,
                      row->seq, s->token.epoch, c->meta.epoch);
}

static void check_fields(struct check *c, const struct check_row *row)
{
    const struct job *j = &row->stored.job;
    const char *state = state_name((enum job_state)j->state);
    if (j->seq > c->meta.seq_upto && !id_spooled(j->seq))
        check_problem(c, ADVICE_ROWS,
                      "job %" PRId64 " is beyond the last reserved sequence, %" PRIu64, row->seq,
                      c->meta.seq_upto);
    if (!reason_fits((enum job_state)j->state, (enum job_reason)j->reason))
        check_problem(c, ADVICE_ROWS, "job %" PRId64 " is %s for a reason (%d) that cannot be",
                      row->seq, state, j->reason);
    if (j->payload_kind == PAYLOAD_NONE && j->payload_bytes != 0)
        check_problem(c, ADVICE_ROWS, "job %" PRId64 " has a payload of no kind", row->seq);
}

/* ---- the other tables ---- */

static void check_payload(struct check *c, const struct check_row *row)
{
    sqlite3_stmt *st = row->sides[SIDE_PAYLOAD];
    int64_t has = st ? sqlite3_column_int64(st, 1) : 0, says = row->stored.job.payload_bytes;
    if (!st && says != 0)
        check_problem(c, ADVICE_ROWS, "job %" PRId64 ": its payload is missing", row->seq);
    else if (has != says || (st && says == 0))
        check_problem(c, ADVICE_ROWS,
                      "job %" PRId64 ": its payload has %" PRId64
                      " bytes where the job says %" PRId64,
                      row->seq, has, says);
}

static bool texts_good(const struct job_extra *x)
{
    return validate_text("unique", x->unique, LIMIT_KEY_BYTES, NULL) == 0 &&
           validate_text("group", x->group, LIMIT_KEY_BYTES, NULL) == 0 &&
           validate_text("correlation", x->correlation, LIMIT_KEY_BYTES, NULL) == 0 &&
           validate_text("label", x->label, LIMIT_LABEL_BYTES, NULL) == 0 &&
           validate_text("attributes", x->attributes, LIMIT_ATTRIBUTES_BYTES, NULL) == 0;
}

static void check_extra(struct check *c, struct check_row *row)
{
    sqlite3_stmt *st = row->sides[SIDE_EXTRA];
    struct job_extra *x = &row->stored.extra;
    struct job_options options;
    bool says = (row->stored.job.flags & JOB_HAS_EXTRA) != 0;
    if (says != (st != NULL))
        check_problem(c, ADVICE_ROWS, "job %" PRId64 ": its row in table extra is %s", row->seq,
                      says ? "missing" : "one too many");
    else if (st && row_extra(st, 1, x) != 0)
        check_problem(c, ADVICE_ROWS,
                      "job %" PRId64 ": its row in table extra has a value out of range", row->seq);
    else if (st && !texts_good(x))
        check_problem(c, ADVICE_ROWS, "job %" PRId64 ": a text in table extra cannot be one",
                      row->seq);
    else if (st && x->options.len != 0 && options_decode(x->options, &options) != 0)
        check_problem(c, ADVICE_ROWS, "job %" PRId64 ": its options cannot be read", row->seq);
}

static void check_outcome(struct check *c, const struct check_row *row)
{
    sqlite3_stmt *st = row->sides[SIDE_OUTCOME];
    if (!st)
        return;
    int64_t result_kind = sqlite3_column_int64(st, 1), error_kind = sqlite3_column_int64(st, 3);
    bool no_result = sqlite3_column_int64(st, 2) != 0;
    if (result_kind < PAYLOAD_NONE || result_kind > PAYLOAD_BYTES || error_kind < ERROR_APP ||
        error_kind > ERROR_BUSINESS || sqlite3_column_int64(st, 4) > LIMIT_ERROR_BYTES)
        check_problem(c, ADVICE_ROWS,
                      "job %" PRId64 ": its row in table outcome has a value out of range",
                      row->seq);
    else if ((result_kind == PAYLOAD_NONE) != no_result)
        check_problem(c, ADVICE_ROWS, "job %" PRId64 ": its result and the kind of it disagree",
                      row->seq);
}

static void check_aside(struct check *c, const struct check_row *row)
{
    sqlite3_stmt *st = row->sides[SIDE_ASIDE];
    const struct job *j = &row->stored.job;
    bool due = (STATE_BIT(j->state) & STATES_ASIDE) != 0;
    if (due && !st)
        check_problem(c, ADVICE_ROWS, "job %" PRId64 " is %s, but missing in table aside", row->seq,
                      state_name((enum job_state)j->state));
    else if (st && (!due || sqlite3_column_int64(st, 1) != j->queue ||
                    sqlite3_column_int64(st, 2) != j->state))
        check_problem(c, ADVICE_ROWS, "job %" PRId64 " is %s, which table aside says otherwise",
                      row->seq, state_name((enum job_state)j->state));
}

/* ---- its queue ---- */

static bool holds_key(const struct check_queue *q, const struct job *j)
{
    if (q->unique_scope == UNIQUE_NONE)
        return false;
    if (q->unique_scope == UNIQUE_KEPT)
        return j->state != STATE_CANCELLED;
    return (STATE_BIT(j->state) & STATES_LIVE) != 0;
}

static int check_unique(struct check *c, const struct check_queue *q, const struct check_row *row)
{
    struct span key = row->stored.extra.unique;
    if (key.len == 0 || !holds_key(q, &row->stored.job))
        return 0;
    struct hash128 hash = hash128_scoped(c->meta.hash_key, q->number, key);
    uint64_t holder = map128_get(&c->uniques, hash);
    if (holder == 0)
        return map128_put(&c->uniques, hash, row->stored.job.seq);
    check_problem(c, ADVICE_KEYS,
                  "job %" PRId64 " and job %" PRIu64 " of queue %s have the same unique key",
                  row->seq, holder, q->name);
    return 0;
}

static int check_queue(struct check *c, const struct check_row *row)
{
    const struct job *j = &row->stored.job;
    struct check_queue *q = check_queue_of(c, j->queue);
    if (!q) {
        check_problem(c, ADVICE_ROWS,
                      "job %" PRId64 " is of queue %" PRIu32 ", which does not exist", row->seq,
                      j->queue);
        return 0;
    }
    if ((STATE_BIT(j->state) & STATES_WAITING) && j->generation != q->generation) {
        q->purged++;
        return 0;
    }
    q->by_state[j->state]++;
    return q->gone ? 0 : check_unique(c, q, row);
}

int check_job(struct check *c, struct check_row *row)
{
    check_fields(c, row);
    check_lease(c, row);
    check_payload(c, row);
    check_extra(c, row);
    check_outcome(c, row);
    check_aside(c, row);
    return check_queue(c, row);
}
