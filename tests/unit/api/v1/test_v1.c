/* SPDX-License-Identifier: Apache-2.0 */
/* The API as clients see it: forms of a request, answers in order, what happens when a client
 * goes, what happens when memory runs out. */
#include "unit/api/api_rig.h"

#include <sys/socket.h>

#include "base/mem.h"
#include "core/limits.h"
#include "unit/backend/local/sqlite/store_rig.h"

static struct api_rig rig;

static int begin(void **state)
{
    (void)state;
    api_rig_init(&rig, "memory:");
    return 0;
}

static int end(void **state)
{
    (void)state;
    api_rig_done(&rig);
    return 0;
}

static uint64_t in_state(const char *queue, enum job_state s)
{
    struct op op = {.kind = OP_QUEUE_GET, .queue = {.name = span_text(queue)}};
    struct told t = do_op(&rig.broker, &op);
    return t.by_state[s];
}

/* ---- enqueue ---- */

static void one_job(void **state)
{
    (void)state;
    expect(&rig, "POST /v1/queues/q/jobs", "{\"payload\":{\"a\":1}}", 201,
           "\"seq\":1,\"state\":\"ready\",\"created\":true}");
    expect(&rig, "POST /v1/queues/q/jobs", "{\"unique\":\"u\"}", 201, "\"created\":true");
    expect(&rig, "POST /v1/queues/q/jobs", "{\"unique\":\"u\"}", 409, "\"code\":\"duplicate\"");
    expect(&rig, "POST /v1/queues/q/jobs", "{\"unique\":\"u\",\"unique_mode\":\"return\"}", 200,
           "\"seq\":2,\"state\":\"ready\",\"created\":false,\"duplicate_of\"");
    expect(&rig, "POST /v1/queues/q/jobs", "{\"unique\":\"u\",\"unique_mode\":\"replace\"}", 201,
           "\"created\":true,\"replaced\":2");
    expect(&rig, "POST /v1/queues/q/jobs", "{\"delay_ms\":5}", 201,
           "\"state\":\"scheduled\",\"created\":true,\"run_at\":\"2027-01-15T08:00:00.005Z\"}");
    expect(&rig, "POST /v1/queues/q/jobs", "{\"delay_ms\":5,\"run_at\":\"2030-01-01T00:00:00Z\"}",
           422, "\"field\":\"run_at\"");
    expect(&rig, "POST /v1/queues/q/jobs", "", 400, "malformed_json");
    expect(&rig, "POST /v1/queues/-q/jobs", "{}", 422, "\"field\":\"queue\"");
    expect(&rig, "POST /v1/queues/q/jobs?priority=1", "{}", 422, "unknown_field");
}

static void the_payload_comes_back_byte_for_byte(void **state)
{
    (void)state;
    static const char payload[] = "{ \"b\" : 1e400,\r\n\t\"a\":\"\\u00e9\\ud800\", \"a\":-0.0 }";
    char body[256];
    snprintf(body, sizeof body, "{\"payload\":%s ,\"group\":\"g\"}", payload);
    expect(&rig, "POST /v1/queues/q/jobs", body, 201, "created");
    snprintf(body, sizeof body, "\"payload\":%s,", payload);
    expect(&rig, "POST /v1/queues/q/claim", "", 200, body);
    expect(&rig, "GET /v1/jobs/1", "", 200, body);
}

static void raw_bytes(void **state)
{
    (void)state;
    /* What curl -d sends by itself is JSON, not bytes. */
    static const char form[] = "Content-Type: application/x-www-form-urlencoded\r\n";
    assert_int_equal(ask_with(&rig, "POST /v1/queues/q/jobs", form, "{", 1)->status, 400);
    static const char type[] = "Content-Type: image/png\r\n";
    static const char bytes[] = "\0\xff{}";
    const struct api_answer *a =
        ask_with(&rig, "POST /v1/queues/q/jobs?priority=high&backoff_ms=1,2", type, bytes, 4);
    assert_int_equal(a->status, 201);
    a = ask_with(&rig, "POST /v1/queues/q/jobs?prio=1", type, bytes, 4);
    assert_int_equal(a->status, 422);
    a = ask_with(&rig, "POST /v1/queues/q/claim", "Accept: application/octet-stream\r\n", "", 0);
    assert_int_equal(a->status, 200);
    assert_int_equal(a->len, 4);
    assert_memory_equal(a->body, bytes, 4);
    assert_non_null(strstr(a->head, "Holdfast-Attempt: 1\r\n"));
    assert_non_null(strstr(a->head, "Holdfast-Token: 1-1\r\n"));
    assert_non_null(strstr(a->head, "Content-Type: application/octet-stream\r\n"));
    a = ask_with(&rig, "POST /v1/queues/q/claim", "Accept: application/octet-stream\r\n", "", 0);
    assert_int_equal(a->status, 204);
    static const char two[] = "{\"count\":2}";
    a = ask_with(&rig, "POST /v1/queues/q/claim", "Accept: application/octet-stream\r\n", two,
                 strlen(two));
    assert_int_equal(a->status, 422);
}

