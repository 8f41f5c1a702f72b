/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the files of a journal (tests/support/journal_image.h): opening them ends well or
 * with a clean error, and what opens well can be gone on with, and opens well again. */
#include "base/check.h"
#include "core/records/frame.h"
#include "support/journal_image.h"
#include "unit/backend/local/journal/journal_rig.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Frames come without a gap, above what the store has. */
static int frame_given_cb(void *ctx, struct span frame, uint64_t first, uint64_t last,
                          struct err_note *note)
{
    uint64_t *position = ctx;
    struct frame f;
    (void)note;
    CHECK(first - 1 <= *position && last > *position && last >= first);
    CHECK(frame_peek(&frame, &f) == 0 && frame.len == 0 && f.first == first);
    *position = last;
    return 0;
}

static int image_open(const struct journal_config *config, struct journal **ret)
{
    struct err_note note = {""};
    uint64_t position = config->applied;
    int rc = journal_open(config, frame_given_cb, &position, ret, &note);
    CHECK(rc == 0 || rc == -ERR_CORRUPT || rc == -ERR_VERSION);
    CHECK(rc == 0 || note.text[0] != '\0');
    CHECK(rc != 0 || journal_position(*ret) == position);
    return rc;
}

static void all_read(struct journal *j)
{
    struct journal_batch b;
    journal_batch_init(&b);
    do {
        CHECK(journal_read(j, 5000, &b, NULL) == 0);
    } while (b.count > 0);
    CHECK(b.last == journal_position(j));
    journal_batch_done(&b);
}

/* The store gets what there is, one more entry is appended and seen again. */
static void go_on(struct journal *j, struct journal_config *config)
{
    struct buf frame;
    bool more = true;
    uint64_t next = journal_position(j) + 1;
    buf_init(&frame);
    journal_rig_frame(&frame, next, 2, 5000, 1);
    struct span one = buf_span(&frame);
    CHECK(journal_begin(j, NULL) == 0);
    all_read(j);
    config->applied = journal_position(j);
    journal_applied(j, config->applied);
    for (int i = 0; i < 32 && more; i++)
        CHECK(journal_provide(j, &more, NULL) == 0);
    CHECK(journal_append(j, &one, 1, NULL) == 0 && journal_position(j) == next + 1);
    all_read(j);
    buf_done(&frame);
}

/* What an export would read of it, in the order of the records. */
static void salvage(struct journal_config *config, struct files_torn *disk)
{
    uint64_t position = config->applied;
    config->files = files_torn_files(disk);
    CHECK(journal_salvage(config, frame_given_cb, &position, NULL) == 0);
}

static void torn_save(struct journal *j)
{
    char name[JOURNAL_TORN_NAME_BYTES];
    if (journal_torn(j).bytes > 0)
        CHECK(journal_torn_save(j, name, NULL) == 0);
}

/* A made-up header with a correct tag may name a generation of the future in the middle of an old
 * segment. Recovery meets it only when the segment is used again, and refuses it then. */
static bool may_refuse(const uint8_t *data, size_t size)
{
    return size > 0 && (data[0] & (IMAGE_TAG | IMAGE_SEAL));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct files_torn *disk = files_torn_new(1);
    struct journal_config config;
    struct journal *j = NULL;
    image_load(span_of(data, size), disk, &config);
    salvage(&config, disk);
    config.files = files_torn_files(disk);
    if (image_open(&config, &j) == 0) {
        uint64_t position = journal_position(j);
        if (!config.read_only) {
            torn_save(j);
            go_on(j, &config);
            position = journal_position(j);
        }
        journal_close(j);
        bool opened = image_open(&config, &j) == 0;
        CHECK(opened ? journal_position(j) == position : may_refuse(data, size));
        if (opened)
            journal_close(j);
    }
    files_torn_free(disk);
    return 0;
}
