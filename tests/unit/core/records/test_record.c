/* SPDX-License-Identifier: Apache-2.0 */
/* Records: what is written is read back, and nothing else is. */
#include "core/records/record.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "core/jobs/job_error.h"
#include "core/limits.h"
#include "unit/core/samples.h"

#define SEED 88001
#define ROUNDS 300

static struct buf out;
static struct arena arena;

static void encode(const struct record *r)
{
    buf_clear(&out);
    assert_int_equal(record_encode(r, &out), 0);
}

static int decode(struct record *ret)
{
    struct span in = buf_span(&out);
    int err = record_decode(&in, ret);
    assert_int_equal(in.len, err ? out.len : 0);
    return err;
}

/* ---- all kinds ---- */

static void test_every_kind_survives(void **state)
{
    (void)state;
    struct random random;
    random_seed(&random, SEED);
    print_message("seed %d\n", SEED);
    for (size_t k = 0; k < sample_kind_count; k++) {
        for (int i = 0; i < ROUNDS; i++) {
            struct record r, again;
            const char *field;
            arena_reset(&arena);
            sample_record(&random, &arena, sample_kinds[k], &r);
            encode(&r);
            assert_in_range(out.len, 3, record_bytes_max(&r));
            assert_int_equal((uint8_t)out.data[0], sample_kinds[k]);
            memset(&again, 0xee, sizeof again);
            assert_int_equal(decode(&again), 0);
            if (!sample_equal(&r, &again, &field))
                fail_msg("%s differs", field);
        }
    }
}

static void test_records_come_off_the_front_one_by_one(void **state)
{
    (void)state;
    struct random random;
    struct record written[50], r;
    random_seed(&random, SEED + 1);
    arena_reset(&arena);
    buf_clear(&out);
    for (size_t i = 0; i < 50; i++) {
        sample_record(&random, &arena, sample_kinds[i % sample_kind_count], &written[i]);
        assert_int_equal(record_encode(&written[i], &out), 0);
    }
    struct span in = buf_span(&out);
    for (size_t i = 0; i < 50; i++) {
        const char *field;
        assert_int_equal(record_decode(&in, &r), 0);
        assert_true(sample_equal(&written[i], &r, &field));
    }
    assert_int_equal(in.len, 0);
    assert_int_equal(record_decode(&in, &r), -ERR_CORRUPT);
}

static void test_shorter_or_longer_bodies_are_refused(void **state)
{
    (void)state;
    struct random random;
    random_seed(&random, SEED + 2);
    for (size_t k = 0; k < sample_kind_count; k++) {
        struct record r;
        arena_reset(&arena);
        do { /* one whose length takes one byte, so that it can be changed in place */
            sample_record(&random, &arena, sample_kinds[k], &r);
            encode(&r);
        } while (out.len > 120);
        for (size_t len = 0; len < out.len; len++) {
            struct span in = span_of(out.data, len);
            assert_int_equal(record_decode(&in, &r), -ERR_CORRUPT);
            assert_int_equal(in.len, len);
        }
        for (size_t body = 0; body + 2 < out.len; body++) {
            char *cut = arena_copy(&arena, out.data, out.len);
            cut[1] = (char)body;
            struct span in = span_of(cut, body + 2);
            assert_int_equal(record_decode(&in, &r), -ERR_CORRUPT);
        }
        out.data[1]++;
        assert_int_equal(buf_append(&out, "", 1), 0);
        assert_int_equal(decode(&r), -ERR_CORRUPT);
    }
}

/* Whatever decodes encodes to the same bytes: each record has one spelling. */
static void test_one_spelling_for_each_record(void **state)
{
    (void)state;
    struct random random;
    struct buf again;
    size_t decoded = 0;
    random_seed(&random, SEED + 3);
    buf_init(&again);
    for (int i = 0; i < 60000; i++) {
        struct record r;
        arena_reset(&arena);
        sample_record(&random, &arena, sample_kinds[(size_t)i % sample_kind_count], &r);
        encode(&r);
        size_t near = out.len < 60 ? out.len : 60; /* where the numbers are */
        out.data[random_below(&random, near)] = (char)random_next(&random);
        struct span in = buf_span(&out);
        if (record_decode(&in, &r) < 0)
            continue;
        decoded++;
        buf_clear(&again);
        assert_int_equal(record_encode(&r, &again), 0);
        assert_int_equal(again.len, out.len - in.len);
        assert_memory_equal(again.data, out.data, again.len);
    }
    assert_true(decoded > 5000);
    buf_done(&again);
}

static void test_unknown_kinds_are_a_later_version(void **state)
{
    (void)state;
    for (unsigned kind = 1; kind < 256; kind++) {
        bool known = false;
        for (size_t k = 0; k < sample_kind_count; k++)
            known = known || sample_kinds[k] == kind;
        assert_int_equal(record_name(kind) != NULL, known);
        if (known)
            continue;
        const char bytes[] = {(char)kind, 1, 0};
        struct span in = span_of(bytes, sizeof bytes);
        struct record r;
        assert_int_equal(record_decode(&in, &r), -ERR_VERSION);
        assert_int_equal(in.len, sizeof bytes);
    }
    struct span zero = SPAN_LITERAL("\x00\x01\x00");
    struct record r;
    assert_int_equal(record_decode(&zero, &r), -ERR_CORRUPT);
    assert_null(record_name(0));
    assert_null(record_name((enum record_kind)4000));
}

