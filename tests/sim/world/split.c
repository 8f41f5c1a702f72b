/* SPDX-License-Identifier: Apache-2.0 */
/* A planted defect of the disk: a frame that is not all or nothing. */
#include "base/check.h"
#include "base/mem.h"
#include "core/records/frame.h"
#include "core/records/record.h"
#include "sim/world/disk.h"

static void add_part(struct disk *d, struct span records, uint64_t first, uint32_t count)
{
    struct buf part;
    buf_init(&part);
    CHECK(frame_begin(&part) == 0 && buf_append(&part, records.at, records.len) == 0);
    frame_end(&part, first, count);
    disk_add(d, buf_span(&part), first + count - 1);
    buf_done(&part);
}

void disk_add_split(struct disk *d, struct span bytes, uint64_t last, uint8_t kind)
{
    struct span in = bytes;
    struct frame f;
    struct record r;
#ifdef HF_TEST_HOOKS
    mem_fail_at(0, 0); /* it is the machine that splits, and has memory */
#endif
    CHECK(frame_decode(&in, &f) == 0);
    struct span rest = f.body;
    for (uint32_t n = 0; rest.len > 0; n++) {
        struct span before = rest;
        CHECK(record_decode(&rest, &r) == 0);
        if (n == 0 || r.kind != (enum record_kind)kind)
            continue;
        add_part(d, span_of(f.body.at, f.body.len - before.len), f.first, n);
        add_part(d, before, f.first + n, f.count - n);
        return;
    }
    disk_add(d, bytes, last);
}
