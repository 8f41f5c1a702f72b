/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bench/request.h"

#include <inttypes.h>
#include <string.h>

#include "base/json/json.h"

/* ---- writing ----------------------------------------------------------------------------------
 */

/* The head, followed by the body in w->body. */
static int request_put(struct bench_writer *w, struct buf *out, struct span path)
{
    int rc = buf_printf(out,
                        "POST %s%.*s HTTP/1.1\r\n"
                        "Host: %s\r\n"
                        "Content-Type: application/json\r\n"
                        "Content-Length: %zu\r\n\r\n",
                        w->plan->prefix, (int)path.len, path.at, w->plan->host, w->body.len);
    return rc < 0 ? rc : buf_append_span(out, buf_span(&w->body));
}

static int queue_path(const struct bench_writer *w, const char *what, struct buf *out)
{
    return buf_printf(out, "/v1/queues/%s/%s", w->plan->queue, what);
}

static int job_prepare(struct bench_writer *w)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    size_t len = (size_t)w->plan->payload_bytes; /* including the quotes */
    int rc = buf_append_text(&w->job, "{\"payload\":\"");
    if (rc == 0)
        rc = buf_reserve(&w->job, len);
    for (size_t i = 0; rc == 0 && i + 2 < len; i++)
        buf_put_u8(&w->job, (uint8_t)letters[random_below(&w->random, sizeof letters - 1)]);
    return rc < 0 ? rc : buf_append_text(&w->job, "\"");
}

static int job_put(struct bench_writer *w)
{
    int rc = buf_append_span(&w->body, buf_span(&w->job));
    if (rc == 0 && w->plan->priorities > 1)
        rc = buf_printf(&w->body, ",\"priority\":%" PRIu64,
                        random_below(&w->random, w->plan->priorities));
    if (rc == 0 && w->plan->delay_ms > 0)
        rc = buf_printf(&w->body, ",\"delay_ms\":%" PRId64, w->plan->delay_ms);
    return rc < 0 ? rc : buf_append_text(&w->body, "}");
}

static int jobs_put(struct bench_writer *w, unsigned jobs)
{
    bool array = w->plan->batch > 1;
    int rc = array ? buf_append_text(&w->body, "[") : 0;
    for (unsigned i = 0; i < jobs && rc == 0; i++) {
        rc = i > 0 ? buf_append_text(&w->body, ",") : 0;
        if (rc == 0)
            rc = job_put(w);
    }
    return rc < 0 || !array ? rc : buf_append_text(&w->body, "]");
}

static int enqueue_build(struct bench_writer *w, unsigned jobs, struct buf *out)
{
    struct buf path;
    buf_init(&path);
    buf_clear(&w->body);
    int rc = jobs_put(w, jobs);
    if (rc == 0)
        rc = queue_path(w, "jobs", &path);
    if (rc == 0)
        rc = request_put(w, out, buf_span(&path));
    buf_done(&path);
    return rc;
}

static int claim_build(struct bench_writer *w, unsigned jobs, bool wait, struct buf *out)
{
    struct buf path;
    buf_init(&path);
    buf_clear(&w->body);
    int rc = buf_printf(&w->body, "{\"count\":%u,\"wait_ms\":%d,\"worker\":\"bench\"}", jobs,
                        wait ? BENCH_WAIT_MS : 0);
    if (rc == 0)
        rc = queue_path(w, "claim", &path);
    if (rc == 0)
        rc = request_put(w, out, buf_span(&path));
    buf_done(&path);
    return rc;
}

/* Parts that all requests have in common are written once, to leave the processor to the server. */
int bench_writer_init(struct bench_writer *w, const struct bench_plan *plan, uint64_t seed)
{
    *w = (struct bench_writer){.plan = plan};
    random_seed(&w->random, seed);
    int rc = job_prepare(w);
    if (rc == 0 && plan->priorities == 1)
        rc = enqueue_build(w, plan->batch, &w->enqueue);
    return rc;
}

void bench_writer_done(struct bench_writer *w)
{
    buf_done(&w->job);
    buf_done(&w->body);
    buf_done(&w->enqueue);
}

int bench_write_enqueue(struct bench_writer *w, unsigned jobs, struct buf *out)
{
    if (jobs == w->plan->batch && w->enqueue.len > 0)
        return buf_append_span(out, buf_span(&w->enqueue));
    return enqueue_build(w, jobs, out);
}

int bench_write_claim(struct bench_writer *w, unsigned jobs, bool wait, struct buf *out)
{
    return claim_build(w, jobs, wait, out);
}

int bench_write_healthz(struct bench_writer *w, struct buf *out)
{
    return buf_printf(out, "GET %s/healthz HTTP/1.1\r\nHost: %s\r\n\r\n", w->plan->prefix,
                      w->plan->host);
}

