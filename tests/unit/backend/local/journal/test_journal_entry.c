/* SPDX-License-Identifier: Apache-2.0 */
/* Entries of the journal: laid out as journal/entry.h says, whole or refused. */
#include "backend/local/journal/entry.h"

#include "base/digest/hash.h"
#include "base/digest/hmac.h"
#include "core/records/frame.h"
#include "unit/backend/local/journal/journal_rig.h"
#include "unit/base/support.h"

#define AT (3u * JOURNAL_PAGE) /* where the sample lies in its segment */

static const uint8_t key[JOURNAL_KEY_BYTES] = "a key of this store, 32 bytes  ";

struct sample {
    struct buf body;
    struct journal_seal seal;
    struct journal_entry entry;
    char header[JOURNAL_ENTRY_HEADER_BYTES];
};

/* Three frames: records 10 … 15. */
static void sample_make(struct sample *s)
{
    buf_init(&s->body);
    assert_int_equal(journal_seal_init(&s->seal, key), 0);
    journal_rig_frame(&s->body, 10, 1, 40, 1);
    journal_rig_frame(&s->body, 11, 3, 500, 1);
    journal_rig_frame(&s->body, 14, 2, 7, 1);
    s->entry = (struct journal_entry){
        .length = (uint32_t)s->body.len,
        .store_id = "fifteen letters",
        .generation = UINT64_C(0x1122334455667788),
        .first = 10,
        .last = 15,
        .previous = 0xa1b2c3d4,
        .segment_bytes = 0x0102030405060708,
        .at = AT,
    };
    struct span parts[2] = {span_of(s->body.data, 100),
                            span_of(s->body.data + 100, s->body.len - 100)};
    assert_int_equal(journal_entry_seal(&s->seal, &s->entry, parts, 2, s->header), 0);
}

static void sample_done(struct sample *s)
{
    buf_done(&s->body);
    journal_seal_done(&s->seal);
}

static int header_read(struct sample *s, struct journal_entry *ret)
{
    return journal_entry_header(&s->seal, span_of(s->header, sizeof s->header), AT, ret);
}

/* The tag of the header as it is now. */
static void retag(struct sample *s)
{
    uint8_t code[HMAC_BYTES];
    assert_int_equal(hmac_run(s->seal.mac, span_of(s->header, 72), code), 0);
    memcpy(s->header + 80, code, 16);
}

static int sample_check(struct sample *s)
{
    struct journal_entry e;
    int rc = header_read(s, &e);
    return rc < 0 ? rc : journal_entry_check(&e, span_of(s->body.data, s->body.len));
}

static void test_layout(void **state)
{
    (void)state;
    struct sample s;
    sample_make(&s);
    static const unsigned char expected[] = {
        'H',  'F',  'j',  '1',  0,    0,    0,   0,   'f', 'i',  'f',  't',  'e',
        'e',  'n',  ' ',  'l',  'e',  't',  't', 'e', 'r', 's',  0,    0x88, 0x77,
        0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 10,  0,   0,   0,    0,    0,    0,
        0,    15,   0,    0,    0,    0,    0,   0,   0,   0xd4, 0xc3, 0xb2, 0xa1};
    unsigned char header[JOURNAL_ENTRY_HEADER_BYTES];
    memcpy(header, s.header, sizeof header);
    assert_int_equal(header[4] | header[5] << 8, s.body.len);
    memset(header + 4, 0, 4);
    assert_memory_equal(header, expected, sizeof expected);
    static const unsigned char size[] = {8, 7, 6, 5, 4, 3, 2, 1};
    assert_memory_equal(header + 56, size, sizeof size);
    static const unsigned char offset[] = {0, 0x30, 0, 0, 0, 0, 0, 0};
    assert_memory_equal(header + 64, offset, sizeof offset);
    assert_memory_equal(header + 72, s.seal.mark, 8);
    uint8_t code[HMAC_BYTES];
    assert_int_equal(hmac_run(s.seal.mac, span_of(s.header, 72), code), 0);
    assert_memory_equal(header + 80, code, 16);
    memcpy(header, s.header, sizeof header);
    memset(header + 52, 0, 4);
    memset(header + 80, 0, 16);
    uint32_t crc = crc32c(crc32c(0, header, sizeof header), s.body.data, s.body.len);
    assert_int_equal(crc, s.entry.crc);
    assert_int_equal(sample_check(&s), 0);
    sample_done(&s);
}

static void test_no_bit_can_change(void **state)
{
    (void)state;
    struct sample s;
    sample_make(&s);
    for (size_t bit = 0; bit < 8 * sizeof s.header; bit++) {
        s.header[bit / 8] = (char)(s.header[bit / 8] ^ 1 << bit % 8);
        EXPECT(sample_check(&s) != 0);
        s.header[bit / 8] = (char)(s.header[bit / 8] ^ 1 << bit % 8);
    }
    for (size_t bit = 0; bit < 8 * s.body.len; bit++) {
        s.body.data[bit / 8] = (char)(s.body.data[bit / 8] ^ 1 << bit % 8);
        EXPECT(sample_check(&s) == -ERR_CORRUPT);
        s.body.data[bit / 8] = (char)(s.body.data[bit / 8] ^ 1 << bit % 8);
    }
    assert_int_equal(sample_check(&s), 0);
    sample_done(&s);
}

