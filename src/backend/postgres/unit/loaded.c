/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the results of the load: rows, queues, keys, and the time. */
#include "backend/postgres/impl.h"
#include "backend/shared/row_check.h"

static void load_extra(const PGresult *r, int at, struct job_extra *x)
{
    for (int i = 0; i < JOB_TEXTS; i++)
        *job_text_at(x, (size_t)i) = pg_col_bytes(r, at, JOB_TEXT + i);
    x->expires_at.ms = pg_col_time(r, at, JOB_EXPIRES_AT);
    x->options = pg_col_bytes(r, at, JOB_OPTIONS);
    x->undelivered = pg_col_bytes(r, at, JOB_UNDELIVERED);
}

static struct outcome_counts outcome_counts_unpack(uint64_t v)
{
    return (struct outcome_counts){(uint16_t)v, (uint16_t)(v >> 16), (uint16_t)(v >> 32),
                                   (uint8_t)(v >> 48), (uint8_t)(v >> 56)};
}

void pg_row_load(const PGresult *r, int at, struct row *ret)
{
    ret->job = (struct job){
        .seq = pg_col_seq(r, at, JOB_SEQ),
        .id_hi = (uint64_t)pg_col_i8(r, at, JOB_ID_HI),
        .priority = pg_col_i8(r, at, JOB_PRIORITY),
        .run_at = {pg_col_time(r, at, JOB_RUN_AT)},
        .since = {pg_col_time(r, at, JOB_SINCE)},
        .queue = (uint32_t)pg_col_i4(r, at, JOB_QUEUE),
        .payload_bytes = (uint32_t)pg_col_i4(r, at, JOB_PAYLOAD_BYTES),
        .failures = (uint16_t)pg_col_i4(r, at, JOB_FAILURES),
        .crashes = (uint16_t)pg_col_i4(r, at, JOB_CRASHES),
        .generation = (uint32_t)pg_col_i4(r, at, JOB_GENERATION),
        .state = pg_col_kind(r, at, JOB_STATE, STATE_COUNT),
        .reason = pg_col_kind(r, at, JOB_REASON, REASON_COUNT),
        .payload_kind = pg_col_kind(r, at, JOB_PAYLOAD_KIND, PAYLOAD_BYTES + 1),
        .flags = (uint8_t)pg_col_i2(r, at, JOB_FLAGS),
    };
    load_extra(r, at, &ret->extra);
    ret->token = (struct job_token){(uint64_t)pg_col_i8(r, at, JOB_TOKEN_COUNTER),
                                    (uint32_t)pg_col_i4(r, at, JOB_TOKEN_EPOCH)};
    ret->lease_ms = (uint32_t)pg_col_i4(r, at, JOB_LEASE_MS);
    ret->until_ms = pg_col_time(r, at, JOB_UNTIL);
    ret->limits =
        (struct lease_limits){.timeout_ms = (uint32_t)pg_col_i8(r, at, JOB_TIMEOUT_MS),
                              .cancel_grace_ms = (uint32_t)pg_col_i4(r, at, JOB_CANCEL_GRACE_MS),
                              .cancel_at = {pg_col_time(r, at, JOB_CANCEL_AT)}};
    ret->worker = pg_col_bytes(r, at, JOB_WORKER);
    ret->nonce = (uint64_t)pg_col_i8(r, at, JOB_NONCE);
    ret->started_at.ms = pg_col_time(r, at, JOB_STARTED_AT);
    ret->reply_kind = pg_col_kind(r, at, JOB_REPLY, OP_KIND_COUNT + 1);
    ret->reply_state = pg_col_kind(r, at, JOB_REPLY_STATE, STATE_COUNT);
    ret->reply_run_at.ms = pg_col_time(r, at, JOB_REPLY_RUN_AT);
    ret->outcome_counts = outcome_counts_unpack((uint64_t)pg_col_i8(r, at, JOB_OUTCOME_COUNTS));
    ret->held = ret->was_held = pg_col_bool(r, at, JOB_HOLDS_KEY);
    ret->result_kind = pg_col_kind(r, at, JOB_RESULT_KIND, PAYLOAD_BYTES + 1);
    ret->error_kind = pg_col_kind(r, at, JOB_ERROR_KIND, ERROR_BUSINESS + 1);
    ret->step_index = pg_col_bytes(r, at, JOB_STEP_INDEX);
    ret->holder =
        (struct job_ref){pg_col_seq(r, at, JOB_HOLDER), (uint64_t)pg_col_i8(r, at, JOB_HOLDER_HI)};
}

/* Small bodies come with the row; larger ones are fetched when it is known which claim gets
 * them. */