static void many_jobs_in_order(void **state)
{
    (void)state;
    expect(&rig, "POST /v1/queues/q/jobs", " [{\"payload\":1},{\"prio\":1},{\"payload\":2},7]", 200,
           "{\"jobs\":[{\"id\":");
    const struct api_answer *a = ask(&rig, "POST /v1/queues/q/jobs",
                                     "[{},{\"prio\":1},{\"unique\":\"u\"},{\"unique\":\"u\"}]");
    const char *first = strstr(a->body, "\"seq\":3"), *error = strstr(a->body, "unknown_field");
    const char *third = strstr(a->body, "\"seq\":4"), *last = strstr(a->body, "\"duplicate\"");
    assert_true(first && first < error && error < third && third < last);
    /* Broken anywhere: nothing of it. */
    expect(&rig, "POST /v1/queues/r/jobs", "[{},{},{]", 400, "malformed_json");
    expect(&rig, "POST /v1/queues/r/jobs", "[{},{}] x", 400, "malformed_json");
    expect(&rig, "POST /v1/queues/r/jobs", "[]", 422, "invalid_field");
    expect(&rig, "GET /v1/queues/r", "", 404, "no_queue");
}

static void lines(void **state)
{
    (void)state;
    static const char type[] = "Content-Type: application/x-ndjson; charset=utf-8\r\n";
    static const char good[] = "{\"payload\":1}\r\n\n  {\"payload\":2}";
    static const char bad[] = "{\"payload\":1}\n{\"payload\":}\n";
    const struct api_answer *a = ask_with(&rig, "POST /v1/queues/q/jobs", type, good, strlen(good));
    assert_int_equal(a->status, 200);
    assert_non_null(strstr(a->body, "\"seq\":2"));
    a = ask_with(&rig, "POST /v1/queues/q/jobs", type, bad, strlen(bad));
    assert_int_equal(a->status, 400);
    assert_non_null(strstr(a->body, "of line 2"));
    assert_int_equal(in_state("q", STATE_READY), 2);
}

static void batches_at_their_limit(void **state)
{
    (void)state;
    static char body[LIMIT_BATCH * 3 + 16];
    size_t len = 0;
    body[len++] = '[';
    for (int i = 0; i < LIMIT_BATCH; i++) {
        memcpy(body + len, "{},", 3);
        len += 3;
    }
    body[len - 1] = ']';
    assert_int_equal(ask_with(&rig, "POST /v1/queues/q/jobs", "", body, len)->status, 200);
    memcpy(body + len - 1, ",{}]", 4);
    const struct api_answer *a = ask_with(&rig, "POST /v1/queues/q/jobs", "", body, len + 3);
    assert_int_equal(a->status, 422);
    assert_non_null(strstr(a->body, "more than 1000"));
    assert_int_equal(in_state("q", STATE_READY), LIMIT_BATCH);
}

static void idempotency_keys(void **state)
{
    (void)state;
    static const char key[] = "Idempotency-Key: k\r\n";
    static const char many[] = "[{\"payload\":1},{\"payload\":2}]";
    assert_int_equal(ask_with(&rig, "POST /v1/queues/q/jobs", key, "{}", 2)->status, 201);
    const struct api_answer *a = ask_with(&rig, "POST /v1/queues/q/jobs", key, "{}", 2);
    assert_int_equal(a->status, 200);
    assert_non_null(strstr(a->body, "\"seq\":1,\"state\":\"ready\",\"created\":false"));
    assert_int_equal(ask_with(&rig, "POST /v1/queues/q/jobs", key, "{ }", 3)->status, 422);
    assert_int_equal(ask_with(&rig, "POST /v1/queues/r/jobs", key, "{}", 2)->status, 422);
    for (int i = 0; i < 2; i++)
        ask_with(&rig, "POST /v1/queues/q/jobs", key, many, strlen(many));
    assert_int_equal(in_state("q", STATE_READY), 3);
    char longest[256];
    snprintf(longest, sizeof longest, "Idempotency-Key: %0200d\r\n", 1);
    assert_int_equal(ask_with(&rig, "POST /v1/queues/q/jobs", longest, "{}", 2)->status, 201);
    snprintf(longest, sizeof longest, "Idempotency-Key: %0201d\r\n", 1);
    assert_int_equal(ask_with(&rig, "POST /v1/queues/q/jobs", longest, "{}", 2)->status, 422);
    /* Which of two would count? */
    static const char two[] = "Idempotency-Key: x\r\nIdempotency-Key: y\r\n";
    a = ask_with(&rig, "POST /v1/queues/q/jobs", two, "{}", 2);
    assert_int_equal(a->status, 422);
    assert_non_null(strstr(a->body, "more than once"));
    assert_int_equal(in_state("q", STATE_READY), 4);
}

