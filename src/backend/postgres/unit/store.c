/* SPDX-License-Identifier: Apache-2.0 */
/* What a unit writes: one statement for each table, with all rows of the unit as arrays, so that
 * the number of statements does not grow with the number of operations.
 *
 * The order of the statements matters. A unique key is held by one row at a time (the unique index
 * job_key): if it passes from one job to another within a unit, the job that releases it is written
 * before the job that gets it, and rows are removed before rows are added. Payloads of dying jobs
 * are copied to their keys before these jobs are changed. If another node got a key first, the
 * insert fails and the unit begins again (transact.c).
 *
 * Sums are not updated in place: rows of delta_add and key_delta_add are only added, so that units
 * of different nodes never wait for each other's counters. The leader moves them to the totals
 * (add_deltas). */
#include "backend/postgres/impl.h"
#include "backend/postgres/sql/version.h"

#define HOUR_MS INT64_C(3600000)

typedef bool (*pick_fn)(const struct row *r);
/* Adds one column of one row to the open array. */
typedef void (*column_fn)(struct args *a, const struct row *r);

static bool is_set(const struct row *r)
{
    return r->changed && !r->gone;
}

static bool is_new(const struct row *r)
{
    return r->fresh && !r->gone;
}

static bool is_gone(const struct row *r)
{
    return r->gone && !r->fresh;
}

static bool lets_go(const struct row *r)
{
    return !r->fresh && !r->gone && r->was_held && !r->held;
}

static bool takes_key(const struct row *r)
{
    return is_set(r) && !r->fresh && r->held && !r->was_held;
}

static bool has_result(const struct row *r)
{
    return r->set_result && !r->gone;
}

static bool has_error(const struct row *r)
{
    return r->set_error && !r->gone;
}

static bool has_report(const struct row *r)
{
    return r->set_report && !r->gone;
}

static bool has_new_steps(const struct row *r)
{
    return r->new_steps.len && !r->gone;
}

static bool has_note(const struct row *r)
{
    return r->set_note && !r->gone;
}

static size_t how_many(const struct unit *u, pick_fn pick)
{
    size_t n = 0;
    for (size_t i = 0; i < u->row_count; i++)
        n += pick(u->rows[i]);
    return n;
}

static void column(struct unit *u, pick_fn pick, enum array_of of, column_fn add)
{
    pg_array_begin(&pg_unit(u)->args, of);
    for (size_t i = 0; i < u->row_count; i++)
        if (pick(u->rows[i]))
            add(&pg_unit(u)->args, u->rows[i]);
    pg_array_end(&pg_unit(u)->args);
}

/* Columns of jobs, as functions. */
#define I8_COLUMN(name, expression)                                                                \
    static void c_##name(struct args *a, const struct row *r)                                      \
    {                                                                                              \
        pg_array_i8(a, (int64_t)(expression));                                                     \
    }
#define I4_COLUMN(name, expression)                                                                \
    static void c_##name(struct args *a, const struct row *r)                                      \
    {                                                                                              \
        pg_array_i4(a, (int32_t)(expression));                                                     \
    }
#define I2_COLUMN(name, expression)                                                                \
    static void c_##name(struct args *a, const struct row *r)                                      \
    {                                                                                              \
        pg_array_i2(a, (int16_t)(expression));                                                     \
    }
#define TEXT_COLUMN(name, expression)                                                              \
    static void c_##name(struct args *a, const struct row *r)                                      \
    {                                                                                              \
        pg_array_bytes(a, expression);                                                             \
    }

static uint64_t outcome_counts_pack(const struct outcome_counts *f)
{
    return (uint64_t)f->claims | (uint64_t)f->timeouts << 16 | (uint64_t)f->releases << 32 |
           (uint64_t)f->rejections << 48 | (uint64_t)f->requeues << 56;
}

static bool occupies_slot(const struct row *r)
{
    return r->job.state == STATE_RUNNING && claim_limited(&r->q->policy);
}

