/* SPDX-License-Identifier: Apache-2.0 */
/* The inbox: jobs that users enqueue with SQL in transactions of their own (sql/inbox.sql).
 *
 * The function `enqueue` draws the sequence of the job, writes a row of the table inbox and sends a
 * notification, all of it in the transaction of its caller. When that commits, every node is woken.
 * One node at a time takes a batch of rows (an advisory lock keeps the order), executes an
 * OP_ENQUEUE for each as if a client had sent it, and stores the jobs in the transaction that
 * removes the rows: a job is created exactly once, whichever node dies at whatever time. A node
 * that is woken while another one works takes nothing; the one that works was woken as well and
 * looks again.
 *
 * What the rules refuse is moved to the table inbox_refusal, because no one waits for a reply.
 *
 * Rows are taken in the order of their sequences, but they become visible in the order of the
 * commits. A batch therefore takes whatever is there, and never remembers how far it has come.
 *
 * A batch that the database refuses because of its contents is halved until the row at fault is
 * alone; that row is refused (`failed`), so that it does not block the others. A lost connection, a
 * deadlock or a full disk is no fault of a row: the batch is tried again later. Rows that were not
 * announced (holdfast.wake = off, a lost connection, a pooler) are found by the heartbeat. */
#include "backend/postgres/impl.h"

#include "backend/postgres/sql/inbox_limits.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "core/jobs/headers.h"
#include "core/jobs/id.h"

/* The columns of SQL_INBOX_TAKE; the part inbox_values has the same order. */
enum inbox_column {
    INBOX_SEQ,
    INBOX_ID_HI,
    INBOX_QUEUE,
    INBOX_PAYLOAD_KIND,
    INBOX_PAYLOAD,
    INBOX_PRIORITY,
    INBOX_PRIORITY_NAME,
    INBOX_DELAY_MS,
    INBOX_RUN_AT,
    INBOX_EXPIRES_AT,
    INBOX_EXPIRES_IN_MS,
    INBOX_UNIQUE_MODE,
    INBOX_MAX_ATTEMPTS,
    INBOX_MAX_CRASHES,
    INBOX_LEASE_MS,
    INBOX_TIMEOUT_MS,
    INBOX_BACKOFF,
    INBOX_IDEMPOTENCY_KEY,
    INBOX_FINGERPRINT,
    INBOX_TEXT, /* one for each of core/jobs/job_texts.h */
    INBOX_MORE = INBOX_TEXT + JOB_TEXTS
};

/* A row of the batch. */
struct inbox_row {
    struct op op;
    struct job_options options;
    const struct turn *turn; /* NULL = it was refused before the rules were asked */
    const char *reason;      /* NULL = not refused */
    const char *detail;
    char instead[ID_ULID_BYTES]; /* "" = no other job exists in its place */
    struct err_note note;
};

/* --- when --- */

bool pg_inbox_due(const struct pg_store *s)
{
    return s->inbox.wanted && !s->sh.config.still && !s->sh.closing;
}

/* Batches and operations of clients alternate. */
bool pg_inbox_turn(struct pg_store *s)
{
    s->inbox.last = pg_inbox_due(s) && (!s->sh.first || !s->inbox.last);
    return s->inbox.last;
}

void pg_inbox_counted(struct pg_store *s, const PGresult *r)
{
    s->sh.figures.inbox_waiting = pg_col_count(r, 0, 0);
    s->sh.figures.inbox_kept = pg_col_count(r, 0, 1);
    s->inbox.wanted |= s->sh.figures.inbox_waiting > 0;
}

/* --- from a row to an operation --- */

static bool refuse(struct inbox_row *row, const char *reason, const char *detail)
{
    row->reason = reason;
    row->detail = detail;
    return false;
}

/* As inbox_add writes it: "l" and the steps, or "e" and base, maximum and jitter, -1 = the
 * default. */