/* ---- leases ---- */

static void a_lease_by_all_its_words(void **state)
{
    (void)state;
    ask(&rig, "POST /v1/queues/q/jobs", "[{},{},{}]");
    expect(&rig, "POST /v1/claim", "{\"queues\":[\"x\",\"q\"],\"count\":3}", 200,
           "\"token\":\"1-3\"");
    expect(&rig, "POST /v1/jobs/1/extend", "{\"token\":\"1-1\",\"lease_ms\":60000}", 200,
           "\"lease_until\":\"2027-01-15T08:01:00.000Z\"");
    expect(&rig, "POST /v1/jobs/1/extend", "{\"token\":\"1-1\"}", 200,
           "\"lease_until\":\"2027-01-15T08:01:00.000Z\"");
    expect(&rig, "POST /v1/jobs/1/ack", "{\"token\":\"1-2\"}", 409, "lease_lost");
    expect(&rig, "POST /v1/jobs/1/ack", "{\"token\":\"?\"}", 422, "\"field\":\"token\"");
    expect(&rig, "POST /v1/jobs/1/ack", "", 422, "missing_field");
    expect(&rig, "POST /v1/jobs/1/ack", "{\"token\":\"1-1\",\"result\":[ 1 ]}", 200,
           "\"state\":\"done\"}");
    expect(&rig, "POST /v1/jobs/1/ack", "{\"token\":\"1-1\"}", 200, "\"repeat\":true");
    expect(&rig, "GET /v1/jobs/1", "", 200, "\"result\":[ 1 ]");
    expect(&rig, "POST /v1/fail",
           "{\"jobs\":[{\"id\":2,\"token\":\"1-2\",\"error\":\"e\",\"delay_ms\":7},{\"id\":3},"
           "{\"id\":3,\"token\":\"1-3\",\"retry\":false,\"error_kind\":\"business\"}]}",
           200, "\"run_at\":\"2027-01-15T08:00:00.007Z\"},{\"error\":{");
    expect(&rig, "GET /v1/jobs/3", "", 200, "\"state\":\"dead\",\"reason\":\"rejected\"");
    expect(&rig, "POST /v1/jobs/1/release", "{\"token\":\"1-1\",\"id\":1}", 422, "unknown_field");
    expect(&rig, "POST /v1/jobs/nix/ack", "{\"token\":\"1-1\"}", 422, "invalid_id");
}

/* Losing a fail because its text is long would be worse than losing the end of the text. */
static void long_errors_are_cut(void **state)
{
    (void)state;
    static char body[LIMIT_ERROR_BYTES * 2];
    int at = snprintf(body, sizeof body, "{\"token\":\"1-1\",\"retry\":false,\"error\":\"");
    memset(body + at, 'e', LIMIT_ERROR_BYTES + 1);
    memcpy(body + at + LIMIT_ERROR_BYTES + 1, "\"}", 3);
    ask(&rig, "POST /v1/queues/q/jobs", "{}");
    ask(&rig, "POST /v1/queues/q/claim", "");
    expect(&rig, "POST /v1/jobs/1/fail", body, 200, "\"state\":\"dead\"");
    const struct api_answer *a = ask(&rig, "GET /v1/jobs/1", "");
    const char *error = strstr(a->body, "\"error\":\"");
    assert_non_null(error);
    assert_int_equal(strspn(error + 9, "e"), LIMIT_ERROR_BYTES);
}

