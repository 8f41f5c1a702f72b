/* SPDX-License-Identifier: Apache-2.0 */
/* The server itself: its version and figures, health, readiness, and its clock. */
#include "api/json_members.h"
#include "api/v1/v1_impl.h"
#include "core/limits.h"
#include "net/tls/tls.h"

/* ---- GET /v1/server ---- */

static const struct {
    unsigned bit;
    const char *name;
} capabilities[] = {
    {CAP_STRICT_ORDER, "strict_order"},
    {CAP_DURABLE_REPLY, "durable_reply"},
    {CAP_UNIQUE_GLOBAL, "unique_across_nodes"},
    {CAP_SHARED, "shared"},
};

static void write_capabilities(struct json_writer *w, unsigned caps)
{
    write_array(w, "capabilities");
    for (size_t i = 0; i < sizeof capabilities / sizeof *capabilities; i++) {
        if (caps & capabilities[i].bit)
            json_write_text(w, span_text(capabilities[i].name));
    }
    json_write_array_end(w);
}

/* Only for stores with files. */
static void write_store(struct json_writer *w, const struct backend_figures *f)
{
    if (f->store_bytes == 0)
        return;
    write_object(w, "store");
    write_uint(w, "bytes", f->store_bytes);
    write_uint(w, "backup_pages", f->backup_pages);
    write_uint(w, "backup_pages_total", f->backup_total);
    write_bool(w, "compacting", f->compacting);
    write_uint(w, "compact_pages_left", f->compact_left);
    if (f->has_journal) {
        write_uint(w, "journal_incomplete_bytes", f->journal_torn_bytes);
        write_uint(w, "journal_incomplete_saved", f->journal_torn_files);
    }
    json_write_object_end(w);
}

static void write_memory(struct json_writer *w, const struct budget *b)
{
    if (!b)
        return;
    write_object(w, "memory");
    write_uint(w, "budget_bytes", b->figures.total);
    write_uint(w, "held_bytes", b->figures.held);
    write_uint(w, "peak_bytes", b->figures.peak);
    json_write_object_end(w);
}

static void write_versions(struct json_writer *w)
{
    json_write_key(w, "versions");
    json_write_array(w);
    for (size_t i = 0; net_tls_versions[i]; i++)
        json_write_text(w, span_text(net_tls_versions[i]));
    json_write_array_end(w);
}

/* Only if the server has a certificate. */
static void write_tls(struct json_writer *w, const struct net_tls *tls)
{
    struct net_tls_figures f;
    if (!tls)
        return;
    net_tls_figures(tls, &f);
    json_write_key(w, "tls");
    json_write_object(w);
    write_versions(w);
    write_bool(w, "client_certificates", f.client_certificates);
    write_time(w, "certificate_valid_from", (struct wall_time){f.not_before_s * 1000});
    write_time(w, "certificate_expires_at", (struct wall_time){f.not_after_s * 1000});
    write_uint(w, "reloads", f.reloads);
    write_uint(w, "reloads_failed", f.reloads_failed);
    json_write_object_end(w);
}

/* Only if the store is a server: how this node reaches it. */
static void write_link(struct json_writer *w, const struct native *n)
{
    struct backend_cluster c;
    broker_cluster(n->broker, &c);
    if (c.link == LINK_NONE)
        return;
    write_object(w, c.server == SERVER_POSTGRES ? "postgres" : "redis");
    link_write(w, &c);
    json_write_object_end(w);
}

void server_handle(void *ctx, struct http_exchange *x)
{
    struct native *n = ctx;
    struct backend_figures f;
    struct json_writer w;
    size_t routes;
    if (!query_none(n->broker, x))
        return;
    native_routes(&routes);
    broker_backend_figures(n->broker, &f);
    unsigned caps = broker_caps(n->broker);
    answer_object_begin(x, &w);
    write_text(&w, "version", n->config.version);
    write_text(&w, "commit", n->config.commit);
    write_text(&w, "backend", broker_backend_kind(n->broker));
    write_bool(&w, "durable", (caps & CAP_DURABLE_REPLY) != 0);
    write_capabilities(&w, caps);
    write_uint(&w, "node", n->config.node);
    write_uint(&w, "epoch", f.epoch);
    write_time(&w, "started_at", n->started_at);
    write_time(&w, "now", broker_now(n->broker).wall);
    write_bool(&w, "clock_suspect", f.clock_suspect);
    write_uint(&w, "routes", routes);
    failover_write_if(&w, n);
    write_link(&w, n);
    write_store(&w, &f);
    write_memory(&w, n->config.budget);
    write_tls(&w, n->config.tls);
    answer_object_end(x, &w, 200);
}

/* ---- health ---- */

static void answer_status(struct http_exchange *x, unsigned status, const char *word)
{
    struct json_writer w;
    answer_object_begin(x, &w);
    write_text(&w, "status", word);
    answer_object_end(x, &w, status);
}

/* Does not ask the store: the answer shows that the loop runs. */
void health_handle(void *ctx, struct http_exchange *x)
{
    (void)ctx;
    answer_status(x, 200, "ok");
}

