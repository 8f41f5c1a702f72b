/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers and the numbers in them, both ways, at every boundary. */
#include "unit/base/support.h"

#include "base/buf.h"
#include "base/mem.h"

static void text_is_appended(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b);
    assert_int_equal(buf_span(&b).len, 0);
    assert_int_equal(buf_append_text(&b, "one "), 0);
    assert_int_equal(buf_append_span(&b, SPAN_LITERAL("two ")), 0);
    assert_int_equal(buf_append_span(&b, span_of(NULL, 0)), 0);
    assert_int_equal(buf_append(&b, "three\0", 6), 0);
    assert_int_equal(buf_printf(&b, " %d %s", 4, "five"), 0);
    assert_true(span_equal(buf_span(&b), SPAN_LITERAL("one two three\0 4 five")));
    char *memory = b.data;
    buf_clear(&b);
    assert_int_equal(b.len, 0);
    assert_ptr_equal(b.data, memory);
    buf_done(&b);
    assert_null(b.data);
}

/* Whatever the room that is left, the text is whole. */
static void printf_at_every_room(void **state)
{
    (void)state;
    for (size_t before = 0; before < 200; before++) {
        struct buf b;
        buf_init(&b);
        for (size_t i = 0; i < before; i++)
            assert_int_equal(buf_append(&b, "x", 1), 0);
        assert_int_equal(buf_printf(&b, "%s-%05d", "abcdefghijklmnop", 42), 0);
        assert_int_equal(b.len, before + 22);
        assert_memory_equal(b.data + before, "abcdefghijklmnop-00042", 22);
        buf_done(&b);
    }
}

static void printf_of_nothing(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b);
    assert_int_equal(buf_printf(&b, "%s", ""), 0);
    assert_int_equal(b.len, 0);
    buf_done(&b);
}

static void too_much_is_refused(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b);
    assert_int_equal(buf_append_text(&b, "kept"), 0);
    assert_int_equal(buf_reserve(&b, SIZE_MAX), -ERR_NOMEM);
    assert_int_equal(buf_reserve(&b, SIZE_MAX - 4), -ERR_NOMEM);
    assert_true(span_equal(buf_span(&b), SPAN_LITERAL("kept")));
    buf_done(&b);
}

static void fixed_numbers(void **state)
{
    (void)state;
    struct buf b;
    uint8_t u8;
    uint32_t u32;
    uint64_t u64;
    buf_init(&b);
    assert_int_equal(buf_reserve(&b, 13), 0);
    buf_put_u8(&b, 0xfe);
    buf_put_u32(&b, 0x01020304);
    buf_put_u64(&b, UINT64_C(0x1112131415161718));
    assert_memory_equal(b.data, "\xfe\x04\x03\x02\x01\x18\x17\x16\x15\x14\x13\x12\x11", 13);
    struct span s = buf_span(&b);
    assert_int_equal(span_take_u8(&s, &u8), 0);
    assert_int_equal(span_take_u32(&s, &u32), 0);
    assert_int_equal(span_take_u64(&s, &u64), 0);
    assert_int_equal(u8, 0xfe);
    assert_int_equal(u32, 0x01020304);
    assert_int_equal(u64, UINT64_C(0x1112131415161718));
    assert_int_equal(s.len, 0);
    buf_done(&b);
}

static size_t varint_bytes(uint64_t v)
{
    size_t n = 1;
    while (v >>= 7)
        n++;
    return n;
}

static void assert_varint(uint64_t v)
{
    struct buf b;
    uint64_t back = ~v;
    buf_init(&b);
    assert_int_equal(buf_reserve(&b, BUF_VARINT_MAX), 0);
    buf_put_varint(&b, v);
    assert_int_equal(b.len, varint_bytes(v));
    for (size_t len = 0; len < b.len; len++) {
        struct span shorter = span_of(b.data, len);
        assert_int_equal(span_take_varint(&shorter, &back), -ERR_CORRUPT);
        assert_int_equal(shorter.len, len);
        assert_int_equal(back, ~v);
    }
    struct span s = buf_span(&b);
    assert_int_equal(span_take_varint(&s, &back), 0);
    assert_int_equal(back, v);
    assert_int_equal(s.len, 0);
    buf_done(&b);
}

static void assert_zigzag(int64_t v)
{
    struct buf b;
    int64_t back = 0;
    buf_init(&b);
    assert_int_equal(buf_reserve(&b, BUF_VARINT_MAX), 0);
    buf_put_zigzag(&b, v);
    struct span s = buf_span(&b);
    assert_int_equal(span_take_zigzag(&s, &back), 0);
    assert_int_equal(back, v);
    buf_done(&b);
}