static void attempts_are_remembered(void **state)
{
    (void)state;
    ask(&rig, "POST /v1/queues/q/jobs", "{\"backoff_ms\":[0]}");
    ask(&rig, "POST /v1/queues/q/claim", "{\"worker\":\"w1\"}");
    ask(&rig, "POST /v1/jobs/1/fail",
        "{\"token\":\"1-1\",\"error\":\"e\\n1\",\"error_kind\":\"business\",\"delay_ms\":0}");
    ask(&rig, "POST /v1/queues/q/claim", "{\"worker\":\"w2\"}");
    expect(&rig, "GET /v1/jobs/1", "", 200,
           "\"history\":[{\"number\":1,\"worker\":\"w1\",\"started_at\":\"2027-01-15T08:00:00."
           "000Z\",\"ended_at\":\"2027-01-15T08:00:00.000Z\",\"outcome\":\"failed\",\"error\":"
           "\"e\\n1\",\"error_kind\":\"business\"},{\"number\":2,\"worker\":\"w2\"");
    expect(&rig, "GET /v1/exceptions?queue=q", "", 200,
           "\"queue\":\"q\",\"error\":\"e\\n1\",\"type\":\"business\",\"worker\":\"w1\",\"at\":"
           "\"2027-01-15T08:00:00.000Z\",\"attempt\":1}],\"next_cursor\":null}");
    expect(&rig, "POST /v1/test/clock", "{\"advance_ms\":30000}", 200, "now");
    expect(&rig, "GET /v1/exceptions?limit=1", "", 200, "\"type\":\"crash\",\"worker\":\"w2\"");
    expect(&rig, "GET /v1/exceptions?limit=1", "", 200, "\"next_cursor\":\"1-2\"}");
    expect(&rig, "GET /v1/exceptions?limit=1&cursor=1-2", "", 200, "\"type\":\"business\"");
    expect(&rig, "GET /v1/exceptions?limit=1&cursor=1-2", "", 200, "\"next_cursor\":null}");
    expect(&rig, "GET /v1/exceptions?cursor=9-9", "", 200,
           "{\"exceptions\":[],\"next_cursor\":null}");
    expect(&rig, "GET /v1/exceptions?cursor=-1", "", 422, "\"field\":\"cursor\"");
    expect(&rig, "GET /v1/exceptions?limit=1001", "", 422, "\"field\":\"limit\"");
    expect(&rig, "GET /v1/workers", "", 200, "{\"workers\":[{\"name\":\"w1\"");
    expect(&rig, "GET /v1/workers?limit=1", "", 200, "\"next_cursor\":\"w1\"}");
    expect(&rig, "GET /v1/workers?limit=1&cursor=w1", "", 200, "{\"workers\":[{\"name\":\"w2\"");
    expect(&rig, "GET /v1/workers?cursor=w1", "", 200, "\"next_cursor\":null}");
}

/* ---- a client that goes ---- */

static void gone_while_parked(void **state)
{
    (void)state;
    struct api_client c;
    struct broker_figures f;
    api_open(&rig, &c);
    api_request(&rig, &c, "POST /v1/queues/q/claim", "", "{\"wait_ms\":60000}", 17);
    API_UNTIL(&rig, (broker_figures(rig.broker.broker, &f), f.waiting == 1));
    api_close(&c);
    API_UNTIL(&rig, (broker_figures(rig.broker.broker, &f), f.waiting == 0));
    ask(&rig, "POST /v1/queues/q/jobs", "{}");
    expect(&rig, "GET /v1/jobs/1", "", 200, "\"state\":\"ready\"");
}

/* The job is given out while its client reads nothing and then goes: the answer was not written
 * whole, so the job goes back uncounted. */
static void an_answer_that_did_not_leave(void **state)
{
    (void)state;
    enum { PAYLOAD = 900 << 10, JOBS = 16 };
    struct api_client c;
    char *body = malloc(PAYLOAD + 64);
    int at = snprintf(body, 64, "{\"payload\":\"");
    memset(body + at, 'x', PAYLOAD);
    memcpy(body + at + PAYLOAD, "\"}", 3);
    for (int i = 0; i < JOBS; i++)
        assert_int_equal(ask(&rig, "POST /v1/queues/q/jobs", body)->status, 201);
    free(body);
    api_open(&rig, &c);
    api_request(&rig, &c, "POST /v1/queues/q/claim", "", "{\"count\":16}", 12);
    API_UNTIL(&rig, in_state("q", STATE_RUNNING) == JOBS);
    api_close(&c);
    API_UNTIL(&rig, in_state("q", STATE_READY) == JOBS);
    expect(&rig, "GET /v1/jobs/1?payload=false", "", 200, "\"attempts\":0");
}

/* ---- streams ---- */