void pg_row_bodies(struct row *r, const PGresult *res, int at)
{
    bool payload = r->job.payload_bytes == 0 || !PQgetisnull(res, at, JOB_PAYLOAD);
    bool result = r->result_kind == PAYLOAD_NONE || !PQgetisnull(res, at, JOB_RESULT);
    if (!r->changed && payload && result) {
        r->payload = pg_col_bytes(res, at, JOB_PAYLOAD);
        r->result = pg_col_bytes(res, at, JOB_RESULT);
        r->error = pg_col_bytes(res, at, JOB_ERROR);
        r->has_payload = true;
    }
}

/* Loads one row into the unit; an existing row is not changed. */
struct row *pg_load_row(struct unit *u, const PGresult *r, int at)
{
    uint64_t seq = pg_col_seq(r, at, JOB_SEQ);
    struct row *row = unit_row(u, seq);
    if (row)
        return row;
    row = unit_row_add(u, seq);
    if (!row)
        return NULL;
    pg_row_load(r, at, row);
    row->loaded_state = row->job.state;
    row->q = unit_queue(u, row->job.queue);
    if (row->q && sound_row(row))
        return row;
    return unit_row_absent(u, row);
}

void pg_load_rows(struct unit *u, size_t result, bool claimable)
{
    PGresult *r = result == SIZE_MAX ? NULL : pg_conn_take_result(pg_pipeline_of(u), result);
    if (!r || !pg_unit_keep(u, r))
        return;
    for (int i = 0; i < PQntuples(r); i++) {
        struct row *row = pg_load_row(u, r, i);
        if (!row)
            return;
        if (!claimable)
            continue;
        pg_row_bodies(row, r, i);
        unit_claimable(u, row);
    }
}

/* Columns as in the part queue_columns (sql/parts.sql). */
int pg_queue_read(const PGresult *r, int at, struct wqueue *ret)
{
    ret->number = (uint32_t)pg_col_i4(r, at, 0);
    ret->name = pg_col_bytes(r, at, 1);
    ret->owner = pg_col_bytes(r, at, 2);
    ret->note = pg_col_bytes(r, at, 3);
    ret->attributes = pg_col_bytes(r, at, 4);
    ret->generation = (uint32_t)pg_col_i4(r, at, 6);
    ret->created_at.ms = pg_col_time(r, at, 7);
    ret->updated_at.ms = pg_col_time(r, at, 8);
    ret->paused_until.ms = pg_col_time(r, at, 9);
    ret->gone = pg_col_bool(r, at, 10);
    int err = policy_decode(pg_col_bytes(r, at, 5), &ret->policy);
    ret->was_limited = !err && claim_limited(&ret->policy);
    return err || sound_queue(ret) ? err : -ERR_CORRUPT;
}

int pg_load_queues(struct unit *u, const PGresult *r)
{
    int n = PQntuples(r), err = 0;
    for (int i = 0; i < n && !err; i++) {
        uint32_t number = (uint32_t)pg_col_i4(r, i, 0);
        if (unit_queue(u, number))
            continue;
        struct wqueue *q = unit_queue_add(u, number, pg_col_bytes(r, i, 1));
        if (!q)
            return -ERR_NOMEM;
        err = pg_queue_read(r, i, q);
        if (!err && !q->gone)
            queue_cache_learn(u->s, q);
    }
    return err;
}

static void load_counts(struct unit *u, const PGresult *r)
{
    for (size_t i = 0; i < u->queue_count; i++) {
        bool asked = u->s->any_warned;
        for (size_t k = 0; k < u->name_count && !asked; k++)
            asked = u->names[k].counts && span_equal(u->names[k].name, u->queues[i]->name);
        u->queues[i]->counted = asked;
    }
    for (int i = 0; i < PQntuples(r); i++) {
        struct wqueue *q = unit_queue(u, (uint32_t)pg_col_i4(r, i, 0));
        for (int c = 0; q && c < SUM_COUNT; c++)
            q->sums[c] = pg_col_sum(r, i, 1 + c);
    }
    for (size_t i = 0; i < u->queue_count; i++)
        if (u->queues[i]->counted)
            queue_cache_learn(u->s, u->queues[i]);
}

static void load_idem(struct unit *u, const PGresult *r)
{
    for (int i = 0; i < PQntuples(r); i++) {
        struct idem *k = unit_alloc(u, sizeof *k);
        if (!k)
            return;
        k->key = (struct hash128){(uint64_t)pg_col_i8(r, i, 0), (uint64_t)pg_col_i8(r, i, 1)};
        k->fingerprint = (uint64_t)pg_col_i8(r, i, 2);
        k->seq = pg_col_seq(r, i, 3);
        k->id_hi = (uint64_t)pg_col_i8(r, i, 4);
        k->expires_at.ms = pg_col_time(r, i, 5);
        k->state = pg_col_kind(r, i, 6, STATE_COUNT);
        k->next = u->idems;
        u->idems = k;
    }
}