I8_COLUMN(seq, r->job.seq)
I8_COLUMN(id_hi, r->job.id_hi)
I4_COLUMN(queue, r->job.queue)
I2_COLUMN(state, r->job.state)
I2_COLUMN(reason, r->job.reason)
I8_COLUMN(priority, r->job.priority)
I8_COLUMN(run_at, r->job.run_at.ms)
I8_COLUMN(since, r->job.since.ms)
I4_COLUMN(generation, r->job.generation)
I4_COLUMN(failures, r->job.failures)
I4_COLUMN(crashes, r->job.crashes)
I2_COLUMN(payload_kind, r->job.payload_kind)
I4_COLUMN(payload_bytes, r->job.payload_bytes)
I2_COLUMN(flags, r->job.flags | (occupies_slot(r) ? FLAG_SLOT : 0))
I4_COLUMN(tok_epoch, r->token.epoch)
I8_COLUMN(tok_counter, r->token.counter)
I4_COLUMN(lease_ms, r->lease_ms)
I8_COLUMN(until, r->until_ms)
I8_COLUMN(timeout_ms, r->limits.timeout_ms)
I4_COLUMN(cancel_grace_ms, r->limits.cancel_grace_ms)
I8_COLUMN(cancel_at, r->limits.cancel_at.ms)
TEXT_COLUMN(worker, r->worker)
I8_COLUMN(nonce, r->nonce)
I8_COLUMN(started_at, r->started_at.ms)
I2_COLUMN(reply_kind, r->reply_kind)
I2_COLUMN(reply_state, r->reply_state)
I8_COLUMN(reply_run_at, r->reply_run_at.ms)
I8_COLUMN(outcome_counts, outcome_counts_pack(&r->outcome_counts))
TEXT_COLUMN(label, r->extra.label)
TEXT_COLUMN(attributes, r->extra.attributes)
I8_COLUMN(expires_at, r->extra.expires_at.ms)
TEXT_COLUMN(options, r->extra.options)
TEXT_COLUMN(undelivered, r->extra.undelivered)
TEXT_COLUMN(payload, r->payload)
I2_COLUMN(result_kind, r->result_kind)
TEXT_COLUMN(result, r->result)
I2_COLUMN(error_kind, r->error_kind)
TEXT_COLUMN(error, r->error)
TEXT_COLUMN(progress, r->progress)
TEXT_COLUMN(log, r->log)
TEXT_COLUMN(step_index, r->step_index)

I8_COLUMN(holder, r->holder.seq)
I8_COLUMN(holder_hi, r->holder.hi)

static void c_held(struct args *a, const struct row *r)
{
    pg_array_bool(a, r->held);
}

struct column {
    enum array_of of;
    column_fn add;
};

/* In the order of the statement's arguments. */
static const struct column set_columns[] = {
    {ARRAY_I8, c_seq},         {ARRAY_I2, c_state},           {ARRAY_I2, c_reason},
    {ARRAY_I8, c_priority},    {ARRAY_I8, c_run_at},          {ARRAY_I8, c_since},
    {ARRAY_I4, c_generation},  {ARRAY_I4, c_failures},        {ARRAY_I4, c_crashes},
    {ARRAY_I2, c_flags},       {ARRAY_I4, c_tok_epoch},       {ARRAY_I8, c_tok_counter},
    {ARRAY_I4, c_lease_ms},    {ARRAY_I8, c_until},           {ARRAY_TEXT, c_worker},
    {ARRAY_I8, c_nonce},       {ARRAY_I8, c_started_at},      {ARRAY_I2, c_reply_kind},
    {ARRAY_I2, c_reply_state}, {ARRAY_I8, c_reply_run_at},    {ARRAY_I8, c_outcome_counts},
    {ARRAY_BOOL, c_held},      {ARRAY_I8, c_holder},          {ARRAY_I8, c_holder_hi},
    {ARRAY_I8, c_timeout_ms},  {ARRAY_I4, c_cancel_grace_ms}, {ARRAY_I8, c_cancel_at},
};
/* Followed by one for each text of core/jobs/job_texts.h. */
static const struct column new_columns[] = {
    {ARRAY_I8, c_seq},           {ARRAY_I8, c_id_hi},      {ARRAY_I4, c_queue},
    {ARRAY_I2, c_state},         {ARRAY_I2, c_reason},     {ARRAY_I8, c_priority},
    {ARRAY_I8, c_run_at},        {ARRAY_I8, c_since},      {ARRAY_I4, c_generation},
    {ARRAY_I4, c_failures},      {ARRAY_I4, c_crashes},    {ARRAY_I2, c_payload_kind},
    {ARRAY_I4, c_payload_bytes}, {ARRAY_I2, c_flags},      {ARRAY_BOOL, c_held},
    {ARRAY_I8, c_expires_at},    {ARRAY_BYTES, c_options}, {ARRAY_BYTES, c_undelivered},
    {ARRAY_BYTES, c_payload},    {ARRAY_I2, c_error_kind}, {ARRAY_BYTES, c_error},
};
static const struct column seq_column[] = {{ARRAY_I8, c_seq}};
static const struct column result_columns[] = {
    {ARRAY_I8, c_seq}, {ARRAY_I2, c_result_kind}, {ARRAY_BYTES, c_result}};