static void a_stream_of_jobs(void **state)
{
    (void)state;
    struct api_client c;
    api_open(&rig, &c);
    api_request(&rig, &c, "POST /v1/queues/q/listen", "", "{\"prefetch\":2}", 14);
    api_until(&rig, &c, "text/event-stream");
    ask(&rig, "POST /v1/queues/q/jobs", "[{\"payload\":[1,\r\n2]},{},{}]");
    api_until(&rig, &c, "event: job\nid: 1\ndata: {\"id\":");
    api_until(&rig, &c, "\"payload\":[1,  2]}\n\n");
    api_until(&rig, &c, "event: job\nid: 2\n");
    assert_int_equal(in_state("q", STATE_RUNNING), 2);
    expect(&rig, "POST /v1/jobs/1/ack", "{\"token\":\"1-1\"}", 200, "done");
    api_until(&rig, &c, "event: job\nid: 3\n");
    api_close(&c);
    API_UNTIL(&rig, in_state("q", STATE_RUNNING) == 0);
    expect(&rig, "GET /v1/jobs/2", "", 200, "\"crashes\":1");
}

static void a_stream_of_events(void **state)
{
    (void)state;
    struct api_client c;
    struct broker_figures f;
    api_open(&rig, &c);
    api_request(&rig, &c, "GET /v1/events?events=enqueued,done", "", "", 0);
    API_UNTIL(&rig, (broker_figures(rig.broker.broker, &f), f.listeners == 1));
    ask(&rig, "POST /v1/queues/q/jobs", "{\"correlation_id\":\"c 1\"}");
    ask(&rig, "POST /v1/queues/q/claim", "");
    ask(&rig, "POST /v1/jobs/1/ack", "{\"token\":\"1-1\"}");
    api_until(&rig, &c, "event: done\nid: ");
    assert_non_null(strstr(c.data, "event: enqueued\nid: "));
    assert_non_null(strstr(c.data, "\"correlation_id\":\"c 1\"}}\n\n"));
    assert_null(strstr(c.data, "event: claimed"));
    api_close(&c);
    API_UNTIL(&rig, (broker_figures(rig.broker.broker, &f), f.listeners == 0));
    /* An id of an unknown time: a gap. */
    api_open(&rig, &c);
    api_request(&rig, &c, "GET /v1/queues/q/listen?after=9", "Last-Event-ID: 1\r\n", "", 0);
    api_until(&rig, &c, "event: gap\ndata: {\"oldest\":\"");
    api_close(&c);
    expect(&rig, "GET /v1/events?events=enqueud", "", 422, "did you mean enqueued?");
    expect(&rig, "GET /v1/events?events=", "", 422, "events is empty;");
}

static void streams_end_when_the_server_does(void **state)
{
    (void)state;
    struct api_client events, jobs;
    api_open(&rig, &events);
    api_open(&rig, &jobs);
    api_request(&rig, &events, "GET /v1/events", "", "", 0);
    api_request(&rig, &jobs, "POST /v1/queues/q/listen", "", "", 0);
    ask(&rig, "POST /v1/queues/q/jobs", "{}");
    api_until(&rig, &jobs, "event: job");
    api_until(&rig, &events, "event: claimed");
    broker_drain(rig.broker.broker);
    native_drain(rig.native);
    API_UNTIL(&rig, in_state("q", STATE_READY) == 1);
    expect(&rig, "GET /v1/jobs/1", "", 200, "\"crashes\":0");
    expect(&rig, "POST /v1/queues/q/jobs", "{}", 503, "\"code\":\"draining\"");
    expect(&rig, "GET /v1/events", "", 503, "\"code\":\"draining\"");
    expect(&rig, "GET /readyz", "", 503, "{\"status\":\"draining\"}");
    expect(&rig, "GET /healthz", "", 200, "{\"status\":\"ok\"}");
    api_close(&events);
    api_close(&jobs);
}

/* ---- queues and lists ---- */

