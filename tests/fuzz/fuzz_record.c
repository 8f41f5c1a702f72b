/* SPDX-License-Identifier: Apache-2.0 */
/* Frames and records from anybody: nothing breaks, and whatever is accepted is what the encoder
 * writes for it, byte for byte.
 *
 * An input is a frame, or (since no mutation survives its CRC) the records of one. */
#include "base/buf.h"
#include "base/check.h"
#include "core/queues/policy.h"
#include "core/records/frame.h"
#include "core/records/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The parts of a record that have their own encoding. */
static void inner_check(const struct record *r, struct buf *scratch)
{
    buf_clear(scratch);
    if (r->kind == REC_QUEUE_PUT) {
        struct queue_policy policy;
        CHECK(policy_decode(r->queue_put.policy, &policy) == 0);
        CHECK(policy_encode(&policy, scratch) == 0);
        CHECK(span_equal(buf_span(scratch), r->queue_put.policy));
    } else if (r->kind == REC_JOB_NEW && r->job_new.extra.options.len > 0) {
        struct job_options options;
        CHECK(options_decode(r->job_new.extra.options, &options) == 0);
        CHECK(options_encode(&options, scratch) == 0);
        CHECK(span_equal(buf_span(scratch), r->job_new.extra.options));
    } else if (r->kind == REC_JOBS_GONE) {
        struct span list = r->jobs_gone.seqs;
        uint64_t from = 0, to = 0, seq;
        for (uint32_t i = 0; i < r->jobs_gone.count; i++) {
            CHECK(record_seq_next(&list, &from, &seq) == 0);
            CHECK(record_seq_append(scratch, &to, seq) == 0);
        }
        CHECK(span_equal(buf_span(scratch), r->jobs_gone.seqs));
    } else if (r->kind == REC_SCHEDULE_PUT) {
        struct schedule_spec spec;
        CHECK(schedule_decode(r->schedule_put.spec, &spec) == 0);
        CHECK(schedule_encode(&spec, scratch) == 0);
        CHECK(span_equal(buf_span(scratch), r->schedule_put.spec));
    } else if (r->kind == REC_KEYS_GONE) {
        struct span list = r->keys_gone.keys;
        struct wall_time from = {0}, to = {0};
        struct record_key key;
        for (uint32_t i = 0; i < r->keys_gone.count; i++) {
            CHECK(record_key_next(&list, &from, &key) == 0);
            CHECK(record_key_append(scratch, &to, &key) == 0);
        }
        CHECK(span_equal(buf_span(scratch), r->keys_gone.keys));
    }
}

/* Copies the records into out, through struct record; how many there were, up to the first bad. */
static uint32_t records_copy(struct span *in, struct buf *out, struct buf *scratch)
{
    uint32_t count = 0;
    struct record r;
    for (;;) {
        struct span before = *in;
        size_t start = out->len;
        if (record_decode(in, &r) < 0) {
            CHECK(in->at == before.at && in->len == before.len);
            return count;
        }
        size_t bytes = before.len - in->len;
        CHECK(record_name(r.kind));
        CHECK(bytes <= record_bytes_max(&r));
        CHECK(record_encode(&r, out) == 0);
        CHECK(span_equal(span_of(before.at, bytes), span_of(out->data + start, out->len - start)));
        inner_check(&r, scratch);
        count++;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span in = span_of(data, size), rest = in;
    struct frame frame = {.first = 1, .body = in}, again;
    bool framed = frame_decode(&rest, &frame) == 0;
    if (framed)
        CHECK(frame.body.len + FRAME_HEADER_BYTES + rest.len == size);
    else
        CHECK(rest.at == in.at && rest.len == size);

    struct buf out, scratch;
    buf_init(&out);
    buf_init(&scratch);
    CHECK(frame_begin(&out) == 0);
    struct span records = frame.body;
    uint32_t count = records_copy(&records, &out, &scratch);
    uint64_t first = framed ? frame.first : 1;
    frame_end(&out, first, count);

    struct span copy = buf_span(&out);
    CHECK(frame_decode(&copy, &again) == 0);
    CHECK(copy.len == 0 && again.first == first && again.count == count);
    if (framed && records.len == 0 && count == frame.count)
        CHECK(span_equal(buf_span(&out), span_of(data, size - rest.len)));
    buf_done(&out);
    buf_done(&scratch);
    return 0;
}