static const struct column error_columns[] = {
    {ARRAY_I8, c_seq}, {ARRAY_I2, c_error_kind}, {ARRAY_BYTES, c_error}};
static const struct column report_columns[] = {
    {ARRAY_I8, c_seq}, {ARRAY_BYTES, c_progress}, {ARRAY_BYTES, c_log}};
static const struct column step_columns[] = {{ARRAY_I8, c_seq}, {ARRAY_BYTES, c_step_index}};
static const struct column note_columns[] = {
    {ARRAY_I8, c_seq}, {ARRAY_TEXT, c_label}, {ARRAY_TEXT, c_attributes}};
#define COLUMNS(table) table, sizeof(table) / sizeof(table)[0]

static void text_column(struct unit *u, pick_fn pick, size_t text)
{
    struct args *a = &pg_unit(u)->args;
    pg_array_begin(a, ARRAY_TEXT);
    for (size_t i = 0; i < u->row_count; i++)
        if (pick(u->rows[i]))
            pg_array_bytes(a, job_text_of(&u->rows[i]->extra, text));
    pg_array_end(a);
}

static void send_rows(struct unit *u, enum sql_id id, pick_fn pick, const struct column *columns,
                      size_t count)
{
    if (how_many(u, pick) == 0)
        return;
    for (size_t i = 0; i < count; i++)
        column(u, pick, columns[i].of, columns[i].add);
    for (size_t i = 0; id == SQL_JOB_NEW && i < JOB_TEXTS; i++)
        text_column(u, pick, i);
    pg_conn_send(pg_pipeline_of(u), id, &pg_unit(u)->args);
}

static bool is_set_there(const struct row *r)
{
    return is_set(r) && !r->fresh;
}

/* A new job that was claimed at once, or comes from another store: the insert does not write
 * leases. */
static bool is_set_fresh(const struct row *r)
{
    return is_set(r) && r->fresh && (r->token.counter || r->moved);
}

static void send_payloads(struct unit *u)
{
    for (size_t i = 0; i < u->row_count; i++) {
        const struct row *r = u->rows[i];
        if (!r->set_payload || r->gone || r->fresh)
            continue;
        pg_args_i8(&pg_unit(u)->args, (int64_t)r->job.seq);
        pg_args_i4(&pg_unit(u)->args, r->job.payload_kind);
        pg_args_bytes(&pg_unit(u)->args, r->payload);
        pg_args_i4(&pg_unit(u)->args, (int32_t)r->job.payload_bytes);
        pg_conn_send(pg_pipeline_of(u), SQL_JOB_PAYLOAD, &pg_unit(u)->args);
    }
}

/* One column of the steps that the unit stores; `one` adds its value for the step s of the row r.
 */
#define STEP_COLUMN(of, one)                                                                       \
    do {                                                                                           \
        pg_array_begin(a, of);                                                                     \
        for (size_t i = 0; i < u->row_count; i++) {                                                \
            const struct row *r = u->rows[i];                                                      \
            struct span list = has_new_steps(r) ? r->new_steps : (struct span){NULL, 0};           \
            struct step s;                                                                         \
            while (steps_next(&list, &s))                                                          \
                (one);                                                                             \
        }                                                                                          \
        pg_array_end(a);                                                                           \
    } while (0)

static void send_steps(struct unit *u)
{
    struct args *a = &pg_unit(u)->args;
    if (how_many(u, has_new_steps) == 0)
        return;
    send_rows(u, SQL_JOB_STEPS, has_new_steps, COLUMNS(step_columns));
    STEP_COLUMN(ARRAY_I8, pg_array_i8(a, (int64_t)r->job.seq));
    STEP_COLUMN(ARRAY_TEXT, pg_array_blob(a, s.name));
    STEP_COLUMN(ARRAY_BYTES, pg_array_blob(a, s.result));
    pg_conn_send(pg_pipeline_of(u), SQL_STEP_PUT, a);
}

