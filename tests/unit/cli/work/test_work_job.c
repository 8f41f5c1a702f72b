/* SPDX-License-Identifier: Apache-2.0 */
/* A claimed job, its environment and its headers (PDQ-8). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cli/work/job.h"
#include "cli/work/targets/environment.h"
#include "cli/work/targets/http_target.h"

static const char claimed[] =
    "{\"id\":\"01A\",\"seq\":7,\"queue\":\"m\\u00e4il\",\"token\":\"7-1\",\"attempt\":2,"
    "\"max_attempts\":5,\"lease_ms\":60000,\"created_at\":\"1970-01-01T00:00:01.000Z\","
    "\"kind\":\"letter\",\"correlation_id\":\"c\","
    "\"headers\":{\"x-tenant\":\"a b\",\"X_Tenant\":\"other\",\"traceparent\":\"00-1\","
    "\"nul\":\"a\\u0000b\"},\"payload\":{\"to\": \"ann\"}}";

static void jobs_are_read(void **state)
{
    struct work_job j;
    (void)state;
    assert_int_equal(work_job_read(span_text(claimed), &j), 0);
    assert_string_equal(j.id, "01A");
    assert_int_equal(j.seq, 7);
    assert_string_equal(j.queue, "m\xc3\xa4il");
    assert_string_equal(j.token, "7-1");
    assert_string_equal(j.kind, "letter");
    assert_int_equal(j.attempt, 2);
    assert_int_equal(j.max_attempts, 5);
    assert_int_equal(j.created_ms, 1000);
    assert_int_equal(j.header_count, 4);
    assert_true(span_equal(j.payload, SPAN_LITERAL("{\"to\": \"ann\"}")));
    work_job_done(&j);
}

static void payload_is(const char *member, enum work_payload kind, struct span expected)
{
    char text[256];
    struct work_job j;
    snprintf(text, sizeof text,
             "{\"id\":\"1\",\"queue\":\"q\",\"token\":\"1-1\",\"lease_ms\":1000,%s}", member);
    assert_int_equal(work_job_read(span_text(text), &j), 0);
    assert_int_equal(j.payload_kind, kind);
    assert_true(span_equal(j.payload, expected));
    work_job_done(&j);
}

static void payloads_are_as_sent(void **state)
{
    (void)state;
    payload_is("\"payload\":null", WORK_PAYLOAD_JSON, SPAN_LITERAL("null"));
    payload_is("\"payload_text\":\"a\\nb\"", WORK_PAYLOAD_TEXT, SPAN_LITERAL("a\nb"));
    payload_is("\"payload_base64\":\"AP8=\"", WORK_PAYLOAD_BYTES, span_of("\0\xff", 2));
}

static void wrong_jobs_are_refused(void **state)
{
    static const char *const wrong[] = {"{}", "[]", "1",
                                        "{\"id\":1,\"queue\":\"q\",\"token\":\"t\"}",
                                        "{\"id\":\"1\",\"queue\":\"q\",\"token\":\"t\"}"};
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct work_job j;
        assert_int_equal(work_job_read(span_text(wrong[i]), &j), -ERR_INVALID);
        work_job_done(&j);
    }
}

static const char *value_of(char *const *list, const char *name)
{
    for (; *list; list++) {
        if (strncmp(*list, name, strlen(name)) == 0 && (*list)[strlen(name)] == '=')
            return *list + strlen(name) + 1;
    }
    return NULL;
}

static void environments_have_the_job(void **state)
{
    char *inherited[] = {"PATH=/bin",          "HOLDFAST_TOKEN=secret",
                         "HOLDFAST_ID=forged", "HOLDFAST_SERVER=http://s",
                         "TRACEPARENT=runner", NULL};
    struct work_job j;
    char **list;
    (void)state;
    assert_int_equal(work_job_read(span_text(claimed), &j), 0);
    const struct client_endpoint to = {
        .server = "http://s", .cacert = "/ca.pem", .key = "/key.pem"};
    assert_int_equal(environment_of(&j, &to, inherited, &list), 0);
    assert_string_equal(value_of(list, "PATH"), "/bin");
    assert_string_equal(value_of(list, "HOLDFAST_SERVER"), "http://s");
    assert_string_equal(value_of(list, "HOLDFAST_CACERT"), "/ca.pem");
    assert_null(value_of(list, "HOLDFAST_CLIENT_KEY"));
    assert_string_equal(value_of(list, "HOLDFAST_ID"), "01A");
    assert_string_equal(value_of(list, "HOLDFAST_LEASE_TOKEN"), "7-1");
    assert_string_equal(value_of(list, "HOLDFAST_KIND"), "letter");
    assert_string_equal(value_of(list, "HOLDFAST_ATTEMPT"), "2");
    assert_string_equal(value_of(list, "HOLDFAST_MAX_ATTEMPTS"), "5");
    assert_string_equal(value_of(list, "HOLDFAST_CORRELATION_ID"), "c");
    assert_string_equal(value_of(list, "HOLDFAST_HEADER_X_TENANT"), "a b"); /* the first one */
    assert_string_equal(value_of(list, "TRACEPARENT"), "00-1");
    assert_null(value_of(list, "HOLDFAST_TOKEN"));
    assert_null(value_of(list, "HOLDFAST_HEADER_NUL"));
    work_job_done(&j);
}

static void names_are_plain(void **state)
{
    char out[WORK_VARIABLE_BYTES], is_long[400];
    (void)state;
    assert_string_equal(environment_header_name(SPAN_LITERAL("x-Tenant.Id"), out),
                        "HOLDFAST_HEADER_X_TENANT_ID");
    assert_string_equal(environment_header_name(SPAN_LITERAL("a=b\n;"), out),
                        "HOLDFAST_HEADER_A_B__");
    memset(is_long, 'a', sizeof is_long);
    assert_int_equal(strlen(environment_header_name(span_of(is_long, sizeof is_long), out)),
                     WORK_VARIABLE_BYTES - 1);
}

static void header_values_stay_in_their_line(void **state)
{
    struct buf line;
    (void)state;
    buf_init(&line);
    assert_int_equal(http_target_header(&line, "A", SPAN_LITERAL(" b\r\nC: d%\xc3\xa9 ")), 0);
    assert_string_equal(line.data, "A: %20b%0D%0AC: d%25%C3%A9%20");
    buf_done(&line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_are_read),
        cmocka_unit_test(payloads_are_as_sent),
        cmocka_unit_test(wrong_jobs_are_refused),
        cmocka_unit_test(environments_have_the_job),
        cmocka_unit_test(names_are_plain),
        cmocka_unit_test(header_values_stay_in_their_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
