/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines: form, levels, escaping, the limit per site. */
#include "unit/base/support.h"

#include <pthread.h>

#include "base/err.h"
#include "base/json/json.h"
#include "base/log.h"
#include "base/utf8.h"

struct sink {
    struct log log;
    struct clock_manual clock;
    char last[8192];
    size_t len;
    size_t lines;
};

static void sink_cb(void *ctx, const char *line, size_t len)
{
    struct sink *s = ctx;
    assert_true(len < sizeof s->last);
    memcpy(s->last, line, len);
    s->last[len] = '\0';
    s->len = len;
    s->lines++;
}

static void sink_init(struct sink *s, enum log_format format)
{
    *s = (struct sink){.clock = {{{1000}, {1769860800000}}}};
    s->log = (struct log){.write = sink_cb,
                          .ctx = s,
                          .clock = clock_manual(&s->clock),
                          .format = format,
                          .level = LOG_INFO};
}

#define HEAD "2026-01-31T12:00:00.000Z "

static void text_form(void **state)
{
    (void)state;
    struct sink s;
    sink_init(&s, LOG_AS_TEXT);
    log_event(&s.log, LOG_INFO, "started");
    assert_string_equal(s.last, HEAD "info started\n");
    log_event(&s.log, LOG_WARN, "queue_deep", LOG_INT("depth", 12), LOG_TEXT("queue", "mail"),
              LOG_BOOL("paused", true), LOG_TEXT("note", "two words"), LOG_INT("least", INT64_MIN));
    assert_string_equal(s.last, HEAD "warn queue_deep depth=12 queue=mail paused=true "
                                     "note=\"two words\" least=-9223372036854775808\n");
    log_event(&s.log, LOG_ERROR, "x", LOG_TEXT("empty", ""), LOG_TEXT("none", NULL),
              LOG_SPAN("path", SPAN_LITERAL("/var/lib/a-b_c.d:8000")), LOG_BOOL("b", false));
    assert_string_equal(s.last,
                        HEAD "error x empty=\"\" none=\"\" path=/var/lib/a-b_c.d:8000 b=false\n");
}

static void marked(void **state)
{
    (void)state;
    struct sink s;
    sink_init(&s, LOG_AS_TEXT);
    struct log one = log_marked(&s.log, LOG_INT("backend", 1));
    log_event(&one, LOG_WARN, "store_lost", LOG_TEXT("why", "gone"));
    assert_string_equal(s.last, HEAD "warn store_lost backend=1 why=gone\n");
    log_event(&s.log, LOG_WARN, "store_lost", LOG_TEXT("why", "gone"));
    assert_string_equal(s.last, HEAD "warn store_lost why=gone\n");
    /* A setting that changes later applies to it, too. */
    size_t lines = s.lines;
    log_event(&one, LOG_DEBUG, "x");
    assert_int_equal(s.lines, lines);
    s.log.level = LOG_DEBUG;
    s.log.format = LOG_AS_JSON;
    log_event(&one, LOG_DEBUG, "x");
    assert_string_equal(s.last, "{\"time\":\"2026-01-31T12:00:00.000Z\",\"level\":\"debug\","
                                "\"event\":\"x\",\"backend\":1}\n");
}

static void json_form(void **state)
{
    (void)state;
    struct sink s;
    sink_init(&s, LOG_AS_JSON);
    log_event(&s.log, LOG_INFO, "started");
    assert_string_equal(
        s.last,
        "{\"time\":\"2026-01-31T12:00:00.000Z\",\"level\":\"info\",\"event\":\"started\"}\n");
    log_event(&s.log, LOG_WARN, "e", LOG_INT("n", -5), LOG_TEXT("t", "a\"b"), LOG_BOOL("b", true));
    assert_string_equal(s.last,
                        "{\"time\":\"2026-01-31T12:00:00.000Z\",\"level\":\"warn\",\"event\":\"e\","
                        "\"n\":-5,\"t\":\"a\\\"b\",\"b\":true}\n");
}

static void levels(void **state)
{
    (void)state;
    struct sink s;
    sink_init(&s, LOG_AS_TEXT);
    static const enum log_level all[] = {LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG};
    for (size_t shown = 0; shown < COUNT_OF(all); shown++) {
        s.log.level = all[shown];
        s.lines = 0;
        for (size_t i = 0; i < COUNT_OF(all); i++)
            log_event(&s.log, all[i], "x");
        assert_int_equal(s.lines, shown + 1);
    }
    log_event(NULL, LOG_ERROR, "no writer", LOG_INT("n", 1));
    log_write(&s.log, LOG_ERROR, NULL, "no_site", NULL);
    assert_string_equal(s.last, HEAD "error no_site\n");
}

