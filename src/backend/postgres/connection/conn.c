/* SPDX-License-Identifier: Apache-2.0 */
/* A connection in pipeline mode.
 *
 * Statements are sent without waiting for the results of earlier ones. The server answers in order:
 * a result and an end mark for each statement, and at last the sync point of the round. If a
 * statement fails, the server skips the rest of the round up to the sync point, so a round can fail
 * only once. Results are matched to statements by their position alone (statement_of): an answer
 * that does not fit ends the connection, because later answers would be taken for the wrong
 * statement.
 *
 * A poll handle of libuv is bound to one descriptor for its lifetime, and libpq uses another
 * descriptor for each address that it tries. Handles are therefore on the heap, and a handle that
 * is no longer needed is freed by the loop. It is closed before libpq closes the descriptor. */
#include "backend/postgres/connection/conn.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/system/clock.h"

#define ENDS_MAX 2 /* end marks that libpq may return without a result between them */

enum conn_state { CONN_DOWN, CONN_CONNECTING, CONN_SETTING_UP, CONN_UP };

struct conn {
    struct conn_config config;
    PGconn *pg;
    enum conn_state state;
    uv_poll_t *poll; /* NULL = none */
    int poll_fd, poll_events;
    bool prepared[SQL_COUNT];
    struct round_error error;
    char trouble[200];
    /* when data last arrived or a request was sent, while an answer is awaited; 0 = none is */
    uint64_t heard_ns;
    bool late;   /* nothing had arrived in time at the last check */
    round_fn fn; /* of the current round; NULL = none */
    void *ctx;
    mark_fn mark;                    /* of that round; NULL = none, or it has passed */
    size_t mark_at;                  /* results before it */
    bool failed;                     /* a statement of the next round could not be sent */
    bool stale;                      /* the results belong to the previous round */
    size_t sent;                     /* statements */
    size_t expected, got;            /* results: prepares count, too */
    int statement_of[2 * ROUND_MAX]; /* by result; below 0: the prepare of statement -1 - value */
    PGresult *results[ROUND_MAX];
};

static void results_drop(struct conn *c)
{
    for (size_t i = 0; i < ROUND_MAX; i++) {
        PQclear(c->results[i]);
        c->results[i] = NULL;
    }
}

static void poll_closed_cb(uv_handle_t *handle)
{
    mem_free(handle);
}

static void poll_drop(struct conn *c)
{
    if (c->poll)
        uv_close((uv_handle_t *)c->poll, poll_closed_cb);
    c->poll = NULL;
    c->poll_events = 0;
}

static void hang_up(struct conn *c)
{
    poll_drop(c);
    if (c->pg)
        PQfinish(c->pg);
    c->pg = NULL;
    c->state = CONN_DOWN;
    c->heard_ns = 0;
}

static void await(struct conn *c)
{
    c->heard_ns = clock_ns();
    c->late = false;
}

static void error_of_conn(struct conn *c)
{
    c->error.state[0] = '\0';
    c->error.at = -1;
    snprintf(c->error.text, sizeof c->error.text, "%s", c->pg ? PQerrorMessage(c->pg) : "");
    snprintf(c->trouble, sizeof c->trouble, "%.199s", c->error.text);
}

static void lose(struct conn *c)
{
    round_fn fn = c->fn;
    hang_up(c);
    c->fn = NULL;
    c->mark = NULL;
    c->stale = true; /* the results of the round are freed before the next one */
    c->sent = c->expected = c->got = 0;
    if (fn)
        fn(c->ctx, -ERR_IO, &c->error);
    c->config.lost(c->config.ctx);
}

static void poll_cb(uv_poll_t *handle, int status, int events);

static int poll_for(struct conn *c, int events)
{
    int fd = PQsocket(c->pg);
    if (c->poll && c->poll_fd != fd)
        poll_drop(c);
    if (c->poll && c->poll_events == events)
        return 0;
    if (!c->poll) {
        uv_poll_t *fresh = mem_zalloc(sizeof *fresh);
        if (!fresh)
            return -ERR_NOMEM;
        if (fd < 0 || uv_poll_init(c->config.loop, fresh, fd) != 0) {
            mem_free(fresh);
            return -ERR_IO;
        }
        fresh->data = c;
        c->poll = fresh;
        c->poll_fd = fd;
    }
    c->poll_events = events;
    return uv_poll_start(c->poll, events, poll_cb) == 0 ? 0 : -ERR_IO;
}

