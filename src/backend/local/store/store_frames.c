/* SPDX-License-Identifier: Apache-2.0 */
/* Reading frames for a store. */
#include "backend/local/store/store_frames.h"

#include <inttypes.h>

#include "core/records/frame.h"

static int walk_records(const struct frame *f, frames_record_fn fn, void *ctx,
                        struct err_note *note)
{
    struct span body = f->body;
    for (uint32_t i = 0; i < f->count; i++) {
        struct record r;
        uint64_t position = f->first + i;
        int rc = record_decode(&body, &r);
        if (rc != 0)
            return err_note_set(note, rc, "record %" PRIu64 " cannot be read: %s", position,
                                err_text(rc));
        rc = fn(ctx, &r, position, note);
        if (rc != 0)
            return rc;
    }
    if (body.len != 0)
        return err_note_set(note, -ERR_CORRUPT,
                            "the frame at position %" PRIu64 " is longer than its records",
                            f->first);
    return 0;
}

/* 1: already applied; 0: it comes next; negative: it does not fit. */
static int frame_place(const struct frame *f, uint64_t position, struct err_note *note)
{
    if (f->count == 0 ||
        (f->first != 0 && f->count <= position && f->first <= position - f->count + 1))
        return 1;
    if (f->first == position + 1)
        return 0;
    return err_note_set(note, -ERR_CORRUPT,
                        "a frame begins with record %" PRIu64 " where record %" PRIu64
                        " must follow",
                        f->first, position + 1);
}

int frames_walk(const struct span *frames, size_t count, uint64_t *position, frames_record_fn fn,
                void *ctx, struct err_note *note)
{
    uint64_t at = *position;
    for (size_t i = 0; i < count; i++) {
        struct span in = frames[i];
        struct frame f;
        int rc = frame_decode(&in, &f);
        if (rc == 0 && in.len != 0)
            rc = -ERR_CORRUPT;
        if (rc != 0)
            return err_note_set(note, rc, "the frame after record %" PRIu64 " cannot be read: %s",
                                at, err_text(rc));
        rc = frame_place(&f, at, note);
        if (rc < 0)
            return rc;
        if (rc > 0)
            continue;
        rc = walk_records(&f, fn, ctx, note);
        if (rc != 0)
            return rc;
        at += f.count;
    }
    *position = at;
    return 0;
}