static bool read_backoff(struct inbox_row *row, struct unit *u, struct span text)
{
    struct queue_policy standard;
    struct backoff *b = &row->options.backoff;
    long n[LIMIT_BACKOFF_STEPS];
    size_t count = 0;
    char *words = mem_text(text.at, text.len);
    if (!words) {
        u->nomem = true;
        return false;
    }
    for (char *at = words + 1, *end; *at && count < LIMIT_BACKOFF_STEPS; at = end, count++) {
        n[count] = strtol(at, &end, 10);
        if (end == at)
            break;
    }
    policy_default(&standard);
    *b = standard.backoff;
    bool list = words[0] == 'l';
    mem_free(words);
    row->options.has_backoff = true;
    if (list) {
        *b = (struct backoff){.kind = BACKOFF_LIST, .step_count = (uint8_t)count};
        for (size_t i = 0; i < count; i++)
            b->step_ms[i] = (uint32_t)n[i];
        return true;
    }
    if (count != 3)
        return refuse(row, "invalid", "its backoff cannot be read");
    b->kind = BACKOFF_EXPONENTIAL;
    b->base_ms = n[0] >= 0 ? (uint32_t)n[0] : b->base_ms;
    b->max_ms = n[1] >= 0 ? (uint32_t)n[1] : b->max_ms;
    b->jitter_percent = n[2] >= 0 ? (uint8_t)n[2] : b->jitter_percent;
    return true;
}

static bool read_options(struct inbox_row *row, struct unit *u, const PGresult *r, int at)
{
    struct job_options *o = &row->options;
    struct span backoff = pg_col_bytes(r, at, INBOX_BACKOFF);
    o->max_attempts = (uint16_t)pg_col_i4(r, at, INBOX_MAX_ATTEMPTS);
    o->max_crashes = (uint16_t)pg_col_i4(r, at, INBOX_MAX_CRASHES);
    o->lease_ms = (uint32_t)pg_col_i4(r, at, INBOX_LEASE_MS);
    o->timeout_ms = (uint32_t)pg_col_i8(r, at, INBOX_TIMEOUT_MS);
    if (backoff.len && !read_backoff(row, u, backoff))
        return false;
    row->op.enqueue.options = options_empty(o) ? NULL : o;
    return true;
}

/* A priority is a number, or a label of this server's settings. */
static bool read_priority(struct inbox_row *row, struct unit *u, const PGresult *r, int at)
{
    const struct backend_config *config = &u->s->config;
    struct op_enqueue *want = &row->op.enqueue;
    struct span name = pg_col_bytes(r, at, INBOX_PRIORITY_NAME);
    want->has_priority = name.len || !PQgetisnull(r, at, INBOX_PRIORITY);
    want->priority = pg_col_i8(r, at, INBOX_PRIORITY);
    if (!name.len)
        return true;
    if (!config->label_find || !config->label_find(config->label_ctx, name, &want->priority))
        return refuse(row, "invalid", "priority is a label that the server does not have");
    if (!want->extra.label.len)
        want->extra.label = name;
    return true;
}

static bool read_texts(struct inbox_row *row, struct unit *u, const PGresult *r, int at)
{
    struct job_extra *x = &row->op.enqueue.extra;
    for (int i = 0; i < JOB_TEXTS; i++)
        *job_text_at(x, (size_t)i) = pg_col_bytes(r, at, INBOX_TEXT + i);
    if (!x->headers.len)
        return true;
    int err = headers_read(x->headers, &u->arena, &x->headers, &row->note);
    u->nomem |= err == -ERR_NOMEM;
    return err == 0 || refuse(row, "invalid", row->note.text);
}

static int64_t later_ms(int64_t now, int64_t ms)
{
    int64_t left = LIMIT_WALL_MS - 1 - now;
    return now + (ms < left ? ms : left);
}