static int flush(struct conn *c)
{
    int left = PQflush(c->pg);
    if (left < 0)
        return -ERR_IO;
    return poll_for(c, left ? UV_READABLE | UV_WRITABLE : UV_READABLE);
}

static void error_of_result(struct conn *c, const PGresult *r, int at)
{
    const char *state = PQresultErrorField(r, PG_DIAG_SQLSTATE);
    const char *text = PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY);
    if (c->error.state[0])
        return; /* the first error counts */
    snprintf(c->error.state, sizeof c->error.state, "%s", state ? state : "XX000");
    snprintf(c->error.text, sizeof c->error.text, "%s", text ? text : PQresultErrorMessage(r));
    c->error.at = at;
}

static void round_over(struct conn *c)
{
    round_fn fn = c->fn;
    c->fn = NULL;
    c->mark = NULL;
    c->heard_ns = 0;
    c->sent = 0;
    c->stale = true; /* for fn, and until the next round is sent */
    fn(c->ctx, c->error.state[0] ? -ERR_INVALID : 0, &c->error);
}

/* The server violates the protocol: its next answers would be taken for those of other
 * statements. */
static void break_off(struct conn *c)
{
    error_of_conn(c);
    snprintf(c->trouble, sizeof c->trouble,
             "its answers do not match the statements that were sent");
    lose(c);
}

enum taken { TAKEN_RESULT, TAKEN_SYNC, TAKEN_WRONG };

/* One result of the round. */
static enum taken take_result(struct conn *c, PGresult *r)
{
    ExecStatusType status = PQresultStatus(r);
    bool sync = status == PGRES_PIPELINE_SYNC;
    if (sync || c->got == c->expected) {
        PQclear(r);
        return sync && c->got == c->expected ? TAKEN_SYNC : TAKEN_WRONG;
    }
    int at = c->statement_of[c->got++];
    bool good = status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK;
    if (!good && status != PGRES_PIPELINE_ABORTED)
        error_of_result(c, r, at);
    if (at >= 0) {
        c->results[at] = r;
        return TAKEN_RESULT;
    }
    c->prepared[-1 - at] = good; /* it outlives the transaction in which it was prepared */
    PQclear(r);
    return TAKEN_RESULT;
}

static void pass_mark(struct conn *c)
{
    mark_fn fn = c->mark;
    if (!fn || c->got != c->mark_at || c->error.state[0])
        return;
    c->mark = NULL;
    fn(c->ctx);
}

static void read_results(struct conn *c)
{
    unsigned ends = 0; /* consecutive end marks */
    while (c->fn && !PQisBusy(c->pg)) {
        PGresult *r = PQgetResult(c->pg);
        enum taken taken = r ? take_result(c, r) : TAKEN_RESULT;
        ends = r ? 0 : ends + 1; /* the end mark of one statement */
        if (taken == TAKEN_SYNC) {
            round_over(c);
            return;
        }
        if (taken == TAKEN_WRONG || ends > ENDS_MAX || PQstatus(c->pg) == CONNECTION_BAD) {
            break_off(c);
            return;
        }
        if (r)
            pass_mark(c);
    }
}

static void tell_notifications(struct conn *c)
{
    PGnotify *n;
    while (c->state == CONN_UP && (n = PQnotifies(c->pg)) != NULL) {
        if (c->config.notified)
            c->config.notified(c->config.ctx, n->extra);
        PQfreemem(n);
    }
}

/* --- connecting --- */

static void fail_to_open(struct conn *c)
{
    error_of_conn(c);
    lose(c);
}

static void connection_up(struct conn *c)
{
    memset(c->prepared, 0, sizeof c->prepared);
    if (PQenterPipelineMode(c->pg) != 1 || poll_for(c, UV_READABLE) != 0) {
        fail_to_open(c);
        return;
    }
    c->state = CONN_UP;
    c->heard_ns = 0;
    if (c->config.opened)
        c->config.opened(c->config.ctx);
}

/* Notices of the server must not be written to standard error. */
static void notice_cb(void *ctx, const char *text)
{
    (void)ctx, (void)text;
}