static void queues_change(void **state)
{
    (void)state;
    expect(&rig, "PATCH /v1/queues/q", "{}", 404, "no_queue");
    expect(&rig, "PUT /v1/queues/q", "{\"lease_ms\":5000,\"description\":\"n\"}", 201,
           "\"lease_ms\":5000");
    expect(&rig, "PATCH /v1/queues/q", "{\"max_attempts\":3}", 200,
           "\"description\":\"n\",\"policy\":{\"lease_ms\":5000,\"max_attempts\":3");
    expect(&rig, "PUT /v1/queues/q", "{}", 200,
           "\"description\":\"\",\"policy\":{\"lease_ms\":30000,\"max_attempts\":10");
    expect(&rig, "PUT /v1/queues/q", "{\"lease_ms\":99}", 422,
           "lease_ms must be a whole number from 100 to 86400000");
    const struct api_answer *a =
        ask_with(&rig, "PUT /v1/queues/q", "If-None-Match: *\r\n", "{}", 2);
    assert_int_equal(a->status, 409);
    expect(&rig, "POST /v1/queues/q/pause", "{\"for_ms\":1000}", 200,
           "\"paused\":true,\"paused_until\":\"2027-01-15T08:00:01.000Z\"");
    expect(&rig, "POST /v1/queues/q/resume", "", 200, "\"paused\":false");
    expect(&rig, "GET /v1/queues?limit=1", "", 200, "\"next_cursor\":\"q\"}");
    expect(&rig, "GET /v1/queues?cursor=q", "", 200, "{\"queues\":[],\"next_cursor\":null}");
    expect(&rig, "POST /v1/queues/q/purge", "{\"states\":[\"dead\"]}", 422, "unknown_field");
    expect(&rig, "DELETE /v1/queues/q", "{\"if_empty\":true}", 422, "\"field\":\"if_empty\"");
    expect(&rig, "POST /v1/queues/q/purge", "{}", 200, "{\"queue\":\"q\",\"purged\":0}");
    expect(&rig, "DELETE /v1/queues/q", "", 200, "{\"name\":\"q\",\"deleted\":true,\"jobs\":0}");
}

/* Both are read, then written: neither may undo the other, nor a PUT between them. */
static void changes_at_once_are_all_kept(void **state)
{
    (void)state;
    static const char *const lines[] = {"PUT /v1/queues/q",   "PATCH /v1/queues/q",
                                        "PATCH /v1/queues/q", "PUT /v1/queues/q",
                                        "PATCH /v1/queues/q", "PATCH /v1/queues/q"};
    static const char *const bodies[] = {"{}",
                                         "{\"max_attempts\":3}",
                                         "{\"lease_ms\":5000}",
                                         "{\"max_crashes\":9}",
                                         "{\"max_attempts\":4}",
                                         "{\"lease_ms\":6000}"};
    static struct api_answer a;
    char text[2048];
    size_t len = 0;
    struct api_client c;
    for (size_t i = 0; i < COUNT_OF(lines); i++)
        len += (size_t)snprintf(text + len, sizeof text - len,
                                "%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n%s",
                                lines[i], strlen(bodies[i]), bodies[i]);
    api_open(&rig, &c);
    api_send(&rig, &c, text, len);
    for (size_t i = 0; i < COUNT_OF(lines); i++) {
        api_answer(&rig, &c, &a);
        assert_int_equal(a.status, i == 0 ? 201 : 200);
    }
    api_close(&c);
    expect(&rig, "GET /v1/queues/q", "", 200,
           "\"policy\":{\"lease_ms\":6000,\"max_attempts\":4,\"max_crashes\":9");
    expect(&rig, "PATCH /v1/queues/q", "{\"lease_ms\":1}", 422, "\"field\":\"lease_ms\"");
    expect(&rig, "PATCH /v1/queues/nix", "{}", 404, "no_queue");
    expect(&rig, "PATCH /v1/queues/q", "{\"lease_ms\":7000}", 200, "\"lease_ms\":7000");
}

static void pages(void **state)
{
    (void)state;
    ask(&rig, "POST /v1/queues/q/jobs", "[{},{},{}]");
    expect(&rig, "GET /v1/jobs?queue=q&limit=2", "", 200, "\"next_cursor\":\"o2\"");
    expect(&rig, "GET /v1/jobs?queue=q&limit=2&cursor=o2", "", 200, "\"next_cursor\":null");
    expect(&rig, "GET /v1/jobs?order=newest&limit=1", "", 200, "\"next_cursor\":\"n3\"");
    expect(&rig, "GET /v1/jobs?order=newest&cursor=o2", "", 422, "\"field\":\"cursor\"");
    expect(&rig, "GET /v1/jobs?limit=1001", "", 422, "\"field\":\"limit\"");
    expect(&rig, "GET /v1/jobs?state=dead", "", 200, "{\"jobs\":[],");
    expect(&rig, "GET /v1/queues/q/peek?limit=1", "", 200, "{\"jobs\":[{\"id\":");
    expect(&rig, "POST /v1/queues/q/cancel", "{\"states\":[\"ready\"]}", 200,
           "{\"queue\":\"q\",\"changed\":3,\"refused\":0}");
    expect(&rig, "POST /v1/queues/q/requeue", "{\"states\":[]}", 422, "\"field\":\"states\"");
    expect(&rig, "GET /v1/snapshot?queue=q", "", 200, "{\"depth\":0,");
    expect(&rig, "GET /v1/snapshot", "", 200, "\"backend\":\"memory\"}");
    expect(&rig, "GET /v1/server", "", 200, "{\"version\":\"1.2.3\",\"commit\":\"abc\"");
}