static void test_names(void **state)
{
    (void)state;
    static const char *const names[] = {
        "epoch",
        "seq_block",
        "queue_put",
        "queue_gone",
        "queue_end",
        "purged",
        "bulk_begin",
        "bulk_step",
        "bulk_end",
        "job_new",
        "job_ready",
        "job_claimed",
        "job_extended",
        "job_back",
        "job_done",
        "job_dead",
        "job_cancelled",
        "job_requeued",
        "job_patched",
        "jobs_gone",
        "key_new",
        "keys_gone",
        "kv_set",
        "kv_gone",
        "kv_from_job",
        "kv_keys",
        "alert_put",
        "alert_gone",
        "alert_edge",
        "notice_new",
        "notice_tried",
        "notice_gone",
        "breaker_put",
        "breaker_gone",
        "counters",
        "job_noted",
        "schedule_put",
        "schedule_gone",
        "schedule_fired",
        "schedule_passed",
        "schedule_failed",
        "job_linked",
        "job_priority",
        "job_attempt",
        "job_cancel_requested",
        "job_progress",
        "job_logged",
        "job_steps",
        "job_unblocked",
        "dependent_put",
        "dependent_gone",
        "dependencies_new",
        "dependency_end",
        "parent_ended",
    };
    for (size_t k = 0; k < sample_kind_count; k++)
        assert_string_equal(record_name(sample_kinds[k]), names[k]);
}

/* ---- what decoding refuses: a valid record with one thing changed ---- */

static struct record new_record(void)
{
    return (struct record){
        .kind = REC_JOB_NEW,
        .job_new = {.job = {.seq = 5,
                            .id_hi = 6,
                            .queue = 7,
                            .state = STATE_READY,
                            .payload_kind = PAYLOAD_JSON},
                    .payload = SPAN_LITERAL("{}")},
    };
}

/* Offsets in the encoding of new_record: kind, length, seq, id_hi (8), then one byte each. */
enum {
    NEW_SEQ = 2,
    NEW_PRIORITY = 11,
    NEW_RUN_AT,
    NEW_SINCE,
    NEW_QUEUE,
    NEW_FAILURES,
    NEW_CRASHES,
    NEW_GENERATION,
    NEW_STATE,
    NEW_REASON,
    NEW_PAYLOAD_KIND,
    NEW_FLAGS,
    NEW_PAYLOAD_LENGTH
};

static int decode_new_with(size_t at, uint8_t value)
{
    struct record r = new_record();
    encode(&r);
    assert_int_equal(out.len, NEW_PAYLOAD_LENGTH + 3);
    out.data[at] = (char)value;
    return decode(&r);
}

static void test_job_new_enums_are_checked(void **state)
{
    (void)state;
    for (unsigned v = 0; v < 256; v++) {
        bool state_fits = v > STATE_NONE && v < STATE_COUNT && v != STATE_RUNNING;
        assert_int_equal(decode_new_with(NEW_STATE, (uint8_t)v), state_fits ? 0 : -ERR_CORRUPT);
        assert_int_equal(decode_new_with(NEW_REASON, (uint8_t)v),
                         v < REASON_COUNT ? 0 : -ERR_CORRUPT);
        assert_int_equal(decode_new_with(NEW_PAYLOAD_KIND, (uint8_t)v),
                         v == PAYLOAD_JSON || v == PAYLOAD_BYTES ? 0 : -ERR_CORRUPT);
        /* 1 would need an extra part, other flags are not for the disk */
        assert_int_equal(decode_new_with(NEW_FLAGS, (uint8_t)v), v == 0 ? 0 : -ERR_CORRUPT);
        assert_int_equal(decode_new_with(NEW_PAYLOAD_LENGTH, (uint8_t)v),
                         v == 2 ? 0 : -ERR_CORRUPT);
        assert_int_equal(decode_new_with(NEW_SEQ, (uint8_t)v),
                         v >= 1 && v < 128 ? 0 : -ERR_CORRUPT);
        assert_int_equal(decode_new_with(NEW_QUEUE, (uint8_t)v),
                         v >= 1 && v < 128 ? 0 : -ERR_CORRUPT);
    }
}

static void test_job_new_derives_what_it_can(void **state)
{
    (void)state;
    struct record r = new_record(), again;
    r.job_new.job.payload_bytes = 999;
    r.job_new.job.flags = JOB_BOUND | JOB_HAS_EXTRA;
    encode(&r);
    assert_int_equal(decode(&again), 0);
    assert_int_equal(again.job_new.job.payload_bytes, 2);
    assert_int_equal(again.job_new.job.flags, 0);

    r.job_new.extra.expires_at.ms = 1;
    r.job_new.job.flags = 0;
    encode(&r);
    assert_int_equal(decode(&again), 0);
    assert_int_equal(again.job_new.job.flags, JOB_HAS_EXTRA);
    assert_int_equal(again.job_new.extra.expires_at.ms, 1);
    assert_int_equal(again.job_new.extra.unique.len, 0);
}

/* An extra part that says nothing must not be there. */
static void test_job_new_extra_is_there_only_if_it_says_something(void **state)
{
    (void)state;
    struct record r = new_record();
    r.job_new.extra.expires_at.ms = 1;
    encode(&r);
    size_t expires = NEW_FLAGS + 2; /* behind what says that it is there */
    assert_int_equal(out.data[expires], 1);
    out.data[expires] = 0;
    assert_int_equal(decode(&r), -ERR_CORRUPT);
}

static void assert_new_text_refused(size_t offset, const char *text, size_t len)
{
    struct record r = new_record();
    struct span stand_in = span_of(arena_alloc(&arena, len), len);
    memset((char *)stand_in.at, 'a', len);
    memcpy((char *)&r.job_new.extra + offset, &stand_in, sizeof stand_in);
    encode(&r);
    char *at = memmem(out.data, out.len, stand_in.at, len);
    assert_non_null(at);
    assert_int_equal(decode(&r), 0);
    memcpy(at, text, len);
    assert_int_equal(decode(&r), -ERR_CORRUPT);
}

