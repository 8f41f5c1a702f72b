/* SPDX-License-Identifier: Apache-2.0 */
/* Frames: whole or refused. */
#include "core/records/frame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/digest/hash.h"
#include "base/mem.h"
#include "core/records/record.h"
#include "unit/core/samples.h"

static void frame_of(struct buf *out, uint64_t first, uint32_t count)
{
    buf_clear(out);
    assert_int_equal(frame_begin(out), 0);
    for (uint32_t i = 0; i < count; i++) {
        struct record r = {.kind = REC_SEQ_BLOCK, .seq_block = {i + 1}};
        assert_int_equal(record_encode(&r, out), 0);
    }
    frame_end(out, first, count);
}

static void test_round_trip(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b);
    for (uint32_t count = 0; count < 300; count += 7) {
        frame_of(&b, 1000 + count, count);
        struct span in = buf_span(&b);
        struct frame f;
        assert_int_equal(frame_decode(&in, &f), 0);
        assert_int_equal(in.len, 0);
        assert_int_equal(f.first, 1000 + count);
        assert_int_equal(f.count, count);
        for (uint32_t i = 0; i < count; i++) {
            struct record r;
            assert_int_equal(record_decode(&f.body, &r), 0);
            assert_int_equal(r.seq_block.upto, i + 1);
        }
        assert_int_equal(f.body.len, 0);
    }
    buf_done(&b);
}

static void test_peek_does_everything_but_the_crc(void **state)
{
    (void)state;
    struct buf b;
    struct frame peeked, decoded;
    buf_init(&b);
    frame_of(&b, 77, 5);
    struct span in = buf_span(&b), same = in;
    assert_int_equal(frame_decode(&in, &decoded), 0);
    in = same;
    assert_int_equal(frame_peek(&in, &peeked), 0);
    assert_int_equal(in.len, 0);
    assert_int_equal(peeked.first, 77);
    assert_int_equal(peeked.count, 5);
    assert_true(span_equal(peeked.body, decoded.body));
    b.data[b.len - 1] = (char)(b.data[b.len - 1] ^ 1);
    in = same;
    assert_int_equal(frame_peek(&in, &peeked), 0);
    for (size_t len = 0; len < same.len; len++) {
        in = span_of(same.at, len);
        assert_int_equal(frame_peek(&in, &peeked), -ERR_CORRUPT);
        assert_int_equal(in.len, len);
    }
    b.data[3] = '2';
    in = same;
    assert_int_equal(frame_peek(&in, &peeked), -ERR_VERSION);
    buf_done(&b);
}

static void test_frames_come_off_the_front_one_by_one(void **state)
{
    (void)state;
    struct buf one, many;
    buf_init(&one);
    buf_init(&many);
    for (uint32_t i = 1; i <= 3; i++) {
        frame_of(&one, i * 10, i);
        assert_int_equal(buf_append_span(&many, buf_span(&one)), 0);
    }
    struct span in = buf_span(&many);
    struct frame f;
    for (uint32_t i = 1; i <= 3; i++) {
        assert_int_equal(frame_decode(&in, &f), 0);
        assert_int_equal(f.first, i * 10);
        assert_int_equal(f.count, i);
    }
    assert_int_equal(in.len, 0);
    assert_int_equal(frame_decode(&in, &f), -ERR_CORRUPT);
    buf_done(&one);
    buf_done(&many);
}

static void test_every_flipped_bit_is_seen(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b);
    frame_of(&b, 99, 20);
    for (size_t bit = 0; bit < b.len * 8; bit++) {
        b.data[bit / 8] = (char)(b.data[bit / 8] ^ (1 << bit % 8));
        struct span in = buf_span(&b), before = in;
        struct frame f;
        int err = frame_decode(&in, &f);
        /* the digit of the magic may turn into that of a later version */
        if (bit / 8 == 3)
            assert_true(err == -ERR_CORRUPT || err == -ERR_VERSION);
        else
            assert_int_equal(err, -ERR_CORRUPT);
        assert_ptr_equal(in.at, before.at);
        assert_int_equal(in.len, before.len);
        b.data[bit / 8] = (char)(b.data[bit / 8] ^ (1 << bit % 8));
    }
    buf_done(&b);
}

