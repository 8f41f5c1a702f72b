/* SPDX-License-Identifier: Apache-2.0 */
/* GET /metrics with many queues: written in slices between which other requests are answered, made
 * once for everyone who asks meanwhile, kept for a moment. */
#include "unit/api/api_rig.h"

#include <sys/socket.h>

#define QUEUES 260 /* more than one list, and a page below what struct api_answer holds */

static struct api_rig rig;
static struct api_answer first, second;

static int begin(void **state)
{
    char line[64];
    (void)state;
    api_rig_init(&rig, "memory:");
    for (unsigned i = 0; i < QUEUES; i++) {
        snprintf(line, sizeof line, "POST /v1/queues/q%03u/jobs", i);
        expect(&rig, line, "{}", 201, "created");
        snprintf(line, sizeof line, "POST /v1/queues/q%03u/claim", i);
        expect(&rig, line, "", 200, "token");
    }
    return 0;
}

static int end(void **state)
{
    (void)state;
    api_rig_done(&rig);
    return 0;
}

static void scrape_begin(struct api_client *c)
{
    api_open(&rig, c);
    api_request(&rig, c, "GET /metrics", "", "", 0);
}

static void scrape_end(struct api_client *c, struct api_answer *ret)
{
    api_answer(&rig, c, ret);
    api_close(c);
    assert_int_equal(ret->status, 200);
}

static void scrape(struct api_answer *ret)
{
    struct api_client c;
    scrape_begin(&c);
    scrape_end(&c, ret);
}

/* Each family once, with its samples behind it, and each queue once in it. */
static void expect_whole(const struct api_answer *a, unsigned from, unsigned to)
{
    char sample[96], *depth = strstr(a->body, "# TYPE holdfast_queue_depth gauge\n");
    const char *next = depth ? strstr(depth, "# HELP") : NULL;
    assert_true(depth && next && !strstr(next, "\nholdfast_queue_depth{"));
    assert_non_null(strstr(a->body, "\nholdfast_build_info{"));
    for (unsigned i = from; i < to; i++) {
        snprintf(sample, sizeof sample,
                 "\nholdfast_queue_depth{queue=\"q%03u\",state=\"running\"} ", i);
        const char *at = strstr(depth, sample);
        if (!at || strstr(at + 1, sample))
            fail_msg("q%03u is not there once", i);
    }
}

/* Whether anything of the page has come to the client. */
static bool answered(const struct api_client *c)
{
    char byte;
    return recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

/* Defect: the whole page was written in one go, and the loop stood still meanwhile. */
static void others_are_answered_between_slices(void **state)
{
    struct api_client scraper;
    unsigned between = 0;
    (void)state;
    scrape_begin(&scraper);
    while (!answered(&scraper) && between < 1000) {
        expect(&rig, "GET /healthz", "", 200, "ok");
        between++;
    }
    scrape_end(&scraper, &first);
    expect_whole(&first, 0, QUEUES);
    assert_in_range(between, 4, 999);
}

static void concurrent_requests_get_the_same_page(void **state)
{
    struct api_client a, b;
    (void)state;
    scrape_begin(&a);
    api_open(&rig, &b);
    api_request(&rig, &b, "GET /metrics", "", "", 0);
    assert_false(answered(&a));
    scrape_end(&a, &first);
    scrape_end(&b, &second);
    assert_string_equal(first.body, second.body);
    expect_whole(&first, 0, QUEUES);
}

static void a_page_is_kept_for_a_second(void **state)
{
    bool same = false;
    (void)state;
    /* On a machine that is busy more than a second may pass between two requests. */
    for (unsigned tries = 0; tries < 20 && !same; tries++) {
        scrape(&first);
        scrape(&second);
        same = strcmp(first.body, second.body) == 0;
    }
    assert_true(same);
    expect(&rig, "POST /v1/test/clock", "{\"advance_ms\":1000}", 200, "now");
    scrape(&second);
    assert_string_not_equal(first.body, second.body);
    /* HEAD has the length and nothing else. */
    struct api_client c;
    api_open(&rig, &c);
    api_request(&rig, &c, "HEAD /metrics", "Connection: close\r\n", "", 0);
    API_UNTIL(&rig, api_ended(&c));
    assert_non_null(strstr(c.data, "Content-Length: "));
    assert_string_equal(strstr(c.data, "\r\n\r\n"), "\r\n\r\n");
    api_close(&c);
}

static void queues_go_while_it_is_written(void **state)
{
    struct api_client scraper;
    char line[64];
    (void)state;
    scrape_begin(&scraper);
    for (unsigned i = 0; i < 20 && !answered(&scraper); i++) {
        snprintf(line, sizeof line, "DELETE /v1/queues/q%03u", i);
        expect(&rig, line, "", 200, "deleted");
        snprintf(line, sizeof line, "POST /v1/queues/r%03u/jobs", i);
        expect(&rig, line, "{}", 201, "created");
    }
    scrape_end(&scraper, &first);
    expect_whole(&first, 20, QUEUES);
}

static void a_client_may_close_while_it_waits(void **state)
{
    struct api_client a, b;
    (void)state;
    scrape_begin(&a);
    scrape_begin(&b);
    api_close(&a);
    scrape_end(&b, &first);
    expect_whole(&first, 0, QUEUES);
    scrape_begin(&a);
    api_close(&a);
    expect(&rig, "GET /healthz", "", 200, "ok");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(others_are_answered_between_slices), TEST(concurrent_requests_get_the_same_page),
        TEST(a_page_is_kept_for_a_second),        TEST(queues_go_while_it_is_written),
        TEST(a_client_may_close_while_it_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