static void read_times(struct inbox_row *row, const struct unit *u, const PGresult *r, int at)
{
    struct op_enqueue *want = &row->op.enqueue;
    int64_t expires_in = pg_col_i8(r, at, INBOX_EXPIRES_IN_MS);
    want->delay_ms = pg_col_i8(r, at, INBOX_DELAY_MS);
    want->run_at.ms = pg_col_time(r, at, INBOX_RUN_AT);
    want->extra.expires_at.ms = expires_in > 0 ? later_ms(shared_now(u->s), expires_in)
                                               : pg_col_time(r, at, INBOX_EXPIRES_AT);
}

/* PostgreSQL accepts JSON that this program does not. */
static bool payload_right(struct inbox_row *row)
{
    const char *error = NULL;
    const struct op_enqueue *want = &row->op.enqueue;
    if (want->payload_kind != PAYLOAD_JSON || json_check(want->payload, &error, NULL) == 0)
        return true;
    snprintf(row->note.text, sizeof row->note.text, "payload: %s", error ? error : "no JSON");
    return refuse(row, "invalid", row->note.text);
}

/* False: it is refused (row->reason), or there was no memory. */
static bool read_row(struct inbox_row *row, struct unit *u, const PGresult *r, int at)
{
    struct op_enqueue *want = &row->op.enqueue;
    row->op.kind = OP_ENQUEUE;
    want->queue = pg_col_bytes(r, at, INBOX_QUEUE);
    want->id =
        (struct job_ref){pg_col_seq(r, at, INBOX_SEQ), (uint64_t)pg_col_i8(r, at, INBOX_ID_HI)};
    want->drawn = true;
    want->payload_kind = (uint8_t)pg_col_i2(r, at, INBOX_PAYLOAD_KIND);
    want->payload = pg_col_bytes(r, at, INBOX_PAYLOAD);
    want->unique_mode = (uint8_t)pg_col_i2(r, at, INBOX_UNIQUE_MODE);
    want->idempotency_key = pg_col_bytes(r, at, INBOX_IDEMPOTENCY_KEY);
    want->fingerprint = (uint64_t)pg_col_i8(r, at, INBOX_FINGERPRINT);
    read_times(row, u, r, at);
    return read_texts(row, u, r, at) && read_options(row, u, r, at) &&
           read_priority(row, u, r, at) && payload_right(row);
}

/* --- a batch, from begin to commit --- */

/* The rows that the rules are asked about become the turns of the unit. */
static int read_batch(struct pg_store *s, const PGresult *r)
{
    struct unit *u = s->unit;
    struct pg_inbox *in = &s->inbox;
    in->count = (size_t)PQntuples(r);
    in->rows = arena_array(&u->arena, in->count, sizeof *in->rows);
    if (!in->rows)
        return -ERR_NOMEM;
    u->count = 0;
    for (size_t i = 0; i < in->count; i++) {
        struct inbox_row *row = &in->rows[i];
        in->more |= pg_col_bool(r, (int)i, INBOX_MORE);
        if (pg_col_seq(r, (int)i, INBOX_SEQ) == 0)
            return -ERR_CORRUPT; /* a row that cannot even be named */
        if (!read_row(row, u, r, (int)i))
            continue;
        if (row->op.enqueue.id.seq == in->condemned) {
            refuse(row, "failed", in->trouble);
            continue;
        }
        row->turn = &u->turns[u->count];
        u->turns[u->count++] = (struct turn){.op = &row->op};
    }
    return u->nomem ? -ERR_NOMEM : 0;
}

static void taken_cb(void *ctx, int err, const struct round_error *error)
{
    struct pg_store *s = ctx;
    if (err) {
        pg_round_failed(s, err, error);
        return;
    }
    PGresult *r = pg_conn_take_result(s->pipeline, 1);
    int err_read = pg_unit_keep(s->unit, r) ? read_batch(s, r) : -ERR_NOMEM;
    if (err_read)
        pg_give_back(s, false, err_read == -ERR_NOMEM ? "out of memory" : "the inbox is damaged");
    else if (s->inbox.count == 0)
        pg_give_back(s, false, NULL);
    else if (s->unit->count == 0)
        pg_store_and_commit(s);
    else
        pg_load_unit(s);
}