/* Nothing that is left out may mean "every job". */
static void bulk_actions_name_their_states(void **state)
{
    (void)state;
    ask(&rig, "POST /v1/queues/q/jobs", "[{},{\"group\":\"g\"},{\"delay_ms\":5}]");
    static const char *const bodies[] = {"", "{}", "{\"group\":\"g\"}", "{\"dry_run\":true}"};
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        expect(&rig, "POST /v1/queues/q/remove", bodies[i], 422, "\"code\":\"missing_field\"");
        expect(&rig, "POST /v1/queues/q/remove", bodies[i], 422, "\"field\":\"states\"");
        expect(&rig, "POST /v1/queues/q/cancel", bodies[i], 422,
               "\"allowed\":[\"scheduled\",\"ready\",\"running\",\"blocked\"]");
    }
    expect(&rig, "POST /v1/queues/q/remove", "{\"states\":[]}", 422, "invalid_field");
    assert_int_equal(in_state("q", STATE_READY), 2);
    assert_int_equal(in_state("q", STATE_SCHEDULED), 1);
    expect(&rig, "POST /v1/queues/q/requeue", "", 200, "\"changed\":0,\"refused\":0}");
    assert_int_equal(in_state("q", STATE_SCHEDULED), 1);
}

static void a_dry_run_counts(void **state)
{
    (void)state;
    ask(&rig, "POST /v1/queues/q/jobs", "[{},{\"group\":\"g\"},{\"delay_ms\":5}]");
    expect(&rig, "POST /v1/queues/q/cancel",
           "{\"states\":[\"ready\",\"scheduled\",\"done\"],\"dry_run\":true}", 200,
           "{\"action\":\"cancel\",\"dry_run\":true,\"count\":3,\"by_queue\":{\"q\":3},"
           "\"by_state\":{\"scheduled\":1,\"ready\":2}}");
    expect(&rig, "POST /v1/queues/q/remove",
           "{\"states\":[\"ready\"],\"group\":\"g\",\"dry_run\":true}", 200, "\"count\":1,");
    expect(&rig, "POST /v1/queues/q/requeue", "{\"dry_run\":true}", 200, "\"count\":0,");
    expect(&rig, "POST /v1/queues/nix/requeue", "{\"dry_run\":true}", 404, "no_queue");
    assert_int_equal(in_state("q", STATE_READY), 2);
    expect(&rig, "POST /v1/queues/q/cancel", "{\"states\":[\"ready\"],\"dry_run\":false}", 200,
           "\"changed\":2,");
}

static void the_clock_moves_when_told(void **state)
{
    (void)state;
    ask(&rig, "POST /v1/queues/q/jobs", "{\"delay_ms\":1000}");
    expect(&rig, "POST /v1/test/clock", "{\"advance_ms\":1000}", 200,
           "{\"now\":\"2027-01-15T08:00:01.000Z\"}");
    expect(&rig, "GET /v1/jobs/1", "", 200, "\"state\":\"ready\"");
    expect(&rig, "POST /v1/test/clock", "{\"advance_ms\":253402300799999}", 422, "advance_ms");
    expect(&rig, "POST /v1/clock/accept", "", 200, "{\"accepted\":false}");
}

static void metrics(void **state)
{
    (void)state;
    ask(&rig, "POST /v1/queues/a%22b/jobs", "{}");
    ask(&rig, "POST /v1/queues/a%22b/claim", "");
    const struct api_answer *a = ask(&rig, "GET /metrics", "");
    static const char *const pieces[] = {
        "text/plain; version=0.0.4",
        "\nholdfast_queue_depth{queue=\"a\\\"b\",state=\"running\"} 1\n",
        "\nholdfast_enqueued_total{queue=\"a\\\"b\"} 1\n",
        "\nholdfast_dequeued_total{queue=\"a\\\"b\"} 1\n",
        "\nholdfast_dequeue_latency_seconds_bucket{queue=\"a\\\"b\",le=\"+Inf\"} 1\n",
        "\nholdfast_job_failures_total{queue=\"a\\\"b\"} 0\n",
        "\nholdfast_metrics_queues_left_out 0\n",
        "\nholdfast_metrics_stores_left_out 0\n",
        "\n# TYPE holdfast_redis_up gauge\n#",
        "\nholdfast_http_connections 1\n",
        "\nholdfast_build_info{version=\"1.2.3\",commit=\"abc\",backend=\"memory\"} 1\n",
        "\n# TYPE holdfast_job_processing_seconds histogram\n",
    };
    assert_int_equal(a->status, 200);
    for (size_t i = 0; i < COUNT_OF(pieces); i++) {
        if (!strstr(a->body, pieces[i]) && !strstr(a->head, pieces[i]))
            fail_msg("%s is missing", pieces[i]);
    }
}