static void set_up(struct conn *c)
{
    c->state = CONN_SETTING_UP;
    if (PQsetnonblocking(c->pg, 1) != 0 || PQsendQuery(c->pg, c->config.setup) != 1 ||
        flush(c) != 0)
        fail_to_open(c);
}

static void setting_up(struct conn *c)
{
    while (!PQisBusy(c->pg)) {
        PGresult *r = PQgetResult(c->pg);
        if (!r) {
            connection_up(c);
            return;
        }
        ExecStatusType status = PQresultStatus(r);
        PQclear(r);
        if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
            fail_to_open(c);
            return;
        }
    }
}

static void connecting(struct conn *c)
{
    PostgresPollingStatusType status = PQconnectPoll(c->pg);
    if (status == PGRES_POLLING_OK)
        set_up(c);
    else if (status == PGRES_POLLING_FAILED ||
             poll_for(c, status == PGRES_POLLING_READING ? UV_READABLE : UV_WRITABLE) != 0)
        fail_to_open(c);
}

static void poll_cb(uv_poll_t *handle, int status, int events)
{
    struct conn *c = handle->data;
    (void)status; /* libpq finds out itself what is wrong */
    if (c->heard_ns && (events & UV_READABLE))
        await(c);
    if (c->state == CONN_CONNECTING) {
        connecting(c);
        return;
    }
    if (PQconsumeInput(c->pg) != 1 || flush(c) != 0) {
        fail_to_open(c);
        return;
    }
    if (c->state == CONN_SETTING_UP) {
        setting_up(c);
        return;
    }
    tell_notifications(c);
    read_results(c);
}

void pg_conn_reopen(struct conn *c)
{
    CHECK(c->state == CONN_DOWN && !c->pg);
    c->pg = PQconnectStart(c->config.conninfo);
    c->state = CONN_CONNECTING;
    await(c);
    if (c->pg)
        PQsetNoticeProcessor(c->pg, notice_cb, NULL);
    if (!c->pg || PQstatus(c->pg) == CONNECTION_BAD || poll_for(c, UV_WRITABLE) != 0)
        fail_to_open(c);
}

/* The deadline must be exceeded at two consecutive checks: if this process was stopped, data that
 * has arrived meanwhile is read between the two. */
void pg_conn_wake(struct conn *c, int64_t patience_ms)
{
    bool connecting = c->state == CONN_CONNECTING || c->state == CONN_SETTING_UP;
    uint64_t ms = (uint64_t)(connecting ? patience_ms / 3 : patience_ms);
    if (!c->heard_ns || clock_ns() - c->heard_ns < ms * 1000000)
        return;
    if (!c->late) {
        c->late = true;
        return;
    }
    error_of_conn(c);
    snprintf(c->trouble, sizeof c->trouble, "no answer within %llu ms", (unsigned long long)ms);
    lose(c);
}

static void sslmode_copy(PGconn *pg, char out[16])
{
    PQconninfoOption *options = PQconninfo(pg);
    out[0] = '\0';
    for (const PQconninfoOption *o = options; o && o->keyword; o++)
        if (strcmp(o->keyword, "sslmode") == 0 && o->val)
            snprintf(out, 16, "%s", o->val);
    PQconninfoFree(options);
}

enum backend_link pg_conn_link(const struct conn *c, char sslmode[16])
{
    const char *host = PQhost(c->pg), *address = PQhostaddr(c->pg);
    sslmode_copy(c->pg, sslmode);
    if (PQsslInUse(c->pg))
        return LINK_TLS;
    bool socket = host && (host[0] == '/' || host[0] == '@');
    return shared_host_local(socket || !address ? host : address) ? LINK_LOCAL : LINK_PLAIN;
}

const char *pg_conn_trouble(const struct conn *c)
{
    return c->trouble;
}

int pg_conn_new_closed(const struct conn_config *config, struct conn **ret)
{
    struct conn *c = mem_zalloc(sizeof *c);
    if (!c)
        return -ERR_NOMEM;
    c->config = *config;
    *ret = c;
    return 0;
}