static void send_jobs(struct unit *u)
{
    send_rows(u, SQL_JOB_DEL, is_gone, COLUMNS(seq_column));
    send_rows(u, SQL_ATTEMPT_DEL, is_gone, COLUMNS(seq_column));
    if (how_many(u, takes_key))
        send_rows(u, SQL_JOB_RELEASE_KEY, lets_go, COLUMNS(seq_column));
    send_rows(u, SQL_JOB_SET, is_set_there, COLUMNS(set_columns));
    send_rows(u, SQL_JOB_NEW, is_new, COLUMNS(new_columns));
    send_rows(u, SQL_JOB_SET, is_set_fresh, COLUMNS(set_columns));
    send_payloads(u);
    send_rows(u, SQL_JOB_RESULT, has_result, COLUMNS(result_columns));
    send_rows(u, SQL_JOB_ERROR, has_error, COLUMNS(error_columns));
    send_rows(u, SQL_JOB_REPORT, has_report, COLUMNS(report_columns));
    send_steps(u);
    send_rows(u, SQL_JOB_DESCRIBE, has_note, COLUMNS(note_columns));
}

/* --- the other tables --- */

/* One column of a list; `one` adds its value for x. */
#define LIST_COLUMN(first, of, one)                                                                \
    do {                                                                                           \
        pg_array_begin(&pg_unit(u)->args, of);                                                     \
        for (const __typeof__(*(first)) *x = (first); x; x = x->next)                              \
            (one);                                                                                 \
        pg_array_end(&pg_unit(u)->args);                                                           \
    } while (0)

static void send_attempts(struct unit *u)
{
    struct ended **link = &u->ended;
    while (*link) /* attempts of removed jobs are removed with them */
        if ((*link)->row->gone)
            *link = (*link)->next;
        else
            link = &(*link)->next;
    if (!u->ended)
        return;
#define EACH u->ended
    LIST_COLUMN(EACH, ARRAY_I8, pg_array_i8(&pg_unit(u)->args, (int64_t)x->row->job.seq));
    LIST_COLUMN(EACH, ARRAY_I4, pg_array_i4(&pg_unit(u)->args, (int32_t)x->row->job.queue));
    LIST_COLUMN(EACH, ARRAY_I4, pg_array_i4(&pg_unit(u)->args, (int32_t)x->number));
    LIST_COLUMN(EACH, ARRAY_I8, pg_array_i8(&pg_unit(u)->args, x->started_at.ms));
    LIST_COLUMN(EACH, ARRAY_I8, pg_array_i8(&pg_unit(u)->args, x->at.ms));
    LIST_COLUMN(EACH, ARRAY_I2, pg_array_i2(&pg_unit(u)->args, x->outcome));
    LIST_COLUMN(EACH, ARRAY_I2, pg_array_i2(&pg_unit(u)->args, x->error_kind));
    LIST_COLUMN(EACH, ARRAY_TEXT, pg_array_bytes(&pg_unit(u)->args, x->worker));
    LIST_COLUMN(EACH, ARRAY_BYTES, pg_array_bytes(&pg_unit(u)->args, x->error));
    pg_conn_send(pg_pipeline_of(u), SQL_ATTEMPT_NEW, &pg_unit(u)->args);
    LIST_COLUMN(EACH, ARRAY_I8, pg_array_i8(&pg_unit(u)->args, (int64_t)x->row->job.seq));
#undef EACH
    pg_conn_send(pg_pipeline_of(u), SQL_ATTEMPT_TRIM, &pg_unit(u)->args);
}

/* Replies about jobs that this unit removes are stored, too. */
static void store_replies_removed(struct unit *u)
{
    for (size_t i = 0; i < u->row_count; i++)
        if (u->rows[i]->gone)
            unit_keep_reply(u, u->rows[i]);
}