/* ---- acks -------------------------------------------------------------------------------------
 */

struct claimed {
    struct span id, token; /* unchanged, including the quotes */
};

static bool key_is(const struct json_token *key, const char *name)
{
    return span_equal(span_of(key->raw.at + 1, key->raw.len - 2), span_text(name));
}

/* Reads the members of one job; the reader stands behind its opening bracket. */
static int job_read(struct json_reader *r, struct claimed *ret)
{
    struct json_token key, value;
    struct span whole;
    int rc;
    *ret = (struct claimed){.id = {NULL, 0}};
    while ((rc = json_next(r, &key)) == 0 && key.kind == JSON_KEY) {
        if ((rc = json_next(r, &value)) < 0 || (rc = json_skip(r, value, &whole)) < 0)
            return rc;
        if (value.kind == JSON_STRING && key_is(&key, "id"))
            ret->id = whole;
        else if (value.kind == JSON_STRING && key_is(&key, "token"))
            ret->token = whole;
    }
    return rc == 0 && ret->id.len > 2 && ret->token.len > 0 ? 0 : -ERR_SYNTAX;
}

static int ack_put(struct bench_writer *w, const struct claimed *job, unsigned index)
{
    return buf_printf(&w->body, "%s{\"id\":%.*s,\"token\":%.*s}", index > 0 ? "," : "{\"jobs\":[",
                      (int)job->id.len, job->id.at, (int)job->token.len, job->token.at);
}

static int jobs_read(struct bench_writer *w, struct json_reader *r, struct claimed *last,
                     unsigned *ret_jobs)
{
    struct json_token t;
    int rc;
    while ((rc = json_next(r, &t)) == 0 && t.kind == JSON_OBJECT_BEGIN) {
        if ((rc = job_read(r, last)) < 0 || (rc = ack_put(w, last, *ret_jobs)) < 0)
            return rc;
        (*ret_jobs)++;
    }
    return rc < 0 || t.kind != JSON_ARRAY_END ? -ERR_SYNTAX : 0;
}

/* Finds the list "jobs" and reads it. */
static int answer_read(struct bench_writer *w, struct span answer, struct claimed *last,
                       unsigned *ret_jobs)
{
    struct json_reader r;
    struct json_token t;
    struct span skipped;
    json_open(&r, answer);
    if (json_next(&r, &t) < 0 || t.kind != JSON_OBJECT_BEGIN)
        return -ERR_SYNTAX;
    while (json_next(&r, &t) == 0 && t.kind == JSON_KEY) {
        bool wanted = key_is(&t, "jobs");
        if (json_next(&r, &t) < 0)
            break;
        if (wanted)
            return t.kind == JSON_ARRAY_BEGIN ? jobs_read(w, &r, last, ret_jobs) : -ERR_SYNTAX;
        if (json_skip(&r, t, &skipped) < 0)
            break;
    }
    return -ERR_SYNTAX;
}

static int ack_one(struct bench_writer *w, const struct claimed *job, struct buf *out)
{
    struct buf path;
    buf_init(&path);
    buf_clear(&w->body);
    int rc = buf_printf(&w->body, "{\"token\":%.*s}", (int)job->token.len, job->token.at);
    if (rc == 0)
        rc = buf_printf(&path, "/v1/jobs/%.*s/ack", (int)job->id.len - 2, job->id.at + 1);
    if (rc == 0)
        rc = request_put(w, out, buf_span(&path));
    buf_done(&path);
    return rc;
}

int bench_write_ack(struct bench_writer *w, struct span answer, struct buf *out, unsigned *ret_jobs)
{
    struct claimed last;
    *ret_jobs = 0;
    buf_clear(&w->body);
    int rc = answer_read(w, answer, &last, ret_jobs);
    if (rc < 0 || *ret_jobs == 0)
        return rc;
    if (w->plan->batch == 1)
        return ack_one(w, &last, out);
    rc = buf_append_text(&w->body, "]}");
    return rc < 0 ? rc : request_put(w, out, SPAN_LITERAL("/v1/ack"));
}

/* ---- checking ---------------------------------------------------------------------------------
 */

unsigned bench_reply_errors(enum bench_kind kind, unsigned jobs, const struct bench_reply *reply)
{
    static const char *const marks[BENCH_KINDS] = {
        [BENCH_KIND_ENQUEUE] = "\"created\":true",
        [BENCH_KIND_ACK] = "\"state\":\"done\"",
    };
    bool ok = reply->status == 200 || (kind == BENCH_KIND_ENQUEUE && reply->status == 201);
    if (!ok)
        return jobs > 0 ? jobs : 1;
    if (!marks[kind])
        return 0;
    size_t found = bench_reply_count(reply->body, marks[kind]);
    return found < jobs ? jobs - (unsigned)found : 0;
}