static void test_versions(void **state)
{
    (void)state;
    struct sample s;
    struct journal_entry e = {0};
    sample_make(&s);
    s.header[3] = '2';
    assert_int_equal(header_read(&s, &e), -ERR_CORRUPT); /* without a tag it is no version at all */
    retag(&s);
    assert_int_equal(header_read(&s, &e), -ERR_VERSION);
    assert_int_equal(e.length, s.body.len);
    assert_int_equal(e.generation, s.entry.generation);
    assert_memory_equal(e.store_id, s.entry.store_id, sizeof e.store_id);
    for (char version = 0; version < 127; version++) {
        s.header[3] = version;
        retag(&s);
        int rc = header_read(&s, &e);
        assert_int_equal(rc, version == '1'                    ? 0
                             : version > '1' && version <= '9' ? -ERR_VERSION
                                                               : -ERR_CORRUPT);
    }
    sample_done(&s);
}

/* With a good CRC, so that nothing but the check itself can refuse it. */
static int reseal_check(struct sample *s)
{
    struct span body = buf_span(&s->body);
    s->entry.length = (uint32_t)body.len;
    assert_int_equal(journal_entry_seal(&s->seal, &s->entry, &body, 1, s->header), 0);
    return sample_check(s);
}

/* A correct CRC is not enough: the header must be this store's, and lie where it was written. */
static void test_another_key_or_place(void **state)
{
    (void)state;
    struct sample s;
    struct journal_entry e;
    struct journal_seal other;
    uint8_t changed[JOURNAL_KEY_BYTES];
    sample_make(&s);
    struct span header = span_of(s.header, sizeof s.header);
    memcpy(changed, key, sizeof changed);
    changed[31] ^= 1;
    assert_int_equal(journal_seal_init(&other, changed), 0);
    assert_int_equal(journal_entry_header(&other, header, AT, &e), -ERR_CORRUPT);
    assert_false(journal_entry_marked(&other, header, &e));
    journal_seal_done(&other);
    assert_int_equal(journal_entry_header(&s.seal, header, AT + JOURNAL_PAGE, &e), -ERR_CORRUPT);
    assert_int_equal(journal_entry_header(&s.seal, header, AT, &e), 0);
    header.len--;
    assert_int_equal(journal_entry_header(&s.seal, header, AT, &e), -ERR_CORRUPT);
    assert_false(journal_entry_marked(&s.seal, header, &e));
    sample_done(&s);
}

/* Whatever single byte of a header is damaged, it can be seen that there was one of this store. */
static void test_a_damaged_header_is_recognised(void **state)
{
    (void)state;
    struct sample s;
    struct journal_entry e;
    sample_make(&s);
    for (size_t i = 0; i < sizeof s.header; i++) {
        s.header[i] = (char)(s.header[i] ^ 0x40);
        assert_int_not_equal(sample_check(&s), 0);
        assert_true(header_read(&s, &e) == 0 ||
                    journal_entry_marked(&s.seal, span_of(s.header, sizeof s.header), &e));
        s.header[i] = (char)(s.header[i] ^ 0x40);
    }
    sample_done(&s);
}

static void test_what_cannot_be(void **state)
{
    (void)state;
    struct sample s;
    sample_make(&s);
    struct journal_entry good = s.entry;
    assert_int_equal(reseal_check(&s), 0);
    static const struct {
        uint64_t generation, first, last;
    } wrong[] = {{0, 10, 15}, {UINT64_MAX, 10, 15}, {1, 0, 15}, {1, 11, 15},
                 {1, 10, 14}, {1, 10, 16},          {1, 15, 10}};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        s.entry.generation = wrong[i].generation;
        s.entry.first = wrong[i].first;
        s.entry.last = wrong[i].last;
        assert_int_equal(reseal_check(&s), -ERR_CORRUPT);
    }
    s.entry = good;
    s.body.len -= 1; /* a frame cut short */
    assert_int_equal(reseal_check(&s), -ERR_CORRUPT);
    s.body.len = 0;
    assert_int_equal(reseal_check(&s), -ERR_CORRUPT);
    sample_done(&s);
}

static void test_frames_of_a_newer_version(void **state)
{
    (void)state;
    struct sample s;
    sample_make(&s);
    s.body.data[3] = '2';
    assert_int_equal(reseal_check(&s), -ERR_VERSION);
    sample_done(&s);
}

static void test_frames_must_follow_each_other(void **state)
{
    (void)state;
    struct sample s;
    sample_make(&s);
    buf_clear(&s.body);
    journal_rig_frame(&s.body, 10, 1, 40, 1);
    journal_rig_frame(&s.body, 12, 4, 40, 1);
    assert_int_equal(reseal_check(&s), -ERR_CORRUPT);
    buf_clear(&s.body);
    journal_rig_frame(&s.body, 10, 6, 40, 1);
    journal_rig_frame(&s.body, 16, 0, 0, 1); /* an empty one */
    assert_int_equal(reseal_check(&s), -ERR_CORRUPT);
    sample_done(&s);
}

static void test_sizes(void **state)
{
    (void)state;
    static const struct {
        uint64_t body, bytes;
    } sizes[] = {
        {1, 4096}, {4000, 4096}, {4001, 8192}, {JOURNAL_BODY_BYTES_MAX, (1u << 30) + 4096}};
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        assert_int_equal(journal_entry_bytes(sizes[i].body), sizes[i].bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_no_bit_can_change),
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_another_key_or_place),
        cmocka_unit_test(test_a_damaged_header_is_recognised),
        cmocka_unit_test(test_what_cannot_be),
        cmocka_unit_test(test_frames_of_a_newer_version),
        cmocka_unit_test(test_frames_must_follow_each_other),
        cmocka_unit_test(test_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