/* As many as were requested; a missing one is 0, which sound_drawn refuses. */
static void load_numbers(struct unit *u)
{
    const PGresult *seqs = pg_unit(u)->slots[LOAD_SEQS] == SIZE_MAX
                               ? NULL
                               : pg_conn_result(pg_pipeline_of(u), pg_unit(u)->slots[LOAD_SEQS]);
    const PGresult *numbers =
        pg_unit(u)->slots[LOAD_NUMBERS] == SIZE_MAX
            ? NULL
            : pg_conn_result(pg_pipeline_of(u), pg_unit(u)->slots[LOAD_NUMBERS]);
    u->seqs = unit_alloc(u, (u->seq_count + 1) * sizeof *u->seqs);
    u->numbers = unit_alloc(u, (u->number_count + 1) * sizeof *u->numbers);
    for (size_t i = 0; u->seqs && i < u->seq_count; i++)
        u->seqs[i] = (uint64_t)pg_col_i8(seqs, (int)i, 0);
    for (size_t i = 0; u->numbers && i < u->number_count; i++)
        u->numbers[i] = (uint32_t)pg_col_i4(numbers, (int)i, 0);
    u->queues_there = u->number_count ? pg_col_count(numbers, 0, 1) : 0;
}

static void load_time(struct unit *u)
{
    int64_t given = shared_manual_now(u->s);
    int64_t theirs =
        pg_col_time(pg_conn_result(pg_pipeline_of(u), pg_unit(u)->slots[LOAD_NOW]), 0, 0);
    u->now.ms = given ? given : theirs;
    shared_clock_heard(u->s, u->now.ms);
}

int pg_unit_loaded(struct unit *u)
{
    const size_t *slot = pg_unit(u)->slots;
    load_time(u);
    PGresult *queues = pg_conn_take_result(pg_pipeline_of(u), slot[LOAD_QUEUES]);
    int err = queues && pg_unit_keep(u, queues) ? pg_load_queues(u, queues) : -ERR_NOMEM;
    if (err)
        return err;
    queues = slot[LOAD_NONCE_QUEUES] == SIZE_MAX
                 ? NULL
                 : pg_conn_take_result(pg_pipeline_of(u), slot[LOAD_NONCE_QUEUES]);
    if (queues)
        err = pg_unit_keep(u, queues) ? pg_load_queues(u, queues) : -ERR_NOMEM;
    if (err)
        return err;
    load_numbers(u);
    if (slot[LOAD_COUNTS] != SIZE_MAX)
        load_counts(u, pg_conn_result(pg_pipeline_of(u), slot[LOAD_COUNTS]));
    if (slot[LOAD_LIVE] != SIZE_MAX) {
        const PGresult *r = pg_conn_result(pg_pipeline_of(u), slot[LOAD_LIVE]);
        u->live = pg_col_count(r, 0, 0);
        u->keys = pg_col_count(r, 0, 1);
    }
    if (slot[LOAD_IDEM] != SIZE_MAX)
        load_idem(u, pg_conn_result(pg_pipeline_of(u), slot[LOAD_IDEM]));
    pg_load_rows(u, slot[LOAD_JOBS], false);
    pg_load_rows(u, slot[LOAD_RIVALS], false);
    pg_load_rows(u, slot[LOAD_HOLDERS], false);
    pg_load_rows(u, slot[LOAD_NONCES], false);
    pg_load_rows(u, slot[LOAD_CLAIMS], true);
    pg_dependencies_loaded(u);
    pg_limits_loaded(u);
    pg_keys_commits_loaded(u);
    return u->nomem ? -ERR_NOMEM : 0;
}

/* --- replies about leases that have ended --- */

static bool reply_missing(const struct unit *u, const struct op *op)
{
    if (!op_about_lease(op))
        return false;
    const struct row *r = unit_row(u, op->lease.job.seq);
    return !unit_find(u, op->lease.job) ||
           (!op->lease.any_token && !token_equal(r->token, op->lease.token));
}

