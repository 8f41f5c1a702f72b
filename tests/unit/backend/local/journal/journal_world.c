/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/backend/local/journal/journal_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

void world_init(struct world *w, uint32_t segment_bytes, uint64_t seed)
{
    *w = (struct world){.config = {.segment_bytes = segment_bytes, .store_id = "0123456789abcde"}};
    w->disk = files_torn_new(seed);
    journal_rig_log_init(&w->log);
}

void world_close(struct world *w)
{
    journal_close(w->j);
    w->j = NULL;
}

void world_done(struct world *w)
{
    world_close(w);
    journal_rig_log_done(&w->log);
    files_torn_free(w->disk);
}

void world_must(struct world *w, int rc)
{
    if (rc != 0)
        fail_msg("%s: %s", err_name(rc), w->note.text);
}

int world_frame_cb(void *ctx, struct span frame, uint64_t first, uint64_t last,
                   struct err_note *note)
{
    struct world *w = ctx;
    (void)note, (void)last;
    while (w->log.frames[w->given].last <= w->config.applied)
        w->given++;
    assert_true(w->given < w->log.count);
    assert_int_equal(first, w->log.frames[w->given].first);
    assert_true(span_equal(frame, journal_rig_log_frame(&w->log, w->given)));
    w->given++;
    return 0;
}

int world_try_open(struct world *w)
{
    world_close(w);
    w->given = 0;
    w->config.files = files_torn_files(w->disk);
    int rc = journal_open(&w->config, world_frame_cb, w, &w->j, &w->note);
    if (rc != 0)
        w->j = NULL;
    return rc;
}

void world_open_up_to(struct world *w, uint64_t last)
{
    world_must(w, world_try_open(w));
    assert_int_equal(journal_position(w->j), last);
}

uint64_t world_last(const struct world *w)
{
    return w->log.count ? w->log.frames[w->log.count - 1].last : w->config.from;
}

void world_start(struct world *w)
{
    world_open_up_to(w, world_last(w));
    world_must(w, journal_begin(w->j, &w->note));
}

void world_append_put(struct world *w)
{
    struct span frame = journal_rig_log_frame(&w->log, w->log.count - 1);
    bool more = true;
    while (more)
        world_must(w, journal_provide(w->j, &more, &w->note));
    int rc = journal_append(w->j, &frame, 1, &w->note);
    for (more = true; rc == -ERR_NO_SPACE && more;) { /* one larger than a segment */
        world_must(w, journal_provide(w->j, &more, &w->note));
        rc = journal_append(w->j, &frame, 1, &w->note);
    }
    world_must(w, rc);
}

void world_append(struct world *w, unsigned count)
{
    for (; count > 0; count--) {
        journal_rig_log_add(&w->log, world_last(w) + 1, 1, 1000, 1);
        world_append_put(w);
    }
}

void world_applied(struct world *w)
{
    struct journal_batch b;
    journal_batch_init(&b);
    do {
        world_must(w, journal_read(w->j, SIZE_MAX, &b, &w->note));
    } while (b.count > 0);
    journal_batch_done(&b);
    w->config.applied = journal_position(w->j);
    journal_applied(w->j, w->config.applied);
}

void world_fill(struct world *w, unsigned count)
{
    world_init(w, SEGMENT, 1);
    world_start(w);
    world_append(w, count);
    world_close(w);
}

void world_flip(struct world *w, const char *name, uint64_t at)
{
    char byte = (char)(files_torn_content(w->disk, name).at[at] ^ 0x10);
    files_torn_poke(w->disk, name, at, span_of(&byte, 1));
}

void world_refuses(struct world *w, int code, const char *words)
{
    int rc = world_try_open(w);
    if (rc != code || !strstr(w->note.text, words))
        fail_msg("%s instead of %s: '%s' instead of '%s'", err_name(rc), err_name(code),
                 w->note.text, words);
}