static void test_texts_must_be_utf8_without_nul(void **state)
{
    (void)state;
    static const size_t texts[] = {
        offsetof(struct job_extra, unique), offsetof(struct job_extra, group),
        offsetof(struct job_extra, correlation), offsetof(struct job_extra, label),
        offsetof(struct job_extra, kind)};
    arena_reset(&arena);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_new_text_refused(texts[i], "aaa\xff", 4);
        assert_new_text_refused(texts[i], "aa\xc0\x80", 4);
        assert_new_text_refused(texts[i], "\xed\xa0\x80z", 4);
        assert_new_text_refused(texts[i], "aa\0a", 4);
    }
}

static void test_options_must_be_readable(void **state)
{
    (void)state;
    struct record r = new_record();
    struct job_options options = {.lease_ms = 30000};
    struct buf b;
    buf_init(&b);
    assert_int_equal(options_encode(&options, &b), 0);
    r.job_new.extra.options = buf_span(&b);
    encode(&r);
    assert_int_equal(decode(&r), 0);
    char *at = memmem(out.data, out.len, b.data, b.len);
    assert_non_null(at);
    at[0]++; /* the version */
    assert_int_equal(decode(&r), -ERR_CORRUPT);
    buf_done(&b);
}

static void test_worker_must_be_text(void **state)
{
    (void)state;
    struct record r = {
        .kind = REC_JOB_CLAIMED,
        .job_claimed = {
            .seq = 1, .token = {1, 1}, .lease_ms = 30000, .worker = SPAN_LITERAL("w1")}};
    encode(&r);
    assert_int_equal(decode(&r), 0);
    out.data[out.len - 1] = '\xff';
    assert_int_equal(decode(&r), -ERR_CORRUPT);
    out.data[out.len - 1] = 0;
    assert_int_equal(decode(&r), -ERR_CORRUPT);
}

/* Writes kind, length and body as given, and decodes. */
static int decode_body(enum record_kind kind, const char *body, size_t len)
{
    struct record r;
    buf_clear(&out);
    assert_int_equal(buf_reserve(&out, len + 10), 0);
    buf_put_u8(&out, (uint8_t)kind);
    buf_put_varint(&out, len);
    buf_put_bytes(&out, body, len);
    return decode(&r);
}

#define BODY(kind, bytes) decode_body(kind, bytes, sizeof(bytes) - 1)

static void test_leases_and_tokens_are_checked(void **state)
{
    (void)state;
    /* seq, counter, epoch, lease, bound, at, worker */
    assert_int_equal(BODY(REC_JOB_CLAIMED, "\x01\x01\x01\x64\x00\x00\x00\x00"), 0);
    assert_int_equal(BODY(REC_JOB_CLAIMED, "\x01\x01\x01\x63\x00\x00\x00\x00"), -ERR_CORRUPT);
    assert_int_equal(BODY(REC_JOB_CLAIMED, "\x01\x01\x01\x80\xb8\x99\x29\x00\x01\x00\x00"), 0);
    assert_int_equal(BODY(REC_JOB_CLAIMED, "\x01\x01\x01\x81\xb8\x99\x29\x00\x01\x00\x00"),
                     -ERR_CORRUPT);
    assert_int_equal(BODY(REC_JOB_CLAIMED, "\x01\x01\x01\x64\x00\x02\x00\x00"), -ERR_CORRUPT);
    assert_int_equal(BODY(REC_JOB_CLAIMED, "\x01\x00\x01\x64\x00\x00\x00\x00"), -ERR_CORRUPT);
    assert_int_equal(BODY(REC_JOB_CLAIMED, "\x00\x01\x01\x64\x00\x00\x00\x00"), -ERR_CORRUPT);
    assert_int_equal(BODY(REC_JOB_CLAIMED, "\x01\x01\xff\xff\xff\xff\x10\x64\x00\x00\x00\x00"),
                     -ERR_CORRUPT); /* an epoch of 33 bits */
    assert_int_equal(BODY(REC_JOB_CLAIMED, "\x01\x01\x01\x64\x80\x90\xfb\xd3\x09\x00\x00\x00"),
                     0); /* 30 days … */
    assert_int_equal(BODY(REC_JOB_CLAIMED, "\x01\x01\x01\x64\x81\x90\xfb\xd3\x09\x00\x00\x00"),
                     -ERR_CORRUPT); /* … are the longest timeout */
    /* seq, at, grace time */
    assert_int_equal(BODY(REC_JOB_CANCEL_REQUESTED, "\x01\x01\x00"), 0);
    assert_int_equal(BODY(REC_JOB_CANCEL_REQUESTED, "\x00\x01\x00"), -ERR_CORRUPT);
    assert_int_equal(BODY(REC_JOB_CANCEL_REQUESTED, "\x01\x00\x00"), -ERR_CORRUPT);
    assert_int_equal(BODY(REC_JOB_CANCEL_REQUESTED, "\x01\x01\x81\xb8\x99\x29"), -ERR_CORRUPT);
    assert_int_equal(BODY(REC_JOB_PRIORITY, "\x01\x07"), 0);
    assert_int_equal(BODY(REC_JOB_PRIORITY, "\x00\x07"), -ERR_CORRUPT);
    /* seq, number, outcome, error kind, started, ended, worker, error */
    assert_int_equal(BODY(REC_JOB_ATTEMPT, "\x01\x01\x02\x00\x01\x02\x00\x00"), 0);
    assert_int_equal(BODY(REC_JOB_ATTEMPT, "\x00\x01\x02\x00\x01\x02\x00\x00"), -ERR_CORRUPT);
    assert_int_equal(BODY(REC_JOB_ATTEMPT, "\x01\x00\x02\x00\x01\x02\x00\x00"), -ERR_CORRUPT);
    assert_int_equal(BODY(REC_JOB_ATTEMPT, "\x01\x01\x00\x00\x01\x02\x00\x00"), -ERR_CORRUPT);
    assert_int_equal(BODY(REC_JOB_ATTEMPT, "\x01\x01\x08\x00\x01\x02\x00\x00"), -ERR_CORRUPT);
    assert_int_equal(BODY(REC_JOB_ATTEMPT, "\x01\x01\x02\x02\x01\x02\x00\x00"), -ERR_CORRUPT);
    assert_int_equal(BODY(REC_JOB_EXTENDED, "\x01\x64"), 0);
    assert_int_equal(BODY(REC_JOB_EXTENDED, "\x01\x63"), -ERR_CORRUPT);
    assert_int_equal(BODY(REC_JOB_EXTENDED, "\x01\x81\xb8\x99\x29"), -ERR_CORRUPT);
}