static void send_replies(struct unit *u)
{
    store_replies_removed(u);
    if (!u->new_replies)
        return;
#define EACH u->new_replies
    LIST_COLUMN(EACH, ARRAY_I4, pg_array_i4(&pg_unit(u)->args, (int32_t)x->token.epoch));
    LIST_COLUMN(EACH, ARRAY_I8, pg_array_i8(&pg_unit(u)->args, (int64_t)x->token.counter));
    LIST_COLUMN(EACH, ARRAY_I8, pg_array_i8(&pg_unit(u)->args, (int64_t)x->seq));
    LIST_COLUMN(EACH, ARRAY_I2, pg_array_i2(&pg_unit(u)->args, x->kind));
    LIST_COLUMN(EACH, ARRAY_I2, pg_array_i2(&pg_unit(u)->args, x->state));
    LIST_COLUMN(EACH, ARRAY_I8, pg_array_i8(&pg_unit(u)->args, x->run_at.ms));
    LIST_COLUMN(EACH, ARRAY_I8, pg_array_i8(&pg_unit(u)->args, u->now.ms));
#undef EACH
    pg_conn_send(pg_pipeline_of(u), SQL_KEPT_REPLY_NEW, &pg_unit(u)->args);
}

static void send_idems(struct unit *u)
{
    struct idem **link = &u->idems;
    while (*link)
        if ((*link)->fresh)
            link = &(*link)->next;
        else
            *link = (*link)->next;
    if (!u->idems)
        return;
        /* If another node took the key meanwhile, the insert fails, and the unit begins again. */
#define EACH u->idems
    LIST_COLUMN(EACH, ARRAY_I8, pg_array_i8(&pg_unit(u)->args, (int64_t)x->key.hi));
    LIST_COLUMN(EACH, ARRAY_I8, pg_array_i8(&pg_unit(u)->args, (int64_t)x->key.lo));
    pg_args_i8(&pg_unit(u)->args, u->now.ms);
    if (u->idem_replaced)
        pg_conn_send(pg_pipeline_of(u), SQL_IDEMPOTENCY_KEY_DEL, &pg_unit(u)->args);
    else
        pg_args_clear(&pg_unit(u)->args);
    LIST_COLUMN(EACH, ARRAY_I8, pg_array_i8(&pg_unit(u)->args, (int64_t)x->key.hi));
    LIST_COLUMN(EACH, ARRAY_I8, pg_array_i8(&pg_unit(u)->args, (int64_t)x->key.lo));
    LIST_COLUMN(EACH, ARRAY_I8, pg_array_i8(&pg_unit(u)->args, (int64_t)x->fingerprint));
    LIST_COLUMN(EACH, ARRAY_I8, pg_array_i8(&pg_unit(u)->args, (int64_t)x->seq));
    LIST_COLUMN(EACH, ARRAY_I8, pg_array_i8(&pg_unit(u)->args, (int64_t)x->id_hi));
    LIST_COLUMN(EACH, ARRAY_I8, pg_array_i8(&pg_unit(u)->args, x->expires_at.ms));
#undef EACH
    pg_conn_send(pg_pipeline_of(u), SQL_IDEMPOTENCY_KEY_NEW, &pg_unit(u)->args);
}

static int64_t bounded(uint64_t v)
{
    return v > (uint64_t)INT64_MAX / 4 ? INT64_MAX / 4 : (int64_t)v;
}

typedef bool (*queue_pick_fn)(const struct wqueue *q);

static bool is_put(const struct wqueue *q)
{
    return q->put;
}

static bool is_purged(const struct wqueue *q)
{
    return q->purged && !q->ended;
}

static bool is_ended(const struct wqueue *q)
{
    return q->ended;
}

static void add_policy(struct unit *u, const struct wqueue *q)
{
    struct buf policy;
    buf_init(&policy);
    if (policy_encode(&q->policy, &policy) != 0)
        u->nomem = pg_unit(u)->args.failed = true;
    pg_array_blob(&pg_unit(u)->args, buf_span(&policy));
    buf_done(&policy);
}

/* One column of the queues that are picked; `one` adds its value for q. */
#define QUEUE_COLUMN(pick, of, one)                                                                \
    do {                                                                                           \
        pg_array_begin(a, of);                                                                     \
        for (size_t i = 0; i < u->queue_count; i++) {                                              \
            const struct wqueue *q = u->queues[i];                                                 \
            if (pick(q))                                                                           \
                (one);                                                                             \
        }                                                                                          \
        pg_array_end(a);                                                                           \
    } while (0)

