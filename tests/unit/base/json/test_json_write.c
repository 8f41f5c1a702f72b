/* SPDX-License-Identifier: Apache-2.0 */
/* The writer's fast paths: every byte at every place of a text, numbers of every length. */
#include "unit/base/support.h"

#include <inttypes.h>

#include "base/json/json.h"
#include "base/utf8.h"

static void expect_back(struct span text)
{
    struct buf out;
    struct arena arena;
    struct json_writer w;
    struct json_reader r;
    struct json_token t;
    struct span back;
    buf_init(&out);
    arena_init(&arena);
    json_writer_init(&w, &out);
    json_write_text(&w, text);
    EXPECT(json_writer_finish(&w) == 0);
    json_open(&r, buf_span(&out));
    EXPECT(json_next(&r, &t) == 0 && t.kind == JSON_STRING);
    EXPECT(json_string(&t, &arena, &back) == 0);
    EXPECT(span_equal(back, text));
    EXPECT(json_next(&r, &t) == 0 && t.kind == JSON_END);
    arena_done(&arena);
    buf_done(&out);
}

/* One character that may need an escape, before, behind and between plain ones. */
static void every_character_at_every_place(void **state)
{
    (void)state;
    static const char plain[] = "abcdefghijklmnopqrstuvwx";
    for (uint32_t code = 0; code < 0x100; code++) {
        for (size_t before = 0; before <= 17; before++) {
            char text[64];
            memcpy(text, plain, before);
            size_t len = before + utf8_encode(code, text + before);
            memcpy(text + len, plain, 17);
            expect_back(span_of(text, len));
            expect_back(span_of(text, len + 7));
            expect_back(span_of(text, len + 17));
        }
    }
}

static void random_texts(void **state)
{
    (void)state;
    struct random r;
    seeded(&r, "random_texts");
    for (int i = 0; i < 50000; i++) {
        char text[200];
        size_t len = 0, count = random_below(&r, 40);
        for (size_t k = 0; k < count; k++) {
            uint32_t code = (uint32_t)random_below(&r, random_chance(&r, 90) ? 0x80 : 0xd800);
            len += utf8_encode(code, text + len);
        }
        expect_back(span_of(text, len));
    }
}

static void expect_number(uint64_t u, int64_t n)
{
    struct buf out;
    struct json_writer w;
    char text[64];
    buf_init(&out);
    json_writer_init(&w, &out);
    json_write_array(&w);
    json_write_uint(&w, u);
    json_write_int(&w, n);
    json_write_array_end(&w);
    EXPECT(json_writer_finish(&w) == 0);
    snprintf(text, sizeof text, "[%" PRIu64 ",%" PRId64 "]", u, n);
    EXPECT(span_equal(buf_span(&out), span_text(text)));
    buf_done(&out);
}

static void numbers_of_every_length(void **state)
{
    (void)state;
    uint64_t power = 1;
    expect_number(0, 0);
    expect_number(UINT64_MAX, INT64_MIN);
    expect_number(INT64_MAX, INT64_MAX);
    for (int digits = 1; digits <= 19; digits++) {
        expect_number(power, (int64_t)power);
        expect_number(power - 1, -(int64_t)power);
        power *= 10;
    }
    expect_number(power, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_character_at_every_place),
        cmocka_unit_test(random_texts),
        cmocka_unit_test(numbers_of_every_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