void pg_begin_inbox(struct pg_store *s)
{
    struct unit *u = s->unit;
    struct pg_inbox *in = &s->inbox;
    pg_unit_reset(u);
    u->count = 0;
    in->wanted = in->fault = in->more = false;
    in->count = 0;
    in->rows = NULL;
    if (in->limit == 0)
        in->limit = INBOX_BATCH;
    work_begin(&s->progress, WORK_INBOX);
    pg_unit(u)->began_ns = clock_ns();
    u->now.ms = shared_now(&s->sh);
    pg_conn_send(s->pipeline, SQL_BEGIN, &pg_unit(u)->args);
    pg_args_i4(&pg_unit(u)->args, (int32_t)in->limit);
    pg_conn_send(s->pipeline, SQL_INBOX_TAKE, &pg_unit(u)->args);
    pg_go(s, taken_cb);
}

/* --- what was refused --- */

/* Of the outcomes that an enqueue may have. */
static const char *detail_of(enum outcome out)
{
    switch ((int)out) {
    case OUT_DUPLICATE:
        return "another job has the unique key";
    case OUT_KEY_REUSED:
        return "the idempotency key belongs to another job";
    case OUT_NO_QUEUE:
        return "the queue does not exist, and queues are not created by enqueues (auto_create)";
    case OUT_QUEUE_FULL:
        return "the queue has reached its capacity";
    case OUT_SERVER_FULL:
        return "the server has reached its capacity";
    case OUT_QUEUES_FULL:
        return "there is no room for another queue";
    case OUT_REFUSED_NEW:
        return "the queue takes no new jobs (refuse_new)";
    case OUT_TOO_BIG:
        return "the payload is larger than the queue allows (payload_max)";
    case OUT_KEYS_FULL:
        return "there is no room for another idempotency key";
    case OUT_RATE_LIMIT:
        return "the rate limit of the queue (enqueue_rate) has been reached";
    case OUT_EXISTS:
        return "another job has this sequence";
    default:
        return "the rules refused it";
    }
}

/* The answer names a job other than the one whose id the caller has. */
static bool answered_by_another(const struct inbox_row *row)
{
    const struct reply *r = &row->turn->reply;
    return r->seq && (r->seq != row->op.enqueue.id.seq || r->id_hi != row->op.enqueue.id.hi);
}

static void judge(struct inbox_row *row)
{
    const struct reply *r = &row->turn->reply;
    bool another = answered_by_another(row);
    if (r->outcome == OUT_OK && !another)
        return;
    if (another)
        id_ulid(id_make(r->id_hi, r->seq), row->instead);
    if (r->outcome == OUT_OK)
        refuse(row, r->repeat ? "repeat" : outcome_name(OUT_DUPLICATE),
               r->repeat ? "an earlier enqueue had the same idempotency key"
                         : detail_of(OUT_DUPLICATE));
    else
        refuse(row, outcome_name(r->outcome), r->note ? r->note : detail_of(r->outcome));
}

static void texts_of(struct args *a, const struct pg_inbox *in,
                     const char *(*text)(const struct inbox_row *))
{
    pg_array_begin(a, ARRAY_TEXT);
    for (size_t i = 0; i < in->count; i++)
        if (in->rows[i].reason)
            pg_array_bytes(a, span_text(text(&in->rows[i])));
    pg_array_end(a);
}

static const char *reason_text(const struct inbox_row *row)
{
    return row->reason;
}

static const char *detail_text(const struct inbox_row *row)
{
    return row->detail;
}

static const char *instead_text(const struct inbox_row *row)
{
    return row->instead;
}