static void send_puts(struct unit *u)
{
    struct args *a = &pg_unit(u)->args;
    QUEUE_COLUMN(is_put, ARRAY_I4, pg_array_i4(a, (int32_t)q->number));
    QUEUE_COLUMN(is_put, ARRAY_TEXT, pg_array_blob(a, q->name));
    QUEUE_COLUMN(is_put, ARRAY_TEXT, pg_array_bytes(a, q->owner));
    QUEUE_COLUMN(is_put, ARRAY_TEXT, pg_array_bytes(a, q->note));
    QUEUE_COLUMN(is_put, ARRAY_TEXT, pg_array_bytes(a, q->attributes));
    QUEUE_COLUMN(is_put, ARRAY_BYTES, add_policy(u, q));
    QUEUE_COLUMN(is_put, ARRAY_I4, pg_array_i4(a, (int32_t)q->generation));
    QUEUE_COLUMN(is_put, ARRAY_I8, pg_array_i8(a, q->created_at.ms));
    QUEUE_COLUMN(is_put, ARRAY_I8, pg_array_i8(a, q->updated_at.ms));
    QUEUE_COLUMN(is_put, ARRAY_I8, pg_array_i8(a, q->paused_until.ms));
    QUEUE_COLUMN(is_put, ARRAY_I8, pg_array_i8(a, bounded(q->policy.keep_done)));
    QUEUE_COLUMN(is_put, ARRAY_I8, pg_array_i8(a, bounded((uint64_t)q->policy.keep_done_ms)));
    QUEUE_COLUMN(is_put, ARRAY_I8, pg_array_i8(a, bounded(q->policy.keep_dead)));
    QUEUE_COLUMN(is_put, ARRAY_I8, pg_array_i8(a, bounded((uint64_t)q->policy.keep_dead_ms)));
    pg_conn_send(pg_pipeline_of(u), SQL_QUEUE_PUT, a);
}

static void send_marks(struct unit *u, queue_pick_fn pick, enum sql_id id)
{
    struct args *a = &pg_unit(u)->args;
    QUEUE_COLUMN(pick, ARRAY_I4, pg_array_i4(a, (int32_t)q->number));
    pg_conn_send(pg_pipeline_of(u), id, a);
}

static bool any_queue(const struct unit *u, queue_pick_fn pick)
{
    for (size_t i = 0; i < u->queue_count; i++)
        if (pick(u->queues[i]))
            return true;
    return false;
}

static void send_queues(struct unit *u)
{
    if (any_queue(u, is_put))
        send_puts(u);
    if (any_queue(u, is_purged))
        send_marks(u, is_purged, SQL_QUEUE_PURGE);
    if (any_queue(u, is_ended))
        send_marks(u, is_ended, SQL_QUEUE_DELETE);
}

static bool adds_any(const struct wqueue *q)
{
    for (int c = 0; c < SUM_COUNT; c++)
        if (q->adds[c])
            return true;
    return false;
}

static void send_queue_sums(struct unit *u)
{
    struct args *a = &pg_unit(u)->args;
    size_t n = 0;
    for (size_t i = 0; i < u->queue_count; i++)
        n += adds_any(u->queues[i]);
    if (n == 0)
        return;
    QUEUE_COLUMN(adds_any, ARRAY_I4, pg_array_i4(a, (int32_t)q->number));
    QUEUE_COLUMN(adds_any, ARRAY_I4, pg_array_i4(a, (int32_t)(u->now.ms / HOUR_MS)));
    for (int sum = 0; sum < SUM_COUNT; sum++)
        QUEUE_COLUMN(adds_any, ARRAY_I8, pg_array_i8(a, q->adds[sum]));
    pg_conn_send(pg_pipeline_of(u), SQL_DELTA_ADD, a);
}

static void send_key_sums(struct unit *u)
{
    struct args *a = &pg_unit(u)->args;
    if (u->key_adds == 0 && u->kv_key_adds == 0 && u->kv_byte_adds == 0)
        return;
    pg_args_i8(a, u->key_adds);
    pg_args_i8(a, u->kv_key_adds);
    pg_args_i8(a, u->kv_byte_adds);
    pg_conn_send(pg_pipeline_of(u), SQL_KEY_DELTA_ADD, a);
}