static void test_every_shorter_input_is_refused(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b);
    frame_of(&b, 5, 3);
    for (size_t len = 0; len < b.len; len++) {
        struct span in = span_of(b.data, len);
        struct frame f;
        assert_int_equal(frame_decode(&in, &f), -ERR_CORRUPT);
    }
    buf_done(&b);
}

static void test_later_versions_are_told_apart(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b);
    frame_of(&b, 5, 3);
    for (int c = 0; c < 256; c++) {
        b.data[3] = (char)c;
        struct span in = buf_span(&b);
        struct frame f;
        int expected = c == '1' ? 0 : c >= '2' && c <= '9' ? -ERR_VERSION : -ERR_CORRUPT;
        assert_int_equal(frame_decode(&in, &f), expected);
    }
    buf_done(&b);
}

/* A good CRC over a header that no frame_end would write. */
static void assert_implausible(uint64_t first, uint32_t count, size_t body)
{
    struct buf b;
    buf_init(&b);
    assert_int_equal(frame_begin(&b), 0);
    for (size_t i = 0; i < body; i++)
        assert_int_equal(buf_append(&b, "x", 1), 0);
    frame_end(&b, first, count);
    struct span in = buf_span(&b);
    struct frame f;
    assert_int_equal(frame_decode(&in, &f), -ERR_CORRUPT);
    buf_done(&b);
}

static void test_counts_must_be_possible(void **state)
{
    (void)state;
    assert_implausible(1, 0, 1);
    assert_implausible(1, 1, 0);
    assert_implausible(1, 4, 11);
    assert_implausible(UINT64_MAX, 1, 9);
}

/* On disk: the layout of the header, and the CRC of known bytes. */
static void test_layout_is_pinned(void **state)
{
    (void)state;
    static const char expected[] = "HFr1\x03\0\0\0\x08\x07\x06\x05\x04\x03\x02\x01\x01\0\0\0";
    struct buf b;
    buf_init(&b);
    frame_of(&b, UINT64_C(0x0102030405060708), 1);
    assert_int_equal(b.len, FRAME_HEADER_BYTES + 3);
    assert_memory_equal(b.data, expected, 20);
    assert_memory_equal(b.data + FRAME_HEADER_BYTES, "\x02\x01\x01", 3);
    char copy[FRAME_HEADER_BYTES + 3];
    memcpy(copy, b.data, sizeof copy);
    memset(copy + 20, 0, 4);
    uint32_t crc = crc32c(0, copy, sizeof copy);
    struct span stored = span_of(b.data + 20, 4);
    uint32_t stored_crc;
    assert_int_equal(span_take_u32(&stored, &stored_crc), 0);
    assert_int_equal(stored_crc, crc);
    buf_done(&b);
}

static void begin_twice(void *ctx)
{
    struct buf *b = ctx;
    int err = frame_begin(b);
    err = frame_begin(b);
    (void)err;
}

static void end_without_begin(void *ctx)
{
    frame_end(ctx, 1, 0);
}

static void test_misuse_is_an_assertion(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b);
    assert_true(sample_aborts(begin_twice, &b));
    assert_true(sample_aborts(end_without_begin, &b));
    buf_done(&b);
}

static void test_without_memory_nothing_begins(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b);
    mem_fail_at(1, 1);
    assert_int_equal(frame_begin(&b), -ERR_NOMEM);
    mem_fail_at(0, 0);
    assert_int_equal(b.len, 0);
    buf_done(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_peek_does_everything_but_the_crc),
        cmocka_unit_test(test_frames_come_off_the_front_one_by_one),
        cmocka_unit_test(test_every_flipped_bit_is_seen),
        cmocka_unit_test(test_every_shorter_input_is_refused),
        cmocka_unit_test(test_later_versions_are_told_apart),
        cmocka_unit_test(test_counts_must_be_possible),
        cmocka_unit_test(test_layout_is_pinned),
        cmocka_unit_test(test_misuse_is_an_assertion),
        cmocka_unit_test(test_without_memory_nothing_begins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