static size_t seqs_of(struct args *a, const struct pg_inbox *in, bool refused)
{
    size_t n = 0;
    pg_array_begin(a, ARRAY_I8);
    for (size_t i = 0; i < in->count; i++)
        if (!in->rows[i].reason == !refused) {
            pg_array_i8(a, (int64_t)in->rows[i].op.enqueue.id.seq);
            n++;
        }
    pg_array_end(a);
    return n;
}

static void send_refused(struct pg_store *s)
{
    struct unit *u = s->unit;
    struct args *a = &pg_unit(u)->args;
    if (seqs_of(a, &s->inbox, true) == 0) {
        pg_args_clear(a);
        return;
    }
    texts_of(a, &s->inbox, reason_text);
    texts_of(a, &s->inbox, detail_text);
    texts_of(a, &s->inbox, instead_text);
    pg_args_i8(a, shared_now(&s->sh));
    pg_conn_send(s->pipeline, SQL_INBOX_REFUSE, a);
    pg_args_i8(a, shared_now(&s->sh) - INBOX_REFUSED_MS);
    pg_conn_send(s->pipeline, SQL_INBOX_FORGET, a);
}

void pg_inbox_send_store(struct pg_store *s)
{
    struct unit *u = s->unit;
    struct pg_inbox *in = &s->inbox;
    struct args *a = &pg_unit(u)->args;
    for (size_t i = 0; i < in->count; i++) {
        struct inbox_row *row = &in->rows[i];
        if (row->turn)
            judge(row);
        if (row->reason)
            unit_tell_refused(u, row->op.enqueue.id, row->op.enqueue.queue);
    }
    if (seqs_of(a, in, false))
        pg_conn_send(s->pipeline, SQL_INBOX_DELETE, a);
    else
        pg_args_clear(a);
    send_refused(s);
}

/* --- the end --- */

static void log_refused(const struct pg_store *s, const struct inbox_row *row)
{
    char id[ID_ULID_BYTES];
    const struct op_enqueue *want = &row->op.enqueue;
    id_ulid(id_make(want->id.hi, want->id.seq), id);
    log_event(s->sh.config.log, LOG_WARN, "inbox_refused", LOG_TEXT("job", id),
              LOG_SPAN("queue", want->queue), LOG_TEXT("reason", row->reason),
              LOG_TEXT("note", row->detail));
}

void pg_inbox_stored(struct pg_store *s)
{
    struct pg_inbox *in = &s->inbox;
    for (size_t i = 0; i < in->count; i++) {
        if (in->rows[i].reason)
            log_refused(s, &in->rows[i]);
        s->sh.figures.inbox_refused += in->rows[i].reason != NULL;
        s->sh.figures.inbox_taken += in->rows[i].reason == NULL;
    }
    s->unit->count = 0; /* no client waits for these */
    in->wanted |= in->more;
    in->limit = in->limit * 2 < INBOX_BATCH ? in->limit * 2 : INBOX_BATCH;
    in->condemned = 0;
    in->rows = NULL;
}

void pg_inbox_error(struct pg_store *s, const struct round_error *error)
{
    static const char classes[][3] = {"22", "23", "54", "P0", "XX"};
    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++)
        if (strncmp(error->state, classes[i], 2) == 0)
            pg_inbox_fault(s, error->text);
}

void pg_inbox_fault(struct pg_store *s, const char *why)
{
    s->inbox.fault = true;
    snprintf(s->inbox.trouble, sizeof s->inbox.trouble, "%s", why);
}

void pg_inbox_failed(struct pg_store *s)
{
    struct pg_inbox *in = &s->inbox;
    s->unit->count = 0;
    if (in->fault && in->count == 1)
        in->condemned = in->rows[0].op.enqueue.id.seq;
    else if (in->fault && in->count > 1)
        in->limit = (uint32_t)(in->count / 2);
    in->wanted |= in->fault;
    in->rows = NULL;
}