bool unit_changed(const struct unit *u)
{
    bool changed = u->key_adds != 0 || u->new_replies || u->bulk || unit_schedules_changed(u) ||
                   unit_alerts_changed(u);
    for (size_t i = 0; i < u->wkey_count && !changed; i++)
        changed = u->wkeys[i]->changed;
    for (size_t i = 0; i < u->row_count && !changed; i++)
        changed = u->rows[i]->changed || u->rows[i]->set_note || u->rows[i]->set_result ||
                  u->rows[i]->set_error || u->rows[i]->set_report || u->rows[i]->new_steps.len;
    for (size_t i = 0; i < u->queue_count && !changed; i++)
        changed = u->queues[i]->put || u->queues[i]->purged || u->queues[i]->ended ||
                  adds_any(u->queues[i]);
    return changed;
}

/* Loads bodies that claims show and that did not come with the rows. */
static void send_bodies(struct unit *u)
{
    size_t n = 0;
    pg_array_begin(&pg_unit(u)->args, ARRAY_I8);
    for (size_t i = 0; i < u->count; i++)
        for (uint32_t k = 0; u->turns[i].bodies && k < u->turns[i].reply.job_count; k++)
            if (!u->turns[i].bodies[k]->has_payload) {
                pg_array_i8(&pg_unit(u)->args, (int64_t)u->turns[i].bodies[k]->job.seq);
                n++;
            }
    pg_array_end(&pg_unit(u)->args);
    pg_unit(u)->slots[0] = SIZE_MAX;
    if (n == 0) {
        pg_args_clear(&pg_unit(u)->args);
        return;
    }
    pg_unit(u)->slots[0] = pg_conn_sent(pg_pipeline_of(u));
    pg_conn_send(pg_pipeline_of(u), SQL_BODIES, &pg_unit(u)->args);
}

/* Loads the results of steps that claims show. */
static void send_claimed_steps(struct unit *u)
{
    struct args *a = &pg_unit(u)->args;
    size_t n = 0;
    pg_array_begin(a, ARRAY_I8);
    for (size_t i = 0; i < u->count; i++)
        for (uint32_t k = 0; u->turns[i].bodies && k < u->turns[i].reply.job_count; k++)
            if (u->turns[i].bodies[k]->step_index.len) {
                pg_array_i8(a, (int64_t)u->turns[i].bodies[k]->job.seq);
                n++;
            }
    pg_array_end(a);
    pg_unit(u)->slots[STEPS_SLOT] = SIZE_MAX;
    if (n == 0) {
        pg_args_clear(a);
        return;
    }
    pg_unit(u)->slots[STEPS_SLOT] = pg_conn_sent(pg_pipeline_of(u));
    pg_conn_send(pg_pipeline_of(u), SQL_STEPS, a);
}

/* After the jobs, because their states decide, by the rule of unique_holds (core/queues/unique.h).
 */
static void send_rescope(struct unit *u)
{
    if (!u->rescoped)
        return;
    pg_args_i4(&pg_unit(u)->args, (int32_t)u->rescoped->number);
    pg_args_i4(&pg_unit(u)->args, u->rescoped->policy.unique_scope);
    pg_args_i4(&pg_unit(u)->args, (int32_t)u->rescoped->generation);
    pg_conn_send(pg_pipeline_of(u), SQL_RESCOPE, &pg_unit(u)->args);
}

/* Before the jobs, because their sequences must never be used again. */
static void send_floor(struct unit *u)
{
    if (u->seq_floor == 0)
        return;
    pg_args_i8(&pg_unit(u)->args, (int64_t)u->seq_floor);
    pg_conn_send(pg_pipeline_of(u), SQL_SEQ_RAISE, &pg_unit(u)->args);
}

void pg_unit_send_store(struct unit *u)
{
    send_floor(u);
    send_queues(u);
    send_rescope(u);
    pg_keys_send_store(u);
    pg_schedules_send_store(u);
    pg_alerts_send_store(u);
    send_jobs(u);
    pg_dependencies_send_store(u);
    pg_limits_send_store(u);
    send_attempts(u);
    send_replies(u);
    send_idems(u);
    send_queue_sums(u);
    send_key_sums(u);
    pg_bulk_send_begin(u);
    send_bodies(u);
    send_claimed_steps(u);
}
