/* SPDX-License-Identifier: Apache-2.0 */
/* backend_open refuses wrong URLs with a note that says what would be right. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "backend/backend.h"

static int open_url(const char *url, unsigned node, struct err_note *note)
{
    uv_loop_t loop; /* not used by these tests */
    struct clock_manual clock = {{{1}, {1}}};
    struct backend_config config = {.loop = &loop, .clock = clock_manual(&clock), .node = node};
    struct backend *b = NULL;
    int rc = backend_open(url, &config, &b, note);
    assert_null(b);
    return rc;
}

static void refused(const char *url, const char *because)
{
    struct err_note note = {{0}};
    assert_int_equal(open_url(url, 0, &note), -ERR_INVALID);
    assert_non_null(strstr(note.text, because));
    assert_int_equal(open_url(url, 0, NULL), -ERR_INVALID);
}

static void test_unknown_schemes(void **state)
{
    (void)state;
    refused("mysql://x", "unknown backend \"mysql:\"; use one of: sqlite:DIR, memory:");
    refused("", "sqlite:DIR, memory:");
    refused("/var/lib/holdfast", "no scheme");
    refused(":", "unknown backend \":\"");
    refused("SQLITE:x", "use one of");
}

static void test_a_password_is_not_repeated(void **state)
{
    (void)state;
    struct err_note note = {{0}};
    assert_int_equal(open_url("mysql://me:hunter2@host/db", 0, &note), -ERR_INVALID);
    assert_null(strstr(note.text, "hunter2"));
}

static void test_urls_that_lack_or_have_too_much(void **state)
{
    (void)state;
    refused("sqlite:", "sqlite:DIR");
    refused("memory:x", "nothing after the colon");
}

static void test_node_out_of_range(void **state)
{
    (void)state;
    struct err_note note = {{0}};
    assert_int_equal(open_url("memory:", ID_NODE_MAX + 1, &note), -ERR_INVALID);
    assert_non_null(strstr(note.text, "node 4096"));
}

static void test_outcome_names(void **state)
{
    (void)state;
    for (int o = 0; o < OUT_COUNT; o++) {
        assert_non_null(outcome_name((enum outcome)o));
        for (int other = 0; other < o; other++)
            assert_string_not_equal(outcome_name((enum outcome)o),
                                    outcome_name((enum outcome)other));
    }
    assert_string_equal(outcome_name(OUT_LEASE_LOST), "lease_lost");
    assert_non_null(outcome_name((enum outcome)OUT_COUNT));
    for (int o = 0; o < ATTEMPT_OUTCOME_COUNT; o++) {
        assert_non_null(attempt_outcome_name((enum attempt_outcome)o));
        for (int other = 0; other < o; other++)
            assert_string_not_equal(attempt_outcome_name((enum attempt_outcome)o),
                                    attempt_outcome_name((enum attempt_outcome)other));
    }
    assert_string_equal(attempt_outcome_name(ATTEMPT_LEASE_EXPIRED), "lease_expired");
    assert_non_null(attempt_outcome_name((enum attempt_outcome)ATTEMPT_OUTCOME_COUNT));
}

static void closed_cb(void *ctx)
{
    *(bool *)ctx = true;
}

static void test_behind_faults(void **state)
{
    (void)state;
    uv_loop_t loop;
    struct clock_manual clock = {{{1}, {1}}};
    struct backend_config config = {.loop = &loop, .clock = clock_manual(&clock), .seed = 1};
    struct backend *b;
    bool closed = false;
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(setenv("HF_FAULT_SEED", "77", 1), 0);
    assert_int_equal(backend_open("fault+memory:", &config, &b, NULL), 0);
    assert_string_equal(backend_kind(b), "fault+memory");
    backend_close(b, closed_cb, &closed);
    assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
    assert_true(closed);
    refused("fault+mysql:", "use one of: sqlite:DIR, memory:");
    refused("fault+sqlite:", "sqlite:DIR");
    assert_int_equal(setenv("HF_FAULT_SEED", "77x", 1), 0);
    refused("fault+memory:", "HF_FAULT_SEED must be a whole number");
    assert_int_equal(unsetenv("HF_FAULT_SEED"), 0);
    assert_int_equal(uv_loop_close(&loop), 0);
}

static void test_event_names(void **state)
{
    (void)state;
    for (int k = 0; k < EVENT_KIND_COUNT; k++) {
        assert_non_null(event_name((enum event_kind)k));
        for (int other = 0; other < k; other++)
            assert_string_not_equal(event_name((enum event_kind)k),
                                    event_name((enum event_kind)other));
    }
    assert_string_equal(event_name(EVENT_QUEUE_DEEP), "queue_deep");
    assert_non_null(event_name(EVENT_KIND_COUNT));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unknown_schemes),
        cmocka_unit_test(test_a_password_is_not_repeated),
        cmocka_unit_test(test_urls_that_lack_or_have_too_much),
        cmocka_unit_test(test_node_out_of_range),
        cmocka_unit_test(test_outcome_names),
        cmocka_unit_test(test_behind_faults),
        cmocka_unit_test(test_event_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
