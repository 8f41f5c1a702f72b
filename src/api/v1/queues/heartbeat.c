/* SPDX-License-Identifier: Apache-2.0 */
/* POST /v1/workers/{name}/heartbeat: registers a worker, renews its leases, and waits for
 * cancels and lost leases. */
#include "api/json_members.h"
#include "api/v1/v1_impl.h"
#include "core/limits.h"
#include "core/validate.h"

#define WAIT_MS_MAX 60000

struct heartbeat_in {
    struct span host, version;
    struct texts_in leases;
    int64_t pid, done, failed, extend_ms, wait_ms;
    bool stopping;
};

#define AT(member) offsetof(struct heartbeat_in, member)
static const struct field heartbeat_rows[] = {
    {"host", FIELD_TEXT, AT(host), 0, WORKER_HOST_BYTES, NULL, FIELD_OPTIONAL},
    {"pid", FIELD_INT, AT(pid), 0, UINT32_MAX, NULL, FIELD_OPTIONAL},
    {"version", FIELD_TEXT, AT(version), 0, WORKER_VERSION_BYTES, NULL, FIELD_OPTIONAL},
    {"done", FIELD_INT, AT(done), 0, INT64_MAX, NULL, 0},
    {"failed", FIELD_INT, AT(failed), 0, INT64_MAX, NULL, 0},
    {"leases", FIELD_OBJECTS, AT(leases), 0, LIMIT_BATCH, NULL, FIELD_EMPTY},
    {"extend_ms", FIELD_INT, AT(extend_ms), LIMIT_LEASE_MS_MIN, LIMIT_LEASE_MS, NULL, 0},
    {"wait_ms", FIELD_INT, AT(wait_ms), 0, WAIT_MS_MAX, NULL, 0},
    {"stopping", FIELD_BOOL, AT(stopping), 0, 0, NULL, 0},
};

static const struct field lease_rows[] = {
    {"id", FIELD_JOB, offsetof(struct broker_lease, job), 0, 0, NULL, FIELD_REQUIRED},
    {"token", FIELD_TOKEN, offsetof(struct broker_lease, token), 0, 0, NULL, FIELD_REQUIRED},
};

struct heartbeat {
    struct native *n;
    struct http_exchange *x;
    struct broker_heartbeat *parked; /* NULL after it was answered or cancelled */
};

/* ---- the answer ---- */

/* The ids of the jobs, or the lease tokens in the same order. The worker may have claimed a job
 * again: the token says which of its claims is meant. */
static void write_leases(struct json_writer *w, const char *key, const struct broker_lease *leases,
                         size_t count, bool tokens)
{
    char text[ID_ULID_BYTES > TOKEN_TEXT_BYTES ? ID_ULID_BYTES : TOKEN_TEXT_BYTES];
    write_array(w, key);
    for (size_t i = 0; i < count; i++) {
        if (tokens)
            token_text(leases[i].token, text);
        else
            id_ulid(id_make(leases[i].job.hi, leases[i].job.seq), text);
        json_write_text(w, span_text(text));
    }
    json_write_array_end(w);
}

static void heartbeat_over(void *ctx, const struct broker_heartbeat_result *result)
{
    struct heartbeat *h = ctx;
    struct json_writer w;
    h->parked = NULL;
    if (result->refused != OUT_OK) {
        struct reply r = {.kind = OP_EXTEND, .outcome = result->refused};
        struct problem p;
        problem_of_reply(&p, http_request(h->x)->arena, &r, broker_draining(h->n->broker));
        problem_answer(h->x, &p);
        return;
    }
    answer_object_begin(h->x, &w);
    write_leases(&w, "cancel", result->cancel, result->cancel_count, false);
    write_leases(&w, "lost", result->lost, result->lost_count, false);
    write_leases(&w, "cancel_tokens", result->cancel, result->cancel_count, true);
    write_leases(&w, "lost_tokens", result->lost, result->lost_count, true);
    answer_object_end(h->x, &w, 200);
}

static void heartbeat_closed(void *ctx)
{
    struct heartbeat *h = ctx;
    if (!h->parked)
        return;
    broker_heartbeat_cancel(h->parked);
    h->parked = NULL;
    http_answer(h->x, 204, NULL);
}

/* ---- the request ---- */

static int leases_read(struct field_reader *outer, struct http_exchange *x,
                       const struct heartbeat_in *in, struct broker_lease *leases)
{
    for (size_t i = 0; i < in->leases.count; i++) {
        struct field_reader r =
            reader_of(outer->broker, x, FIELDS(lease_rows), &leases[i], outer->problem);
        r.name = "leases";
        int err = fields_read(&r, in->leases.list[i]);
        if (err < 0)
            return err;
    }
    return 0;
}

static int name_check(struct field_reader *r, struct span name)
{
    struct err_note note;
    if (name.len && validate_text("name", name, LIMIT_WORKER_BYTES, &note) == 0)
        return 0;
    problem_set(r->problem, r->arena, PROBLEM_INVALID_FIELD, "name",
                "the name of a worker must have 1 to %d bytes of UTF-8", LIMIT_WORKER_BYTES);
    return -ERR_INVALID;
}

static void heartbeat_submit(struct heartbeat *h, const struct field_reader *r,
                             const struct heartbeat_in *in, const struct broker_lease *leases)
{
    struct broker_heartbeat_in want = {
        .worker = http_request(h->x)->params[0],
        .host = in->host,
        .version = in->version,
        .pid = (uint32_t)in->pid,
        .has_done = fields_has(r, "done"),
        .has_failed = fields_has(r, "failed"),
        .done = (uint64_t)in->done,
        .failed = (uint64_t)in->failed,
        .stopping = in->stopping,
        .leases = leases,
        .lease_count = in->leases.count,
        .extend_ms = (uint32_t)in->extend_ms,
        .wait_ms = (uint32_t)in->wait_ms,
    };
    int err = broker_heartbeat(h->n->broker, &want, heartbeat_over, h, &h->parked);
    if (err < 0) {
        answer_error(h->x, err);
        return;
    }
    http_watch(h->x, heartbeat_closed, NULL, h);
    if (in->wait_ms > 0)
        http_park(h->x);
}

void heartbeat_handle(void *ctx, struct http_exchange *x)
{
    struct native *n = ctx;
    struct arena *arena = http_request(x)->arena;
    struct heartbeat *h = arena_array(arena, 1, sizeof *h);
    struct heartbeat_in in = {.leases = {NULL, 0}};
    struct problem p;
    if (!h) {
        answer_error(x, -ERR_NOMEM);
        return;
    }
    if (!query_none(n->broker, x))
        return;
    *h = (struct heartbeat){.n = n, .x = x};
    struct field_reader r = reader_of(n->broker, x, FIELDS(heartbeat_rows), &in, &p);
    int err = name_check(&r, http_request(x)->params[0]);
    if (!err)
        err = fields_read_optional(&r, http_request(x)->body);
    struct broker_lease *leases = arena_array(arena, in.leases.count + 1, sizeof *leases);
    if (!err && !leases) {
        answer_error(x, -ERR_NOMEM);
        return;
    }
    if (!err)
        err = leases_read(&r, x, &in, leases);
    if (err < 0)
        problem_answer(x, &p);
    else
        heartbeat_submit(h, &r, &in, leases);
}