static void values_cannot_forge(void **state)
{
    (void)state;
    static const struct {
        const char *value, *shown;
    } rows[] = {
        {"a\nb", "\"a\\nb\""},
        {"a\r\nERROR forged", "\"a\\r\\nERROR forged\""},
        {"x level=error", "\"x level=error\""},
        {"a=b", "\"a=b\""},
        {"\"", "\"\\\"\""},
        {"\\", "\"\\\\\""},
        {"\x1b[31mred", "\"\\u001b[31mred\""},
        {"\x01\x7f", "\"\\u0001\\u007f\""},
        {"nel\xc2\x85x", "\"nel\\u0085x\""},
        {"ls\xe2\x80\xa8ps\xe2\x80\xa9x", "\"ls\\u2028ps\\u2029x\""},
        {"bad\xff\xc3", "\"bad\xef\xbf\xbd\xef\xbf\xbd\""},
        {"gr\xc3\xbc\xc3\x9f", "\"gr\xc3\xbc\xc3\x9f\""},
    };
    struct sink s;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char expected[200];
        sink_init(&s, LOG_AS_TEXT);
        log_event(&s.log, LOG_INFO, "x", LOG_TEXT("v", rows[i].value));
        snprintf(expected, sizeof expected, HEAD "info x v=%s\n", rows[i].shown);
        assert_string_equal(s.last, expected);
        s.log.format = LOG_AS_JSON;
        log_event(&s.log, LOG_INFO, "x", LOG_TEXT("v", rows[i].value));
        snprintf(expected, sizeof expected, "\"v\":%s}\n", rows[i].shown);
        assert_string_equal(strstr(s.last, "\"v\":"), expected);
    }
    sink_init(&s, LOG_AS_TEXT);
    log_event(&s.log, LOG_INFO, "x", LOG_SPAN("v", span_of("a\0b", 3)));
    assert_string_equal(s.last, HEAD "info x v=\"a\\u0000b\"\n");
}

/* Whatever the bytes: one line, UTF-8, no control characters; as JSON, valid. */
static void any_bytes(void **state)
{
    (void)state;
    struct random r;
    struct sink s;
    seeded(&r, "any bytes");
    for (int round = 0; round < 20000; round++) {
        char value[6000];
        size_t max = random_chance(&r, 5) ? sizeof value : 40;
        size_t len = random_below(&r, max);
        for (size_t i = 0; i < len; i++)
            value[i] = (char)(random_chance(&r, 50) ? random_next(&r) : random_below(&r, 96) + 32);
        bool json = random_chance(&r, 50);
        sink_init(&s, json ? LOG_AS_JSON : LOG_AS_TEXT);
        log_write(&s.log, LOG_INFO, NULL, "event",
                  (const struct log_field[]){LOG_SPAN("value", span_of(value, len)),
                                             LOG_INT("number", 5),
                                             {.kind = LOG_FIELD_END}});
        assert_true(s.len <= 4096 && s.len > 0);
        assert_int_equal(s.last[s.len - 1], '\n');
        for (size_t i = 0; i + 1 < s.len; i++)
            EXPECT((unsigned char)s.last[i] >= 0x20 && s.last[i] != 0x7f);
        assert_true(utf8_valid(span_of(s.last, s.len)));
        if (json)
            assert_int_equal(json_check(span_of(s.last, s.len), NULL, NULL), 0);
    }
}

