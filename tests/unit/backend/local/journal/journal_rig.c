/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/backend/local/journal/journal_rig.h"

#include <stdlib.h>

#include "base/check.h"
#include "core/records/frame.h"

void journal_rig_frame(struct buf *out, uint64_t first, uint32_t count, size_t bytes, uint64_t seed)
{
    struct random random;
    struct buf frame;
    random_seed(&random, seed ^ first);
    buf_init(&frame);
    if (bytes < 3 * (size_t)count)
        bytes = 3 * (size_t)count;
    CHECK(frame_begin(&frame) == 0 && buf_reserve(&frame, bytes + 8) == 0);
    while (frame.len < FRAME_HEADER_BYTES + bytes)
        buf_put_u64(&frame, random_next(&random));
    frame.len = FRAME_HEADER_BYTES + bytes;
    frame_end(&frame, first, count);
    CHECK(buf_append_span(out, buf_span(&frame)) == 0);
    buf_done(&frame);
}

void journal_rig_log_init(struct journal_rig_log *log)
{
    *log = (struct journal_rig_log){0};
    buf_init(&log->bytes);
}

void journal_rig_log_done(struct journal_rig_log *log)
{
    buf_done(&log->bytes);
    free(log->frames);
}

static struct journal_rig_frame *log_room(struct journal_rig_log *log)
{
    if (log->count == log->room) {
        log->room = log->room ? 2 * log->room : 64;
        log->frames = realloc(log->frames, log->room * sizeof *log->frames);
        CHECK(log->frames);
    }
    return &log->frames[log->count++];
}

void journal_rig_log_add(struct journal_rig_log *log, uint64_t first, uint32_t count, size_t bytes,
                         uint64_t seed)
{
    size_t at = log->bytes.len;
    journal_rig_frame(&log->bytes, first, count, bytes, seed);
    *log_room(log) = (struct journal_rig_frame){first, first + count - 1, at, log->bytes.len - at};
}

void journal_rig_log_put(struct journal_rig_log *log, uint64_t first, uint32_t count,
                         struct span body)
{
    size_t at = log->bytes.len;
    struct buf frame;
    buf_init(&frame);
    CHECK(frame_begin(&frame) == 0 && buf_append_span(&frame, body) == 0);
    frame_end(&frame, first, count);
    CHECK(buf_append_span(&log->bytes, buf_span(&frame)) == 0);
    buf_done(&frame);
    *log_room(log) = (struct journal_rig_frame){first, first + count - 1, at, log->bytes.len - at};
}

struct span journal_rig_log_frame(const struct journal_rig_log *log, size_t i)
{
    return span_of(log->bytes.data + log->frames[i].at, log->frames[i].len);
}

void journal_rig_log_cut(struct journal_rig_log *log, size_t i)
{
    if (i < log->count) {
        log->bytes.len = log->frames[i].at;
        log->count = i;
    }
}

void journal_rig_seal(struct files_torn *disk, struct journal_seal *ret)
{
    struct span file = files_torn_content(disk, "key");
    CHECK(file.len >= 24 + JOURNAL_KEY_BYTES);
    CHECK(journal_seal_init(ret, (const uint8_t *)file.at + 24) == 0);
}