/* ---- memory ---- */

static size_t occurrences(const char *text, const char *piece)
{
    size_t n = 0;
    for (; (text = strstr(text, piece)); text += strlen(piece))
        n++;
    return n;
}

/* Fails each allocation once, until the request gets through untouched. Gives how often `piece`
 * came in answers. */
static size_t sweep(const char *line, const char *headers, const char *body, const char *piece)
{
    char text[512];
    size_t came = 0;
    int n = snprintf(text, sizeof text,
                     "%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                     "Content-Length: %zu\r\n%s\r\n%s",
                     line, strlen(body), headers, body);
    for (long nth = 1; nth < 2000; nth++) {
        struct api_client c;
        api_open(&rig, &c);
        for (int i = 0; i < 4; i++)
            api_rig_turn(&rig);
        assert_int_equal(send(c.fd, text, (size_t)n, MSG_NOSIGNAL), n);
        mem_fail_at(nth, 0);
        API_UNTIL(&rig, api_ended(&c));
        bool over = mem_calls() < nth;
        mem_fail_at(0, 0);
        came += occurrences(c.data, piece);
        api_close(&c);
        if (over)
            return came;
    }
    fail_msg("%s never got enough memory", line);
    return 0;
}

/* A store that fails is fatal by design; the SQLite store works in its own thread, in which no
 * allocation fails here. */
static struct rig_dir dir;

static int begin_on_disk(void **state)
{
    (void)state;
    char url[sizeof dir.path + 16];
    rig_dir_make(&dir);
    snprintf(url, sizeof url, "sqlite:%s", dir.path);
    api_rig_init(&rig, url);
    return 0;
}

static int end_on_disk(void **state)
{
    end(state);
    rig_dir_remove(&dir);
    return 0;
}

/* Whichever allocation fails: some answer or a closed connection, no crash. An enqueue that was
 * answered is there; a job runs only if somebody was told. */
static void memory_runs_out(void **state)
{
    (void)state;
    sweep("PUT /v1/queues/q", "", "{\"description\":\"\\u0061\"}", "~");
    size_t made =
        sweep("POST /v1/queues/q/jobs", "",
              "[{\"payload\":1,\"max_attempts\":2,\"priority\":\"low\"},{}]", "\"created\":true");
    assert_true(made > 0 && in_state("q", STATE_READY) >= made);
    size_t told = sweep("POST /v1/queues/q/claim", "", "{\"count\":1}", "\"token\":");
    API_UNTIL(&rig, in_state("q", STATE_RUNNING) == told);
    assert_true(told > 0);
    told += sweep("POST /v1/queues/q/claim", "Accept: application/octet-stream\r\n", "",
                  "Holdfast-Token:");
    API_UNTIL(&rig, in_state("q", STATE_RUNNING) == told);
    sweep("PATCH /v1/queues/q", "", "{\"description\":\"\\u0062\"}", "~");
    sweep("POST /v1/ack", "", "{\"jobs\":[{\"id\":1,\"token\":\"1-1\"}]}", "~");
    sweep("GET /v1/jobs", "", "", "~");
    sweep("GET /v1/queues", "", "", "~");
    sweep("GET /metrics", "", "", "~");
    expect(&rig, "GET /healthz", "", 200, "ok");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(one_job),
        TEST(the_payload_comes_back_byte_for_byte),
        TEST(raw_bytes),
        TEST(many_jobs_in_order),
        TEST(lines),
        TEST(batches_at_their_limit),
        TEST(idempotency_keys),
        TEST(a_lease_by_all_its_words),
        TEST(long_errors_are_cut),
        TEST(attempts_are_remembered),
        TEST(gone_while_parked),
        TEST(an_answer_that_did_not_leave),
        TEST(a_stream_of_jobs),
        TEST(a_stream_of_events),
        TEST(streams_end_when_the_server_does),
        TEST(queues_change),
        TEST(changes_at_once_are_all_kept),
        TEST(pages),
        TEST(bulk_actions_name_their_states),
        TEST(a_dry_run_counts),
        TEST(the_clock_moves_when_told),
        TEST(metrics),
        cmocka_unit_test_setup_teardown(memory_runs_out, begin_on_disk, end_on_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