/* At every length round the end of the line the JSON stays whole. */
static void long_lines_are_cut(void **state)
{
    (void)state;
    static char value[5000];
    struct sink s;
    memset(value, 'v', sizeof value);
    for (size_t len = 3800; len < 4300; len++) {
        for (int format = 0; format < 2; format++) {
            sink_init(&s, format ? LOG_AS_JSON : LOG_AS_TEXT);
            log_write(&s.log, LOG_INFO, NULL, "event",
                      (const struct log_field[]){LOG_SPAN("value", span_of(value, len)),
                                                 LOG_TEXT("next", "a b"),
                                                 LOG_INT("number", 123456789),
                                                 {.kind = LOG_FIELD_END}});
            assert_true(s.len <= 4096);
            assert_int_equal(s.last[s.len - 1], '\n');
            bool whole = strstr(s.last, "123456789") != NULL;
            assert_true(whole ? len < 4060 : len > 3950);
            assert_non_null(strstr(s.last, "vvvv"));
            if (format)
                assert_int_equal(json_check(span_of(s.last, s.len), NULL, NULL), 0);
            if (format && len > 4100)
                assert_non_null(strstr(s.last, "v\xe2\x80\xa6\"}\n"));
        }
    }
}

static void repeat(struct sink *s, int times)
{
    for (int i = 0; i < times; i++)
        log_event(&s->log, LOG_WARN, "again", LOG_INT("i", i));
}

static void limit_per_site(void **state)
{
    (void)state;
    struct sink s;
    sink_init(&s, LOG_AS_TEXT);
    repeat(&s, 100);
    assert_int_equal(s.lines, LOG_BURST);
    clock_manual_advance(&s.clock, 8999); /* the window began at 0 */
    repeat(&s, 5);
    assert_int_equal(s.lines, LOG_BURST);
    clock_manual_advance(&s.clock, 1);
    repeat(&s, 1);
    assert_int_equal(s.lines, LOG_BURST + 1);
    assert_non_null(strstr(s.last, " warn again suppressed=85 i=0\n"));
    repeat(&s, 1);
    assert_null(strstr(s.last, "suppressed"));
    repeat(&s, 30);
    assert_int_equal(s.lines, 2 * LOG_BURST);
    clock_manual_advance(&s.clock, 1000000);
    repeat(&s, 1);
    assert_non_null(strstr(s.last, " suppressed=12 "));
    /* Another site has its own count, and lines below the level count nowhere. */
    s.lines = 0;
    s.log.level = LOG_ERROR;
    repeat(&s, 50);
    assert_int_equal(s.lines, 0);
    log_event(&s.log, LOG_ERROR, "other");
    assert_int_equal(s.lines, 1);
}

struct shared {
    struct log log;
    struct clock_manual clock;
    struct log_site site;
    uint32_t lines;
};

static void count_cb(void *ctx, const char *line, size_t len)
{
    struct shared *s = ctx;
    (void)line;
    (void)len;
    __atomic_add_fetch(&s->lines, 1, __ATOMIC_RELAXED);
}

static void *hammer(void *ctx)
{
    struct shared *s = ctx;
    const struct log_field end = {.kind = LOG_FIELD_END};
    for (int i = 0; i < 5000; i++)
        log_write(&s->log, LOG_INFO, &s->site, "hammer", &end);
    return NULL;
}

static void threads_share_a_site(void **state)
{
    (void)state;
    pthread_t threads[4];
    struct shared s = {.clock = {{{50000}, {0}}}};
    s.log = (struct log){.write = count_cb,
                         .ctx = &s,
                         .clock = clock_manual(&s.clock),
                         .format = LOG_AS_JSON,
                         .level = LOG_INFO};
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, hammer, &s), 0);
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        pthread_join(threads[i], NULL);
    assert_in_range(s.lines, LOG_BURST, LOG_BURST + COUNT_OF(threads));
}

static void to_a_stream(void **state)
{
    (void)state;
    char *text = NULL;
    size_t len = 0;
    struct clock_manual clock = {{{0}, {0}}};
    FILE *stream = open_memstream(&text, &len);
    struct log log = log_to_stream(stream, LOG_AS_TEXT, LOG_DEBUG, clock_manual(&clock));
    log_event(&log, LOG_DEBUG, "one");
    log_event(&log, LOG_ERROR, "two", LOG_INT("n", 2));
    fclose(stream);
    assert_string_equal(text, "1970-01-01T00:00:00.000Z debug one\n"
                              "1970-01-01T00:00:00.000Z error two n=2\n");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_form),
        cmocka_unit_test(json_form),
        cmocka_unit_test(marked),
        cmocka_unit_test(levels),
        cmocka_unit_test(values_cannot_forge),
        cmocka_unit_test(any_bytes),
        cmocka_unit_test(long_lines_are_cut),
        cmocka_unit_test(limit_per_site),
        cmocka_unit_test(threads_share_a_site),
        cmocka_unit_test(to_a_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