bool pg_unit_needs_replies(struct unit *u)
{
    size_t n = 0;
    for (int part = 0; part < 2; part++) {
        pg_array_begin(&pg_unit(u)->args, part ? ARRAY_I8 : ARRAY_I4);
        for (size_t i = 0; i < u->count; i++) {
            const struct op *op = u->turns[i].op;
            n += op->kind == OP_BULK; /* the highest sequence that it may change */
            if (!reply_missing(u, op))
                continue;
            n++;
            if (part)
                pg_array_i8(&pg_unit(u)->args, (int64_t)op->lease.token.counter);
            else
                pg_array_i4(&pg_unit(u)->args, (int32_t)op->lease.token.epoch);
        }
        pg_array_end(&pg_unit(u)->args);
    }
    if (n == 0) {
        pg_args_clear(&pg_unit(u)->args);
        return false;
    }
    pg_unit(u)->asked |= ASKED_REPLIES;
    pg_conn_send(pg_pipeline_of(u), SQL_KEPT_REPLIES, &pg_unit(u)->args);
    pg_conn_send(pg_pipeline_of(u), SQL_SEQ_HIGH, &pg_unit(u)->args);
    return true;
}

int pg_unit_replies_loaded(struct unit *u)
{
    const PGresult *r = pg_conn_result(pg_pipeline_of(u), 0);
    u->seq_high = pg_col_count(pg_conn_result(pg_pipeline_of(u), 1), 0, 0);
    for (int i = 0; i < PQntuples(r); i++) {
        struct kept_reply *w = unit_alloc(u, sizeof *w);
        if (!w)
            return -ERR_NOMEM;
        *w = (struct kept_reply){
            .token = {(uint64_t)pg_col_i8(r, i, 1), (uint32_t)pg_col_i4(r, i, 0)},
            .seq = pg_col_seq(r, i, 2),
            .kind = pg_col_kind(r, i, 3, OP_KIND_COUNT + 1),
            .state = pg_col_kind(r, i, 4, STATE_COUNT),
            .run_at = {pg_col_time(r, i, 5)},
            .next = u->loaded_replies};
        u->loaded_replies = w;
    }
    return 0;
}

/* --- jobs that share a unique key (unique_widens in core/queues/unique.h) --- */

bool pg_unit_needs_sharers(struct unit *u)
{
    const struct wqueue *q;
    if (!unit_queue_widens(u, &q))
        return false;
    pg_unit(u)->asked |= ASKED_SHARERS;
    pg_args_i4(&pg_unit(u)->args, (int32_t)q->number);
    pg_args_i4(&pg_unit(u)->args, (int32_t)q->generation);
    pg_conn_send(pg_pipeline_of(u), SQL_KEY_SHARERS, &pg_unit(u)->args);
    return true;
}

/* Rows of (job with its queue, how many besides the first). */
void pg_unit_sharers_loaded(struct unit *u)
{
    PGresult *r = pg_conn_take_result(pg_pipeline_of(u), 0);
    if (!pg_unit_keep(u, r) || PQntuples(r) == 0)
        return;
    u->sharers = arena_array(&u->arena, (size_t)PQntuples(r), sizeof *u->sharers);
    for (int i = 0; u->sharers && i < PQntuples(r); i++) {
        pg_view_row(r, i, u->now, true, &u->sharers[i]);
        u->sharers[i].payload = u->sharers[i].result = (struct span){NULL, 0};
    }
    u->nomem |= !u->sharers;
    u->sharer_count = (uint32_t)PQntuples(r);
    u->sharers_beyond = (uint64_t)pg_col_i8(r, 0, JOB_QUEUE_PAUSED + 1);
}

/* --- the unit itself --- */

void pg_unit_init(struct pg_unit *p, struct pg_store *s)
{
    *p = (struct pg_unit){.work_at = SIZE_MAX, .removed_at = SIZE_MAX};
    unit_init(&p->unit, &s->sh);
    pg_args_init(&p->args);
}

bool pg_unit_keep(struct unit *u, PGresult *r)
{
    struct pg_unit *p = pg_unit(u);
    if (p->kept_count == p->kept_room) {
        PGresult **grown = mem_regrow(p->kept, p->kept_room * 2 + 64, sizeof(PGresult *));
        if (!grown) {
            u->nomem = true;
            PQclear(r);
            return false;
        }
        p->kept = grown;
        p->kept_room = p->kept_room * 2 + 64;
    }
    p->kept[p->kept_count++] = r;
    return true;
}

void pg_unit_reset(struct unit *u)
{
    struct pg_unit *p = pg_unit(u);
    for (size_t i = 0; i < p->kept_count; i++)
        PQclear(p->kept[i]);
    p->kept_count = 0;
    p->asked = 0;
    p->work_at = p->removed_at = SIZE_MAX;
    pg_args_clear(&p->args);
    unit_reset(u);
}

void pg_unit_done(struct pg_unit *p)
{
    pg_unit_reset(&p->unit);
    unit_done(&p->unit);
    pg_args_done(&p->args);
    mem_free(p->kept);
}
