/* SPDX-License-Identifier: Apache-2.0 */
/* What can be wrong with one job. */
#include <inttypes.h>

#include "backend/local/offline/check/check_impl.h"
#include "backend/local/sqlite/rules.h"
#include "core/queues/unique.h"

/* Its row in that table may be among those that cannot be read. */
static bool is_unknown(const struct check *c, const struct check_row *row, enum check_side_id id)
{
    return !row->sides[id] && c->sides[id].failed;
}

/* ---- the row ---- */

static void check_lease(struct check *c, const struct check_row *row)
{
    const struct stored_job *s = &row->stored;
    bool running = s->job.state == STATE_RUNNING;
    /* A lease without end is one that a trigger's job holds. */
    bool linked = row->sides[SIDE_LINK] || is_unknown(c, row, SIDE_LINK);
    bool leased = s->lease_ms >= LIMIT_LEASE_MS_MIN || (s->lease_ms == 0 && linked);
    if (running && (!leased || s->token.counter == 0))
        check_problem(c, ADVICE_ROWS, "job %" PRId64 " is running, but has no lease", row->seq);
    bool named = s->worker.len != 0 && s->job.state != STATE_DONE; /* who did it stays */
    if (!running && (s->lease_ms != 0 || named || (s->job.flags & JOB_BOUND)))
        check_problem(c, ADVICE_ROWS, "job %" PRId64 " is %s, but has a lease", row->seq,
                      state_name((enum job_state)s->job.state));
    /* Without an epoch: the job has brought attempts along. */
    bool brought = s->token.epoch == 0 && s->token.counter == 1 && !running;
    if ((s->token.counter == 0) != (s->token.epoch == 0) && !brought)
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
    if (j->seq > c->meta.seq_upto && !id_spooled(j->seq))
        check_problem(c, ADVICE_ROWS,
                      "job %" PRId64 " is beyond the last reserved sequence, %" PRIu64, row->seq,
                      c->meta.seq_upto);
}

/* ---- the other tables ---- */

static void check_payload(struct check *c, const struct check_row *row)
{
    sqlite3_stmt *st = row->sides[SIDE_PAYLOAD];
    struct span body = st ? column_span(st, 1) : span_of(NULL, 0);
    const struct job *j = &row->stored.job;
    if (!st && j->payload_bytes != 0)
        check_problem(c, ADVICE_JOB, "job %" PRId64 ": its payload is missing", row->seq);
    else if (body.len != j->payload_bytes || (st && j->payload_bytes == 0))
        check_problem(c, ADVICE_JOB,
                      "job %" PRId64 ": its payload has %zu bytes where the job says %" PRIu32,
                      row->seq, body.len, j->payload_bytes);
    else if (st && !body_good(body, sqlite3_column_int64(st, 2), j->payload_kind))
        check_problem(c, ADVICE_JOB,
                      "job %" PRId64 ": its payload is not what was written (checksum or JSON)",
                      row->seq);
}

static void check_extra(struct check *c, struct check_row *row)
{
    sqlite3_stmt *st = row->sides[SIDE_EXTRA];
    struct job_extra *x = &row->stored.extra;
    bool says = (row->stored.job.flags & JOB_HAS_EXTRA) != 0;
    if (says != (st != NULL))
        check_problem(c, ADVICE_JOB, "job %" PRId64 ": its row in table extra is %s", row->seq,
                      says ? "missing" : "one too many");
    else if (st && row_extra(st, 1, x) != 0)
        *x = (struct job_extra){0}; /* told already: check_values.c */
}

static void check_outcome(struct check *c, const struct check_row *row)
{
    sqlite3_stmt *st = row->sides[SIDE_OUTCOME];
    if (!st)
        return;
    int64_t kind = sqlite3_column_int64(st, 1);
    bool none = sqlite3_column_type(st, 2) == SQLITE_NULL;
    if ((kind == PAYLOAD_NONE) != none)
        check_problem(c, ADVICE_JOB, "job %" PRId64 ": its result and the kind of it disagree",
                      row->seq);
    else if (!none && !body_good(column_span(st, 2), sqlite3_column_int64(st, 3), (uint8_t)kind))
        check_problem(c, ADVICE_JOB,
                      "job %" PRId64 ": its result is not what was written (checksum or JSON)",
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

static int check_unique(struct check *c, const struct check_queue *q, const struct check_row *row)
{
    struct span key = row->stored.extra.unique;
    if (key.len == 0 || !unique_holds(q->unique_scope, row->stored.job.state))
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
    if (!is_unknown(c, row, SIDE_PAYLOAD))
        check_payload(c, row);
    if (!is_unknown(c, row, SIDE_EXTRA))
        check_extra(c, row);
    check_outcome(c, row);
    if (!is_unknown(c, row, SIDE_ASIDE))
        check_aside(c, row);
    return check_queue(c, row);
}