/* Counts stores that answer, and stores that do not or that a spool replaces. */
struct readiness {
    unsigned up, away;
};

static bool is_away(const struct backend_store *s)
{
    return !s->cluster.up || s->cluster.spooling;
}

static struct readiness readiness_of(const struct native *n)
{
    struct readiness r = {0, 0};
    struct backend_store s;
    for (unsigned i = 0; broker_store(n->broker, i, &s); i++) {
        r.up += s.cluster.up;
        r.away += is_away(&s);
    }
    return r;
}

/* Every client may read this; the reason, which may contain host names, is at /v1/cluster. */
static void write_away(struct json_writer *w, const struct native *n)
{
    struct backend_store s;
    write_array(w, "away");
    for (unsigned i = 0; broker_store(n->broker, i, &s); i++) {
        if (!is_away(&s))
            continue;
        json_write_object(w);
        write_uint(w, "number", s.number);
        write_text(w, "type", s.kind);
        write_time(w, "since", s.cluster.since);
        json_write_object_end(w);
    }
    json_write_array_end(w);
}

/* Ready as long as some queue can be served: otherwise one of several stores would make the
 * queues of all others unavailable. */
void ready_handle(void *ctx, struct http_exchange *x)
{
    struct native *n = ctx;
    struct backend_figures f;
    struct json_writer w;
    struct readiness r = readiness_of(n);
    broker_backend_figures(n->broker, &f);
    const char *word = r.up == 0     ? "backend_down"
                       : f.disk_full ? "disk_full" /* acks must still be accepted */
                       : r.away > 0  ? "degraded"
                                     : "ready";
    if (broker_draining(n->broker)) {
        answer_status(x, 503, "draining");
        return;
    }
    answer_object_begin(x, &w);
    write_text(&w, "status", word);
    if (r.away > 0)
        write_away(&w, n);
    answer_object_end(x, &w, r.up == 0 ? 503 : 200);
}

/* ---- the clock ---- */

static void answer_now(struct native *n, struct http_exchange *x)
{
    struct json_writer w;
    answer_object_begin(x, &w);
    write_time(&w, "now", broker_now(n->broker).wall);
    answer_object_end(x, &w, 200);
}

static bool has_test_clock(struct native *n, struct http_exchange *x)
{
    struct problem p = {.code = PROBLEM_NO_ROUTE,
                        .detail = "the server has no test clock; start it with --test-clock"};
    if (broker_has_test_clock(n->broker))
        return query_none(n->broker, x);
    problem_answer(x, &p);
    return false;
}

void test_clock_get_handle(void *ctx, struct http_exchange *x)
{
    if (has_test_clock(ctx, x))
        answer_now(ctx, x);
}

static void clock_moved(void *ctx)
{
    struct call *c = ctx;
    answer_now(c->api, c->x);
}

struct clock_in {
    int64_t advance_ms;
    bool jump;
};

static const struct field clock_rows[] = {
    {"advance_ms", FIELD_INT, offsetof(struct clock_in, advance_ms), 0, LIMIT_WALL_MS, NULL,
     FIELD_REQUIRED},
    {"jump", FIELD_BOOL, offsetof(struct clock_in, jump), 0, 0, NULL, 0},
};

static int check_advance(const struct native *n, const struct field_reader *r, int64_t ms)
{
    if (ms < LIMIT_WALL_MS - broker_now(n->broker).wall.ms)
        return 0;
    problem_set(r->problem, r->arena, PROBLEM_INVALID_FIELD, "advance_ms",
                "advance_ms would move the clock past the year 9999");
    return -ERR_INVALID;
}

void test_clock_move_handle(void *ctx, struct http_exchange *x)
{
    struct native *n = ctx;
    struct clock_in in = {0};
    struct problem p;
    struct field_reader r = reader_of(n->broker, x, FIELDS(clock_rows), &in, &p);
    if (!has_test_clock(n, x))
        return;
    if (fields_read_optional(&r, http_request(x)->body) < 0 ||
        check_advance(n, &r, in.advance_ms) < 0) {
        problem_answer(x, &p);
        return;
    }
    struct call *c = call_new(n->broker, n, x, OP_TICK, NULL);
    int (*move)(struct broker *, int64_t, void (*)(void *), void *) =
        in.jump ? broker_clock_jump : broker_clock_advance;
    int err = c ? move(n->broker, in.advance_ms, clock_moved, c) : 0;
    if (err < 0)
        answer_error(x, err);
}

static void clock_accepted(struct call *c, const struct reply *r)
{
    struct json_writer w;
    answer_object_begin(c->x, &w);
    write_bool(&w, "accepted", r->was_suspect);
    answer_object_end(c->x, &w, 200);
}

void clock_accept_handle(void *ctx, struct http_exchange *x)
{
    bool plain = query_none(broker_of(ctx), x) && body_none(broker_of(ctx), x);
    call_submit(plain ? call_new(broker_of(ctx), ctx, x, OP_ACCEPT_CLOCK, clock_accepted) : NULL);
}