static void test_sequences_and_times_are_checked(void **state)
{
    (void)state;
    assert_int_equal(BODY(REC_SEQ_BLOCK, "\x00"), -ERR_CORRUPT);
    assert_int_equal(BODY(REC_SEQ_BLOCK, "\x01"), 0);
    assert_int_equal(BODY(REC_SEQ_BLOCK, "\xff\xff\xff\xff\xff\xff\xff\x0f"), 0); /* 2^53-1 */
    assert_int_equal(BODY(REC_SEQ_BLOCK, "\x80\x80\x80\x80\x80\x80\x80\x10"), -ERR_CORRUPT);
    assert_int_equal(BODY(REC_JOB_READY, "\x01\xff\x8f\xcf\xf8\xf9\xcf\x39"), -ERR_CORRUPT);
    struct record r = {.kind = REC_JOB_READY, .job_ready = {LIMIT_SEQ, {LIMIT_WALL_MS}}};
    encode(&r);
    assert_int_equal(decode(&r), 0);
    out.data[out.len - 7]++; /* one millisecond past the last */
    assert_int_equal(decode(&r), -ERR_CORRUPT);
    assert_int_equal(BODY(REC_JOB_READY, "\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
                     -ERR_CORRUPT); /* -1 */
}

static void test_longer_spellings_of_numbers_are_refused(void **state)
{
    (void)state;
    assert_int_equal(BODY(REC_SEQ_BLOCK, "\x81\x00"), -ERR_CORRUPT);
    assert_int_equal(BODY(REC_SEQ_BLOCK, "\x81\x80\x00"), -ERR_CORRUPT);
    assert_int_equal(BODY(REC_SEQ_BLOCK, "\x81\x80\x80\x80\x80\x80\x80\x00"), -ERR_CORRUPT);
    assert_int_equal(BODY(REC_SEQ_BLOCK, "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x02"), -ERR_CORRUPT);
    assert_int_equal(BODY(REC_SEQ_BLOCK, "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"),
                     -ERR_CORRUPT);
    /* the same where eight bytes more follow, and in the length of the body */
    static const char padded[] = "\x02\x81\x00\x01\x02\x01\x01\x02\x01\x01\x02\x01\x01\x02\x01\x01";
    struct span in = span_of(padded, sizeof padded - 1);
    struct record r;
    assert_int_equal(record_decode(&in, &r), -ERR_CORRUPT);
}

static void test_reasons_fit_their_records(void **state)
{
    (void)state;
    /* by number; b: back, d: dead, r: back or dead, c: cancelled, e: dead or cancelled */
    static const char kinds[REASON_COUNT + 1] = "brddrdccbbcdre";
    for (unsigned v = 0; v < 256; v++) {
        char kind = v < REASON_COUNT ? kinds[v] : '?';
        char b[] = {1, STATE_READY, (char)v, 0, 0, 0, 0, 0, 0, 0};
        char d[] = {1, (char)v, 0, 0, 0, 0, 0};
        char c[] = {1, (char)v, 0};
        bool backs = kind == 'r' || kind == 'b';
        bool deads = kind == 'r' || kind == 'd' || kind == 'e';
        assert_int_equal(decode_body(REC_JOB_BACK, b, sizeof b), backs ? 0 : -ERR_CORRUPT);
        assert_int_equal(decode_body(REC_JOB_DEAD, d, sizeof d), deads ? 0 : -ERR_CORRUPT);
        assert_int_equal(decode_body(REC_JOB_CANCELLED, c, sizeof c),
                         kind == 'c' || kind == 'e' ? 0 : -ERR_CORRUPT);
    }
}

static void test_states_error_kinds_and_actions_are_checked(void **state)
{
    (void)state;
    for (unsigned v = 0; v < 256; v++) {
        int waiting = v == STATE_READY || v == STATE_SCHEDULED ? 0 : -ERR_CORRUPT;
        int flag = v <= 1 ? 0 : -ERR_CORRUPT;
        char back[] = {1, (char)v, REASON_FAILED, 0, 0, 0, 0, 0, 0, 0};
        assert_int_equal(decode_body(REC_JOB_BACK, back, sizeof back), waiting);
        char requeued[] = {1, (char)v, 0, 0, 0};
        assert_int_equal(decode_body(REC_JOB_REQUEUED, requeued, sizeof requeued), waiting);
        char patched[] = {1, (char)v, 0, 0, 0, 0, 0};
        assert_int_equal(decode_body(REC_JOB_PATCHED, patched, sizeof patched),
                         v == STATE_BLOCKED ? 0 : waiting);
        char business[] = {1, STATE_READY, REASON_FAILED, 0, 0, 0, 0, 0, (char)v, 0};
        assert_int_equal(decode_body(REC_JOB_BACK, business, sizeof business), flag);
        char dead[] = {1, REASON_FAILED, 0, 0, 0, (char)v, 0};
        assert_int_equal(decode_body(REC_JOB_DEAD, dead, sizeof dead), flag);
        char done[] = {1, 0, (char)v, 0};
        assert_int_equal(decode_body(REC_JOB_DONE, done, sizeof done),
                         v <= PAYLOAD_BYTES ? 0 : -ERR_CORRUPT);
        char result[] = {1, 0, (char)v, 1, 'x'};
        assert_int_equal(decode_body(REC_JOB_DONE, result, sizeof result),
                         v == PAYLOAD_JSON || v == PAYLOAD_BYTES ? 0 : -ERR_CORRUPT);
        char bulk[] = {1, (char)v, 0, 0, 0, 0, 0, 0};
        assert_int_equal(decode_body(REC_BULK_BEGIN, bulk, sizeof bulk),
                         v >= BULK_REQUEUE && v <= BULK_CANCEL_NOW ? 0 : -ERR_CORRUPT);
        char states[] = {1, BULK_CANCEL, 0, 0, (char)v, 0, 0, 0};
        assert_int_equal(decode_body(REC_BULK_BEGIN, states, sizeof states),
                         v < 128 && (v & ~STATES_ALL) == 0 ? 0 : -ERR_CORRUPT);
    }
}

static void test_store_records_are_checked(void **state)
{
    (void)state;
    assert_int_equal(BODY(REC_EPOCH, "\x01\x00"), 0);
    assert_int_equal(BODY(REC_EPOCH, "\x00\x00"), -ERR_CORRUPT);
    assert_int_equal(BODY(REC_QUEUE_GONE, "\x01\x00"), 0);
    assert_int_equal(BODY(REC_QUEUE_GONE, "\x00\x00"), -ERR_CORRUPT);
    assert_int_equal(BODY(REC_QUEUE_END, "\x00\x00"), -ERR_CORRUPT);
    assert_int_equal(BODY(REC_PURGED, "\x01\x01\x00\x00"), 0);
    assert_int_equal(BODY(REC_PURGED, "\x00\x01\x00\x00"), -ERR_CORRUPT);
    assert_int_equal(BODY(REC_PURGED, "\x01\x80\x80\x04\x00\x00"), 0); /* 65536 */
    assert_int_equal(BODY(REC_PURGED, "\x01\x80\x80\x80\x80\x10\x00\x00"), -ERR_CORRUPT); /* 2^32 */
    assert_int_equal(BODY(REC_BULK_STEP, "\x01\x00\x00\x00"), 0);
    assert_int_equal(BODY(REC_BULK_END, "\x00\x00\x00\x00"), -ERR_CORRUPT);
    char key[34] = {1};
    key[24] = 1;
    assert_int_equal(decode_body(REC_KEY_NEW, key, sizeof key), 0);
    key[0] = 0; /* no key */
    assert_int_equal(decode_body(REC_KEY_NEW, key, sizeof key), -ERR_CORRUPT);
}

static void test_queue_names_and_policies_are_checked(void **state)
{
    (void)state;
    struct queue_policy policy;
    struct buf b;
    buf_init(&b);
    policy_default(&policy);
    assert_int_equal(policy_encode(&policy, &b), 0);
    struct record r = {
        .kind = REC_QUEUE_PUT,
        .queue_put = {.queue = 1, .name = SPAN_LITERAL("mails"), .policy = buf_span(&b)}};
    encode(&r);
    assert_int_equal(decode(&r), 0);
    char *name = memmem(out.data, out.len, "mails", 5);
    assert_non_null(name);
    name[0] = '-';
    assert_int_equal(decode(&r), -ERR_CORRUPT);
    name[0] = '\n';
    assert_int_equal(decode(&r), -ERR_CORRUPT);
    name[0] = '\x80';
    assert_int_equal(decode(&r), -ERR_CORRUPT);
    name[0] = 'M';
    assert_int_equal(decode(&r), 0);
    name[6] = 99; /* the policy's version */
    assert_int_equal(decode(&r), -ERR_CORRUPT);
    buf_done(&b);
}

/* ---- limits ---- */

static void encode_ctx(void *ctx)
{
    struct buf b;
    buf_init(&b);
    int err = record_encode(ctx, &b);
    (void)err;
}

static void assert_aborts_with(struct record r)
{
    assert_true(sample_aborts(encode_ctx, &r));
}

/* What could not be read back is never written. */
static void test_encoding_asserts_what_decoding_demands(void **state)
{
    (void)state;
    static char big[LIMIT_ATTRIBUTES_BYTES + 1];
    memset(big, 'x', sizeof big);
    struct record r = new_record();
    r.job_new.job.seq = 0;
    assert_aborts_with(r);
    r = new_record();
    r.job_new.job.seq = LIMIT_SEQ + 1;
    assert_aborts_with(r);
    r = new_record();
    r.job_new.job.state = STATE_RUNNING;
    assert_aborts_with(r);
    r = new_record();
    r.job_new.job.run_at.ms = -1;
    assert_aborts_with(r);
    r = new_record();
    r.job_new.payload.len = LIMIT_PAYLOAD_BYTES + 1;
    assert_aborts_with(r);
    r = new_record();
    r.job_new.extra.unique = span_of(big, LIMIT_KEY_BYTES + 1);
    assert_aborts_with(r);
    r = new_record();
    r.job_new.extra.label = span_of(big, LIMIT_LABEL_BYTES + 1);
    assert_aborts_with(r);
    r = new_record();
    r.job_new.extra.attributes = span_of(big, LIMIT_ATTRIBUTES_BYTES + 1);
    assert_aborts_with(r);
    r = new_record();
    r.job_new.extra.options = SPAN_LITERAL("nonsense");
    assert_aborts_with(r); /* seen only where test hooks are */
    r = (struct record){.kind = REC_JOB_BACK,
                        .job_back = {.seq = 1,
                                     .state = STATE_READY,
                                     .reason = REASON_FAILED,
                                     .error = span_of(big, JOB_ERROR_PACKED_MAX + 1)}};
    assert_aborts_with(r);
    r = (struct record){.kind = (enum record_kind)200};
    assert_aborts_with(r);
}

/* A body of `before`, a span of `len` letters, `after`. */
static int decode_with_span(enum record_kind kind, struct span before, size_t len,
                            struct span after)
{
    struct buf body;
    buf_init(&body);
    assert_int_equal(buf_reserve(&body, before.len + len + after.len + 10), 0);
    buf_put_bytes(&body, before.at, before.len);
    buf_put_varint(&body, len);
    memset(body.data + body.len, 'a', len);
    body.len += len;
    buf_put_bytes(&body, after.at, after.len);
    int err = decode_body(kind, body.data, body.len);
    buf_done(&body);
    return err;
}

/* Each text and each blob at its limit, and one byte past it. */
static void test_decoding_refuses_what_is_over_a_limit(void **state)
{
    (void)state;
    struct queue_policy policy;
    struct buf p, after_name;
    buf_init(&p);
    buf_init(&after_name);
    policy_default(&policy);
    assert_int_equal(policy_encode(&policy, &p), 0);
    assert_int_equal(buf_reserve(&after_name, p.len + 20), 0);
    buf_put_varint(&after_name, p.len);
    buf_put_bytes(&after_name, p.data, p.len);
    buf_put_bytes(&after_name, "\0\0", 3);
    char before_owner[100] = "\1\0\0\0\0\1n"; /* then the policy */
    before_owner[7] = (char)p.len;
    memcpy(before_owner + 8, p.data, p.len);
    struct span owner = span_of(before_owner, 8 + p.len);
    before_owner[owner.len] = 0;
    struct span note = span_of(before_owner, owner.len + 1);
    struct span attributes = span_of(before_owner, owner.len + 2);

#define NEW_HEAD "\1\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\2\0\1\1"
    const struct {
        enum record_kind kind;
        struct span before;
        size_t limit;
        struct span after;
    } cases[] = {
        {REC_QUEUE_PUT, SPAN_LITERAL("\1\0\0\0\0"), LIMIT_QUEUE_NAME_BYTES, buf_span(&after_name)},
        {REC_QUEUE_PUT, owner, LIMIT_LABEL_BYTES, SPAN_LITERAL("\0\0")},
        {REC_QUEUE_PUT, note, LIMIT_NOTE_BYTES, SPAN_LITERAL("\0")},
        {REC_QUEUE_PUT, attributes, LIMIT_NOTE_BYTES, SPAN_LITERAL("")},
        {REC_BULK_BEGIN, SPAN_LITERAL("\1\1\0\0\0"), LIMIT_KEY_BYTES, SPAN_LITERAL("\0\1")},
        {REC_BULK_BEGIN, SPAN_LITERAL("\1\1\0\0\0\0"), LIMIT_KIND_BYTES, SPAN_LITERAL("\1")},
        {REC_JOB_NEW, SPAN_LITERAL(NEW_HEAD "\4"), LIMIT_KEY_BYTES, SPAN_LITERAL("\0")},
        {REC_JOB_NEW, SPAN_LITERAL(NEW_HEAD "\x08"), LIMIT_KEY_BYTES, SPAN_LITERAL("\0")},
        {REC_JOB_NEW, SPAN_LITERAL(NEW_HEAD "\x10"), LIMIT_KEY_BYTES, SPAN_LITERAL("\0")},
        {REC_JOB_NEW, SPAN_LITERAL(NEW_HEAD "\x20"), LIMIT_LABEL_BYTES, SPAN_LITERAL("\0")},
        {REC_JOB_NEW, SPAN_LITERAL(NEW_HEAD "\x40"), LIMIT_ATTRIBUTES_BYTES, SPAN_LITERAL("\0")},
        {REC_JOB_NEW, SPAN_LITERAL(NEW_HEAD "\x80\1"), LIMIT_KIND_BYTES, SPAN_LITERAL("\0")},
        {REC_JOB_NEW, SPAN_LITERAL(NEW_HEAD "\x80\2"), LIMIT_HEADERS_BYTES, SPAN_LITERAL("\0")},
        {REC_JOB_CLAIMED, SPAN_LITERAL("\1\1\1\x64\0\0\0"), LIMIT_WORKER_BYTES, SPAN_LITERAL("")},
        {REC_JOB_BACK, SPAN_LITERAL("\1\2\1\0\0\0\0\0\0"), JOB_ERROR_PACKED_MAX, SPAN_LITERAL("")},
        {REC_JOB_DEAD, SPAN_LITERAL("\1\1\0\0\0\0"), JOB_ERROR_PACKED_MAX, SPAN_LITERAL("")},
        {REC_JOB_DONE, SPAN_LITERAL("\1\0\2"), LIMIT_PAYLOAD_BYTES, SPAN_LITERAL("")},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int at = decode_with_span(cases[i].kind, cases[i].before, cases[i].limit, cases[i].after);
        int past =
            decode_with_span(cases[i].kind, cases[i].before, cases[i].limit + 1, cases[i].after);
        if (at != 0 || past != -ERR_CORRUPT)
            fail_msg("case %zu: %d at the limit, %d past it", i, at, past);
    }
    buf_done(&p);
    buf_done(&after_name);
    buf_done(&out);
}

/* The length of the body is written in as few bytes as it needs, whatever was reserved for it. */
static void test_lengths_around_their_widths(void **state)
{
    (void)state;
    static char bytes[17000];
    memset(bytes, 'p', sizeof bytes);
    for (size_t len = 0; len < sizeof bytes; len += len < 300 || len > 16200 ? 1 : 97) {
        struct record r = new_record(), again;
        r.job_new.payload = span_of(bytes, len);
        r.job_new.job.payload_bytes = (uint32_t)len;
        const char *field;
        encode(&r);
        assert_int_equal(decode(&again), 0);
        assert_true(sample_equal(&r, &again, &field));
    }
}

static void test_largest_payload(void **state)
{
    (void)state;
    struct record r = new_record(), again;
    char *bytes = mem_zalloc(LIMIT_PAYLOAD_BYTES);
    assert_non_null(bytes);
    r.job_new.payload = span_of(bytes, LIMIT_PAYLOAD_BYTES);
    r.job_new.job.payload_kind = PAYLOAD_BYTES;
    encode(&r);
    assert_int_equal(decode(&again), 0);
    assert_int_equal(again.job_new.job.payload_bytes, LIMIT_PAYLOAD_BYTES);
    buf_done(&out);
    mem_free(bytes);
}

/* ---- the list of sequences ---- */

static void test_seq_list(void **state)
{
    (void)state;
    static const uint64_t seqs[] = {10, 11, 5, LIMIT_SEQ, 1, 2, 9007199254740000};
    struct buf list;
    uint64_t previous = 0, seq;
    buf_init(&list);
    for (size_t i = 0; i < 7; i++)
        assert_int_equal(record_seq_append(&list, &previous, seqs[i]), 0);
    struct span in = buf_span(&list);
    previous = 0;
    for (size_t i = 0; i < 7; i++) {
        assert_int_equal(record_seq_next(&in, &previous, &seq), 0);
        assert_int_equal(seq, seqs[i]);
    }
    assert_int_equal(in.len, 0);
    seq = 77;
    assert_int_equal(record_seq_next(&in, &previous, &seq), -ERR_CORRUPT);
    assert_int_equal(seq, 77);
    buf_done(&list);
}

static void test_seq_list_and_count_must_agree(void **state)
{
    (void)state;
    assert_int_equal(BODY(REC_JOBS_GONE, "\x02\x02\x02\x02"), 0); /* 1, 2 */
    assert_int_equal(BODY(REC_JOBS_GONE, "\x01\x02\x02\x02"), -ERR_CORRUPT);
    assert_int_equal(BODY(REC_JOBS_GONE, "\x03\x02\x02\x02"), -ERR_CORRUPT);
    assert_int_equal(BODY(REC_JOBS_GONE, "\x02\x02\x02\x00"), -ERR_CORRUPT); /* the same twice */
    assert_int_equal(BODY(REC_JOBS_GONE, "\x02\x02\x02\x01"), -ERR_CORRUPT); /* 1, 0 */
    assert_int_equal(BODY(REC_JOBS_GONE, "\x02\x02\x02\x03"), -ERR_CORRUPT); /* 1, -1 */
    assert_int_equal(BODY(REC_JOBS_GONE, "\x01\x02\x82\x00"), -ERR_CORRUPT);
    assert_int_equal(BODY(REC_JOBS_GONE, "\x01\x08\x80\x80\x80\x80\x80\x80\x80\x20"),
                     -ERR_CORRUPT); /* 2^53 */
}

/* ---- memory ---- */

static void test_without_memory_nothing_changes(void **state)
{
    (void)state;
    struct random random;
    random_seed(&random, SEED + 4);
    for (size_t k = 0; k < sample_kind_count; k++) {
        struct record r;
        arena_reset(&arena);
        sample_record(&random, &arena, sample_kinds[k], &r);
        struct buf b;
        buf_init(&b);
        mem_fail_at(1, 1);
        assert_int_equal(record_encode(&r, &b), -ERR_NOMEM);
        mem_fail_at(0, 0);
        assert_int_equal(b.len, 0);
        /* with the bound reserved it cannot fail, and reading never asks for memory */
        assert_int_equal(buf_reserve(&b, record_bytes_max(&r)), 0);
        mem_fail_at(1, 1);
        assert_int_equal(record_encode(&r, &b), 0);
        struct span in = buf_span(&b);
        assert_int_equal(record_decode(&in, &r), 0);
        assert_int_equal(mem_calls(), 0);
        mem_fail_at(0, 0);
        buf_done(&b);
    }
    struct buf list;
    uint64_t previous = 3;
    buf_init(&list);
    mem_fail_at(1, 1);
    assert_int_equal(record_seq_append(&list, &previous, 9), -ERR_NOMEM);
    mem_fail_at(0, 0);
    assert_int_equal(previous, 3);
    assert_int_equal(list.len, 0);
    buf_done(&list);
}

/* ---- the bytes on disk ---- */

static void assert_bytes(const struct record *r, const char *expected, size_t len)
{
    encode(r);
    assert_int_equal(out.len, len);
    assert_memory_equal(out.data, expected, len);
}

#define BYTES(r, literal) assert_bytes((r), (literal), sizeof(literal) - 1)

static void test_bytes_of_hot_records_are_pinned(void **state)
{
    (void)state;
    struct record r = {
        .kind = REC_JOB_NEW,
        .job_new = {.job = {.seq = 300,
                            .id_hi = UINT64_C(0x0102030405060708),
                            .priority = -2,
                            .run_at = {128},
                            .since = {1},
                            .queue = 9,
                            .failures = 1,
                            .crashes = 2,
                            .generation = 3,
                            .state = STATE_SCHEDULED,
                            .payload_kind = PAYLOAD_JSON},
                    .extra = {.unique = SPAN_LITERAL("u"),
                              .group = SPAN_LITERAL("g"),
                              .correlation = SPAN_LITERAL("c"),
                              .label = SPAN_LITERAL("l"),
                              .attributes = SPAN_LITERAL("{}"),
                              .expires_at = {5}},
                    .payload = SPAN_LITERAL("[]")},
    };
    BYTES(&r, "\x20\x26\xac\x02\x08\x07\x06\x05\x04\x03\x02\x01\x03\x80\x01\x01\x09\x01\x02\x03"
              "\x01\x00\x01\x01"
              "\x7d\x05\x01u\x01g\x01"
              "c\x01l\x02{}\x02[]");
    r = (struct record){.kind = REC_JOB_CLAIMED,
                        .job_claimed = {.seq = 1,
                                        .token = {2, 3},
                                        .lease_ms = 30000,
                                        .bound = true,
                                        .at = {4},
                                        .worker = SPAN_LITERAL("w")}};
    BYTES(&r, "\x22\x0b\x01\x02\x03\xb0\xea\x01\x00\x01\x04\x01w");
    r = (struct record){
        .kind = REC_JOB_DONE,
        .job_done = {
            .seq = 1, .at = {2}, .result_kind = PAYLOAD_BYTES, .result = SPAN_LITERAL("ok")}};
    BYTES(&r, "\x25\x06\x01\x02\x02\x02ok");
}

static void test_bytes_of_other_records_are_pinned(void **state)
{
    (void)state;
    struct record r = {
        .kind = REC_JOB_BACK,
        .job_back = {1, STATE_READY, REASON_FAILED, 2, 3, 4, {5}, {6}, 1, SPAN_LITERAL("e")}};
    BYTES(&r, "\x24\x0b\x01\x02\x01\x02\x03\x04\x05\x06\x01\x01"
              "e");
    r = (struct record){.kind = REC_JOB_DEAD,
                        .job_dead = {1, REASON_EXPIRED, 2, 3, {4}, 0, SPAN_LITERAL("e")}};
    BYTES(&r, "\x26\x08\x01\x05\x02\x03\x04\x00\x01"
              "e");
    r = (struct record){.kind = REC_JOB_CANCELLED, .job_cancelled = {1, REASON_REPLACED, {2}}};
    BYTES(&r, "\x27\x03\x01\x07\x02");
    r = (struct record){.kind = REC_JOB_REQUEUED, .job_requeued = {1, STATE_READY, 2, {3}, {4}}};
    BYTES(&r, "\x28\x05\x01\x02\x02\x03\x04");
    r = (struct record){
        .kind = REC_JOB_PATCHED,
        .job_patched = {1, STATE_SCHEDULED, 2, {3}, {4}, 5, true, PAYLOAD_JSON, SPAN_LITERAL("1")}};
    BYTES(&r, "\x29\x0a\x01\x01\x04\x03\x04\x05\x01\x01\x01\x31");
    r = (struct record){.kind = REC_JOBS_GONE, .jobs_gone = {2, SPAN_LITERAL("\x02\x04")}};
    BYTES(&r, "\x2a\x04\x02\x02\x02\x04");
    r = (struct record){.kind = REC_EPOCH, .epoch = {1, {2}}};
    BYTES(&r, "\x01\x02\x01\x02");
    r = (struct record){.kind = REC_PURGED, .purged = {1, 2, {3}, 4}};
    BYTES(&r, "\x13\x04\x01\x02\x03\x04");
    r = (struct record){
        .kind = REC_BULK_BEGIN,
        .bulk_begin = {1, BULK_CANCEL, {2}, 3, 4, SPAN_LITERAL("g"), SPAN_LITERAL("k"), 5}};
    BYTES(&r, "\x18\x0a\x01\x02\x02\x03\x04\x01g\x01k\x05");
    r = (struct record){.kind = REC_BULK_STEP, .bulk_step = {1, 2, 3, 4}};
    BYTES(&r, "\x19\x04\x01\x02\x03\x04");
    r = (struct record){.kind = REC_KEY_NEW, .key_new = {{1, 2}, 3, 4, 5, {6}}};
    BYTES(&r, "\x30\x22\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\x04"
              "\x05\0\0\0\0\0\0\0\x06");
    r = (struct record){.kind = REC_KEYS_GONE,
                        .keys_gone = {1, SPAN_LITERAL("\x07\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0")}};
    BYTES(&r, "\x32\x13\x01\x11\x07\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0");
}

static int begin(void **state)
{
    (void)state;
    buf_init(&out);
    arena_init(&arena);
    return 0;
}

static int end(void **state)
{
    (void)state;
    buf_done(&out);
    arena_done(&arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_kind_survives),
        cmocka_unit_test(test_records_come_off_the_front_one_by_one),
        cmocka_unit_test(test_shorter_or_longer_bodies_are_refused),
        cmocka_unit_test(test_one_spelling_for_each_record),
        cmocka_unit_test(test_unknown_kinds_are_a_later_version),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_job_new_enums_are_checked),
        cmocka_unit_test(test_job_new_derives_what_it_can),
        cmocka_unit_test(test_job_new_extra_is_there_only_if_it_says_something),
        cmocka_unit_test(test_texts_must_be_utf8_without_nul),
        cmocka_unit_test(test_options_must_be_readable),
        cmocka_unit_test(test_worker_must_be_text),
        cmocka_unit_test(test_leases_and_tokens_are_checked),
        cmocka_unit_test(test_sequences_and_times_are_checked),
        cmocka_unit_test(test_longer_spellings_of_numbers_are_refused),
        cmocka_unit_test(test_reasons_fit_their_records),
        cmocka_unit_test(test_states_error_kinds_and_actions_are_checked),
        cmocka_unit_test(test_store_records_are_checked),
        cmocka_unit_test(test_queue_names_and_policies_are_checked),
        cmocka_unit_test(test_encoding_asserts_what_decoding_demands),
        cmocka_unit_test(test_decoding_refuses_what_is_over_a_limit),
        cmocka_unit_test(test_lengths_around_their_widths),
        cmocka_unit_test(test_largest_payload),
        cmocka_unit_test(test_seq_list),
        cmocka_unit_test(test_seq_list_and_count_must_agree),
        cmocka_unit_test(test_without_memory_nothing_changes),
        cmocka_unit_test(test_bytes_of_hot_records_are_pinned),
        cmocka_unit_test(test_bytes_of_other_records_are_pinned),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