static void varints_at_all_boundaries(void **state)
{
    (void)state;
    for (int bit = 0; bit < 64; bit++) {
        uint64_t v = UINT64_C(1) << bit;
        for (int delta = -2; delta <= 2; delta++) {
            assert_varint(v + (uint64_t)delta);
            assert_zigzag((int64_t)(v + (uint64_t)delta));
            assert_zigzag((int64_t) - (v + (uint64_t)delta));
        }
    }
    assert_varint(UINT64_MAX);
    assert_zigzag(INT64_MIN);
    assert_zigzag(INT64_MAX);
}

static void zigzag_is_small_for_small(void **state)
{
    (void)state;
    static const struct {
        int64_t v;
        char byte;
    } rows[] = {{0, 0}, {-1, 1}, {1, 2}, {-2, 3}, {2, 4}, {63, 126}, {-64, 127}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char data[BUF_VARINT_MAX];
        struct buf b = {data, 0, sizeof data};
        buf_put_zigzag(&b, rows[i].v);
        assert_int_equal(b.len, 1);
        assert_int_equal(data[0], rows[i].byte);
    }
}

static void bad_varints_are_refused(void **state)
{
    (void)state;
    static const struct span bad[] = {
        {"", 0},
        {"\x80", 1},
        {"\x80\x00", 2},     /* 0, too long */
        {"\xff\x80\x00", 3}, /* 127, too long */
        {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 10},
        {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 10},
        {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x80\x01", 11},
        {"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00", 11},
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct span s = bad[i];
        uint64_t v = 99;
        int64_t z = 99;
        assert_int_equal(span_take_varint(&s, &v), -ERR_CORRUPT);
        assert_int_equal(span_take_zigzag(&s, &z), -ERR_CORRUPT);
        assert_int_equal(v, 99);
        assert_int_equal(z, 99);
        assert_ptr_equal(s.at, bad[i].at);
        assert_int_equal(s.len, bad[i].len);
    }
}

static void short_input_changes_nothing(void **state)
{
    (void)state;
    struct span s = SPAN_LITERAL("abcdefg"), part = {0};
    uint32_t u32 = 5;
    uint64_t u64 = 6;
    uint8_t u8 = 7;
    assert_int_equal(span_take_u64(&s, &u64), -ERR_CORRUPT);
    assert_int_equal(span_take_bytes(&s, 8, &part), -ERR_CORRUPT);
    assert_int_equal(s.len, 7);
    assert_int_equal(span_take_bytes(&s, 4, &part), 0);
    assert_true(span_equal(part, SPAN_LITERAL("abcd")));
    assert_int_equal(span_take_u32(&s, &u32), -ERR_CORRUPT);
    assert_int_equal(span_take_bytes(&s, 3, &part), 0);
    assert_int_equal(span_take_bytes(&s, 0, &part), 0);
    assert_int_equal(span_take_u8(&s, &u8), -ERR_CORRUPT);
    assert_int_equal(u32 + u64 + u8, 18);
    struct span nothing = {NULL, 0};
    assert_int_equal(span_take_bytes(&nothing, 0, &part), 0);
}

/* Records as they are written by the engine: mixed kinds, one after the other. */
static void random_records(void **state)
{
    (void)state;
    struct random r;
    struct buf b;
    seeded(&r, "records");
    buf_init(&b);
    for (int round = 0; round < 2000; round++) {
        uint64_t v = random_next(&r) >> random_below(&r, 64);
        int64_t z = (int64_t)random_next(&r) >> random_below(&r, 64);
        char bytes[40];
        size_t len = random_below(&r, sizeof bytes);
        memset(bytes, round, sizeof bytes);
        buf_clear(&b);
        assert_int_equal(buf_reserve(&b, 3 * BUF_VARINT_MAX + len), 0);
        buf_put_varint(&b, v);
        buf_put_zigzag(&b, z);
        buf_put_varint(&b, len);
        buf_put_bytes(&b, bytes, len);
        struct span s = buf_span(&b), got;
        uint64_t v2, len2;
        int64_t z2;
        assert_int_equal(span_take_varint(&s, &v2), 0);
        assert_int_equal(span_take_zigzag(&s, &z2), 0);
        assert_int_equal(span_take_varint(&s, &len2), 0);
        assert_int_equal(span_take_bytes(&s, len2, &got), 0);
        assert_true(v == v2 && z == z2 && span_equal(got, span_of(bytes, len)) && s.len == 0);
    }
    buf_done(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_appended),
        cmocka_unit_test(printf_at_every_room),
        cmocka_unit_test(printf_of_nothing),
        cmocka_unit_test(too_much_is_refused),
        cmocka_unit_test(fixed_numbers),
        cmocka_unit_test(varints_at_all_boundaries),
        cmocka_unit_test(zigzag_is_small_for_small),
        cmocka_unit_test(bad_varints_are_refused),
        cmocka_unit_test(short_input_changes_nothing),
        cmocka_unit_test(random_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