int pg_conn_new(const struct conn_config *config, PGconn *pg, struct conn **ret)
{
    int err = pg_conn_new_closed(config, ret);
    if (err) {
        PQfinish(pg);
        return err;
    }
    struct conn *c = *ret;
    c->pg = pg;
    PQsetNoticeProcessor(pg, notice_cb, NULL);
    if (PQsetnonblocking(pg, 1) != 0 || PQenterPipelineMode(pg) != 1 ||
        poll_for(c, UV_READABLE) != 0) {
        pg_conn_close(c);
        return -ERR_IO;
    }
    c->state = CONN_UP;
    return 0;
}

bool pg_conn_usable(const struct conn *c)
{
    return c->state == CONN_UP && !c->fn;
}

bool pg_conn_up(const struct conn *c)
{
    return c->state == CONN_UP;
}

bool pg_conn_down(const struct conn *c)
{
    return c->state == CONN_DOWN;
}

void pg_conn_close(struct conn *c)
{
    if (!c)
        return;
    results_drop(c);
    hang_up(c);
    mem_free(c);
}

/* --- sending --- */

static int prepare(struct conn *c, enum sql_id id, const char *name)
{
    if (c->prepared[id])
        return 1;
    c->statement_of[c->expected++] = -1 - (int)id;
    c->prepared[id] = true;
    return PQsendPrepare(c->pg, name, c->config.sql->text[id], 0, NULL);
}

static int send_one(struct conn *c, enum sql_id id, const struct args *a)
{
    const char *values[ARGS_MAX];
    int formats[ARGS_MAX];
    char name[16] = "";
    for (int i = 0; i < a->count; i++) {
        values[i] = a->length[i] < 0 ? NULL : a->bytes.data + a->start[i];
        if (a->length[i] == 0)
            values[i] = "";
        formats[i] = 1;
    }
    if (c->config.pooled) {
        c->statement_of[c->expected++] = (int)c->sent;
        if (PQsendQueryParams(c->pg, c->config.sql->text[id], a->count, NULL, values, a->length,
                              formats, 1) != 1)
            return 0;
        if (id != SQL_BEGIN || !c->config.local)
            return 1;
        /* counted as a prepare, so that its result is dropped */
        c->statement_of[c->expected++] = -1 - (int)id;
        return PQsendQueryParams(c->pg, c->config.local, 0, NULL, NULL, NULL, NULL, 1);
    }
    snprintf(name, sizeof name, "s%d", (int)id);
    if (prepare(c, id, name) != 1)
        return 0;
    c->statement_of[c->expected++] = (int)c->sent;
    return PQsendQueryPrepared(c->pg, name, a->count, values, a->length, formats, 1);
}

void pg_conn_send(struct conn *c, enum sql_id id, struct args *a)
{
    CHECK(!c->fn && c->sent < ROUND_MAX);
    if (c->stale) {
        results_drop(c);
        c->stale = false;
        c->expected = c->got = 0;
        c->failed = false;
    }
    if (c->state != CONN_UP || a->failed || c->failed || send_one(c, id, a) != 1)
        c->failed = true;
    c->sent++;
    pg_args_clear(a);
}

void pg_conn_mark(struct conn *c, mark_fn fn)
{
    if (c->failed || c->state != CONN_UP || PQsendFlushRequest(c->pg) != 1)
        c->failed = true;
    c->mark = fn;
    c->mark_at = c->expected;
}

int pg_conn_round(struct conn *c, round_fn fn, void *ctx)
{
    c->error = (struct round_error){.at = -1};
    c->stale = true;
    if (c->state != CONN_UP || c->failed || PQpipelineSync(c->pg) != 1 || flush(c) != 0) {
        /* Closing the connection discards what libpq may have sent of it. */
        if (c->state != CONN_DOWN) {
            error_of_conn(c);
            c->fn = NULL;
            hang_up(c);
        }
        c->mark = NULL;
        c->sent = 0;
        return -ERR_IO;
    }
    c->stale = false;
    c->fn = fn;
    c->ctx = ctx;
    await(c);
    return 0;
}

size_t pg_conn_sent(const struct conn *c)
{
    return c->sent;
}

const PGresult *pg_conn_result(const struct conn *c, size_t index)
{
    CHECK(index < ROUND_MAX);
    return c->results[index];
}

PGresult *pg_conn_take_result(struct conn *c, size_t index)
{
    CHECK(index < ROUND_MAX);
    PGresult *r = c->results[index];
    c->results[index] = NULL;
    return r;
}
