/* SPDX-License-Identifier: Apache-2.0 */
/* The end of the journal: bytes that a client sent earlier are never taken for an entry, an
 * incomplete last entry is reported and saved, damage before it is refused, and the key that tells
 * these apart survives a crash at any moment of its creation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/local/journal/entry.h"
#include "core/records/frame.h"
#include "support/files_torn.h"
#include "support/journal_image.h"
#include "unit/backend/local/journal/journal_rig.h"

#define SEGMENT (4 * JOURNAL_PAGE)

struct world {
    struct files_torn *disk;
    struct journal *j;
    struct journal_config config;
    struct journal_rig_log log;
    size_t given;
    struct err_note note;
};

static void world_init(struct world *w, uint32_t segment_bytes, uint64_t seed)
{
    *w = (struct world){.config = {.segment_bytes = segment_bytes, .store_id = "0123456789abcde"}};
    w->disk = files_torn_new(seed);
    journal_rig_log_init(&w->log);
}

static void world_close(struct world *w)
{
    journal_close(w->j);
    w->j = NULL;
}

static void world_done(struct world *w)
{
    world_close(w);
    journal_rig_log_done(&w->log);
    files_torn_free(w->disk);
}

static void must(struct world *w, int rc)
{
    if (rc != 0)
        fail_msg("%s: %s", err_name(rc), w->note.text);
}

static int frame_given_cb(void *ctx, struct span frame, uint64_t first, uint64_t last,
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

static int try_open(struct world *w)
{
    world_close(w);
    w->given = 0;
    w->config.files = files_torn_files(w->disk);
    int rc = journal_open(&w->config, frame_given_cb, w, &w->j, &w->note);
    if (rc != 0)
        w->j = NULL;
    return rc;
}

static void open_up_to(struct world *w, uint64_t last)
{
    must(w, try_open(w));
    assert_int_equal(journal_position(w->j), last);
}

static uint64_t last_of(const struct world *w)
{
    return w->log.count ? w->log.frames[w->log.count - 1].last : w->config.from;
}

static void start(struct world *w)
{
    open_up_to(w, last_of(w));
    must(w, journal_begin(w->j, &w->note));
}

static void append_put(struct world *w)
{
    struct span frame = journal_rig_log_frame(&w->log, w->log.count - 1);
    bool more = true;
    while (more)
        must(w, journal_provide(w->j, &more, &w->note));
    int rc = journal_append(w->j, &frame, 1, &w->note);
    for (more = true; rc == -ERR_NO_SPACE && more;) { /* one larger than a segment */
        must(w, journal_provide(w->j, &more, &w->note));
        rc = journal_append(w->j, &frame, 1, &w->note);
    }
    must(w, rc);
}

/* Each takes a page. */
static void append(struct world *w, unsigned count)
{
    for (; count > 0; count--) {
        journal_rig_log_add(&w->log, last_of(w) + 1, 1, 1000, 1);
        append_put(w);
    }
}

static void applied(struct world *w)
{
    struct journal_batch b;
    journal_batch_init(&b);
    do {
        must(w, journal_read(w->j, SIZE_MAX, &b, &w->note));
    } while (b.count > 0);
    journal_batch_done(&b);
    w->config.applied = journal_position(w->j);
    journal_applied(w->j, w->config.applied);
}

/* Records 1 … count, four in each of the files 1, 2, 3, …, and the journal closed. */
static void world_fill(struct world *w, unsigned count)
{
    world_init(w, SEGMENT, 1);
    start(w);
    append(w, count);
    world_close(w);
}

static void flip(struct world *w, const char *name, uint64_t at)
{
    char byte = (char)(files_torn_content(w->disk, name).at[at] ^ 0x10);
    files_torn_poke(w->disk, name, at, span_of(&byte, 1));
}

static void must_refuse(struct world *w, int code, const char *words)
{
    int rc = try_open(w);
    if (rc != code || !strstr(w->note.text, words))
        fail_msg("%s instead of %s: '%s' instead of '%s'", err_name(rc), err_name(code),
                 w->note.text, words);
}

/* ---- forged entries ---- */

#define FORGED_STRIDE 128
#define FORGED_PAGES FORGED_STRIDE
#define FORGED_BYTES ((size_t)FORGED_PAGES * JOURNAL_PAGE)

/* A whole entry with everything right that a client can know or guess, and a tag of another key. */
static void forge(struct journal_seal *seal, uint64_t at, char version, uint64_t generation,
                  uint64_t first, char out[FORGED_STRIDE])
{
    struct buf body;
    buf_init(&body);
    journal_rig_frame(&body, first, 1, 3, 9);
    struct journal_entry e = {.length = (uint32_t)body.len,
                              .store_id = "0123456789abcde",
                              .generation = generation,
                              .first = first,
                              .last = first,
                              .segment_bytes = SEGMENT,
                              .at = at};
    struct span parts = buf_span(&body);
    memset(out, 0, FORGED_STRIDE);
    assert_int_equal(journal_entry_seal(seal, &e, &parts, 1, out), 0);
    assert_true(JOURNAL_ENTRY_HEADER_BYTES + body.len <= FORGED_STRIDE);
    memcpy(out + JOURNAL_ENTRY_HEADER_BYTES, body.data, body.len);
    out[3] = version;
    buf_done(&body);
}

/* FORGED_BYTES of forged entries: each of the 4,096 alignments has one. base: where the bytes will
 * lie in their segment. */
static void forged_payload(uint64_t base, char version, uint64_t generation, uint64_t first,
                           char *out)
{
    struct journal_seal seal;
    assert_int_equal(journal_seal_init(&seal, image_key), 0);
    for (size_t page = 0; page < FORGED_PAGES; page++)
        for (size_t i = 0; i < JOURNAL_PAGE / FORGED_STRIDE; i++) {
            size_t at = page * JOURNAL_PAGE + i * FORGED_STRIDE + page;
            char entry[FORGED_STRIDE];
            forge(&seal, base + at, version, generation, first, entry);
            if (at + FORGED_STRIDE <= FORGED_BYTES)
                memcpy(out + at, entry, FORGED_STRIDE);
        }
    journal_seal_done(&seal);
}

/* Fills every segment with such payloads, applies them, and begins segments again with small
 * entries, so that forged pages lie behind the end of each. */
static void forged_world(struct world *w, char version, uint64_t generation, uint64_t ahead)
{
    char *payload = calloc(1, FORGED_BYTES);
    assert_non_null(payload);
    world_init(w, FORGED_BYTES + 4 * JOURNAL_PAGE, 1);
    start(w);
    for (unsigned i = 0; i < 6; i++) {
        forged_payload(JOURNAL_ENTRY_HEADER_BYTES + FRAME_HEADER_BYTES, version, generation,
                       last_of(w) + ahead, payload);
        journal_rig_log_put(&w->log, last_of(w) + 1, 1, span_of(payload, FORGED_BYTES));
        append_put(w);
        append(w, 1);
        applied(w);
    }
    free(payload);
    world_close(w);
}

static void no_torn(struct world *w)
{
    assert_int_equal(journal_torn(w->j).bytes, 0);
}

static void forged_run(char version, uint64_t generation, uint64_t ahead)
{
    struct world w;
    forged_world(&w, version, generation, ahead);
    for (unsigned i = 0; i < 10; i++) {
        start(&w);
        no_torn(&w);
        append(&w, 1);
    }
    /* The only entry of the newest segment is torn, so that the rest of it is all old. */
    struct journal_figures f;
    start(&w);
    journal_figures(w.j, &f);
    world_close(&w);
    static const char zeros[512];
    for (unsigned n = 1; n <= f.segments; n++) {
        char name[16];
        struct journal_seal seal;
        struct journal_entry e;
        snprintf(name, sizeof name, "%u", n);
        journal_rig_seal(w.disk, &seal);
        if (journal_entry_header(&seal, files_torn_content(w.disk, name), 0, &e) == 0 &&
            e.generation == f.generation)
            files_torn_poke(w.disk, name, 0, span_of(zeros, sizeof zeros));
        journal_seal_done(&seal);
    }
    start(&w);
    no_torn(&w);
    world_done(&w);
}

static void test_forged_entries_are_no_entries(void **state)
{
    (void)state;
    static const uint64_t generations[] = {1, 5, 12, 1u << 20};
    for (size_t i = 0; i < sizeof generations / sizeof *generations; i++)
        forged_run('1', generations[i], 1 + (uint64_t)i * 5);
}

static void test_a_forged_newer_version_is_none(void **state)
{
    (void)state;
    forged_run('2', 1u << 20, 1u << 20);
}

/* A payload that a client read back from a journal it once saw: entries of another store. */
static void test_salvage_gives_no_forged_entry(void **state)
{
    (void)state;
    struct world w;
    forged_world(&w, '1', 1u << 20, 1);
    start(&w);
    append(&w, 3);
    world_close(&w);
    w.given = 0;
    w.config.files = files_torn_files(w.disk);
    assert_int_equal(journal_salvage(&w.config, frame_given_cb, &w, &w.note), 0);
    assert_int_equal(w.given, w.log.count);
    world_done(&w);
}

/* ---- damaged tails ---- */

static uint64_t entry_length(struct world *w, const char *name, uint64_t at)
{
    struct journal_entry e;
    struct span content = files_torn_content(w->disk, name);
    assert_true(journal_entry_fields(span_of(content.at + at, content.len - at), &e));
    return JOURNAL_ENTRY_HEADER_BYTES + (uint64_t)e.length;
}

static void must_be_torn(struct world *w, uint32_t segment, uint64_t at, uint64_t after)
{
    open_up_to(w, after);
    struct journal_torn torn = journal_torn(w->j);
    assert_true(torn.bytes > 0);
    assert_int_equal(torn.segment, segment);
    assert_int_equal(torn.at, at);
    assert_int_equal(torn.after, after);
    assert_int_equal(torn.generation, 1 + (after - 1) / 4);
}

/* Each byte of the last entry of the world, which lies in `segment` at `at`. */
static void tail_flip(unsigned count, uint32_t segment, uint64_t at)
{
    struct world w;
    char name[16];
    world_fill(&w, count);
    snprintf(name, sizeof name, "%u", segment);
    uint64_t length = entry_length(&w, name, at);
    for (uint64_t i = 0; i < length; i++) {
        flip(&w, name, at + i);
        must_be_torn(&w, segment, at, count - 1);
        flip(&w, name, at + i);
    }
    for (uint64_t i = length; i < JOURNAL_PAGE; i += 97) { /* what is not part of it */
        flip(&w, name, at + i);
        open_up_to(&w, count);
        no_torn(&w);
        flip(&w, name, at + i);
    }
    open_up_to(&w, count);
    world_done(&w);
}

static void test_a_damaged_last_entry_is_reported(void **state)
{
    (void)state;
    tail_flip(10, 3, JOURNAL_PAGE);
}

static void test_a_damaged_last_entry_that_begins_a_segment_is_reported(void **state)
{
    (void)state;
    tail_flip(9, 3, 0);
}

static void test_a_damaged_only_entry_is_reported(void **state)
{
    (void)state;
    struct world w;
    world_fill(&w, 1);
    flip(&w, "1", 300);
    open_up_to(&w, 0);
    assert_true(journal_torn(w.j).bytes > 0);
    assert_int_equal(journal_torn(w.j).generation, 0);
    flip(&w, "1", 300);
    flip(&w, "1", 41); /* its header */
    open_up_to(&w, 0);
    assert_true(journal_torn(w.j).header_damaged);
    must(&w, journal_begin(w.j, &w.note));
    open_up_to(&w, 0);
    no_torn(&w);
    world_done(&w);
}

/* The end of it was never written, or is lost. */
static void test_a_cut_last_entry(void **state)
{
    (void)state;
    static const char zeros[JOURNAL_PAGE];
    for (uint64_t from = JOURNAL_ENTRY_HEADER_BYTES; from < 1000; from += 41) {
        struct world w;
        world_fill(&w, 10);
        files_torn_poke(w.disk, "3", JOURNAL_PAGE + from, span_of(zeros, JOURNAL_PAGE - from));
        must_be_torn(&w, 3, JOURNAL_PAGE, 9);
        world_done(&w);
    }
    for (uint64_t size = JOURNAL_ENTRY_HEADER_BYTES; size < SEGMENT; size += 1000) {
        struct world w;
        world_fill(&w, 10);
        files_torn_cut(w.disk, "3", size);
        must_refuse(&w, -ERR_CORRUPT, "when it was begun: it was cut");
        world_done(&w);
    }
}

/* When nothing of the header is left, there is nothing to recognise it by. */
static void test_a_last_entry_without_its_header_ends_the_journal(void **state)
{
    (void)state;
    struct world w;
    static const char zeros[512];
    world_fill(&w, 10);
    files_torn_poke(w.disk, "3", JOURNAL_PAGE, span_of(zeros, sizeof zeros));
    open_up_to(&w, 9);
    no_torn(&w);
    world_done(&w);
}

static void test_each_byte_of_an_earlier_entry_matters(void **state)
{
    (void)state;
    struct world w;
    world_fill(&w, 12);
    uint64_t length = entry_length(&w, "3", JOURNAL_PAGE);
    for (uint64_t i = 0; i < length; i++) {
        flip(&w, "3", JOURNAL_PAGE + i);
        must_refuse(&w, -ERR_CORRUPT, "journal/3 is damaged at 4096, behind record 9");
        flip(&w, "3", JOURNAL_PAGE + i);
    }
    world_done(&w);
}

/* The header of a later entry proves that the one before it was synced, whatever its own body. */
static void test_two_damaged_entries_at_the_end_are_refused(void **state)
{
    (void)state;
    struct world w;
    world_fill(&w, 11);
    flip(&w, "3", JOURNAL_PAGE + 500);
    flip(&w, "3", 2 * JOURNAL_PAGE + 500);
    must_refuse(&w, -ERR_CORRUPT, "a later entry begins at 8192");
    world_done(&w);
    world_fill(&w, 9); /* the last of one segment, and the only one of the next */
    flip(&w, "2", 3 * JOURNAL_PAGE + 500);
    flip(&w, "3", 500);
    must_refuse(&w, -ERR_CORRUPT, "record 7 is the last that can be read, and journal/3 has at 0 ");
    world_done(&w);
}

static void test_it_is_reported_once(void **state)
{
    (void)state;
    static const uint64_t places[] = {JOURNAL_PAGE, JOURNAL_PAGE + 500};
    for (unsigned i = 0; i < 4; i++) {
        struct world w;
        world_fill(&w, i < 2 ? 10 : 9);
        flip(&w, "3", places[i % 2] - (i < 2 ? 0 : JOURNAL_PAGE));
        journal_rig_log_cut(&w.log, i < 2 ? 9 : 8);
        start(&w);
        assert_true(journal_torn(w.j).bytes > 0);
        start(&w);
        no_torn(&w);
        append(&w, 9);
        start(&w);
        no_torn(&w);
        world_done(&w);
    }
}

/* A header of an older use that is damaged is no last entry. */
static void test_old_headers_may_be_damaged(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, SEGMENT, 1);
    start(&w);
    append(&w, 8);
    applied(&w);
    append(&w, 8);
    applied(&w);
    start(&w);
    world_close(&w);
    for (char name[] = "1"; *name <= '6'; ++*name)
        for (uint64_t at = 0; at < SEGMENT && files_torn_content(w.disk, name).at;
             at += JOURNAL_PAGE) {
            flip(&w, name, at + 30);
            int rc = try_open(&w);
            if (rc == 0 && journal_position(w.j) == 16)
                no_torn(&w);
            else
                assert_int_equal(rc, -ERR_CORRUPT); /* the newest entry: the store has it */
            flip(&w, name, at + 30);
        }
    world_done(&w);
}

/* ---- saving it ---- */

static void test_the_bytes_are_saved(void **state)
{
    (void)state;
    struct world w;
    char name[JOURNAL_TORN_NAME_BYTES];
    unsigned count;
    world_fill(&w, 10);
    for (unsigned i = 0; i < 5; i++) {
        struct span entry = span_of(NULL, 0);
        char file[16], kept[JOURNAL_PAGE];
        must(&w, try_open(&w));
        must(&w, journal_begin(w.j, &w.note));
        append(&w, 1);
        world_close(&w);
        open_up_to(&w, last_of(&w)); /* where the last entry lies: its segment is the newest */
        struct journal_figures f;
        journal_figures(w.j, &f);
        world_close(&w);
        for (unsigned n = 1; n <= f.segments; n++) {
            struct journal_entry e;
            snprintf(file, sizeof file, "%u", n);
            entry = files_torn_content(w.disk, file);
            if (journal_entry_fields(entry, &e) && e.generation == f.generation)
                break;
        }
        flip(&w, file, JOURNAL_PAGE + 200);
        memcpy(kept, files_torn_content(w.disk, file).at + JOURNAL_PAGE, sizeof kept);
        journal_rig_log_cut(&w.log, w.log.count - 1);
        open_up_to(&w, last_of(&w));
        must(&w, journal_torn_save(w.j, name, &w.note));
        must(&w, journal_torn_save(w.j, name, &w.note)); /* a start that was killed then */
        struct span saved = files_torn_content(w.disk, name);
        assert_int_equal(saved.len, JOURNAL_PAGE);
        assert_memory_equal(saved.at, kept, sizeof kept);
        must(&w, journal_torn_count(files_torn_files(w.disk), &count, &w.note));
        assert_int_equal(count, i < 2 ? i + 1 : JOURNAL_TORN_KEPT);
    }
    world_done(&w);
}

static void test_on_a_full_disk_nothing_is_saved_and_the_journal_begins(void **state)
{
    (void)state;
    struct world w;
    char name[JOURNAL_TORN_NAME_BYTES];
    unsigned count;
    world_fill(&w, 10);
    flip(&w, "3", JOURNAL_PAGE + 200);
    files_torn_capacity(w.disk, 100);
    journal_rig_log_cut(&w.log, 9);
    open_up_to(&w, 9);
    assert_int_equal(journal_torn_save(w.j, name, &w.note), -ERR_NO_SPACE);
    must(&w, journal_torn_count(files_torn_files(w.disk), &count, &w.note));
    assert_int_equal(count, 0);
    must(&w, journal_begin(w.j, &w.note));
    append(&w, 1);
    open_up_to(&w, 10);
    world_done(&w);
}

/* ---- the key ---- */

static void test_without_its_key_a_used_journal_is_refused(void **state)
{
    (void)state;
    struct world w;
    world_fill(&w, 10);
    flip(&w, "key", 30);
    flip(&w, "key", JOURNAL_PAGE + 50);
    must_refuse(&w, -ERR_CORRUPT, "journal/key is damaged, and the journal cannot be read");
    files_torn_drop(w.disk, "key");
    must_refuse(&w, -ERR_CORRUPT, "journal/key is missing, and the journal cannot be read");
    w.config.files = files_torn_files(w.disk);
    assert_int_equal(journal_salvage(&w.config, frame_given_cb, &w, &w.note), 0);
    assert_int_equal(w.given, 0);
    for (char name[] = "1"; *name <= '5'; ++*name)
        files_torn_drop(w.disk, name);
    w.config.applied = 10; /* the store had records of it */
    must_refuse(&w, -ERR_CORRUPT, "journal/key is missing");
    world_done(&w);
}

static void test_one_copy_of_the_key_is_enough(void **state)
{
    (void)state;
    for (unsigned copy = 0; copy < 2; copy++)
        for (uint64_t at = 0; at < 56; at++) {
            struct world w;
            char before[2 * JOURNAL_PAGE];
            world_fill(&w, 2);
            memcpy(before, files_torn_content(w.disk, "key").at, sizeof before);
            flip(&w, "key", copy * JOURNAL_PAGE + at);
            open_up_to(&w, 2);
            assert_non_null(strstr(journal_key_problem(w.j), "one of its two copies is damaged"));
            start(&w);
            open_up_to(&w, 2);
            assert_null(journal_key_problem(w.j));
            assert_memory_equal(files_torn_content(w.disk, "key").at, before, sizeof before);
            world_done(&w);
        }
}

static void test_another_key_reads_nothing(void **state)
{
    (void)state;
    struct world w;
    world_fill(&w, 10);
    image_key_put(w.disk, w.config.store_id);
    must_refuse(&w, -ERR_CORRUPT, "was not written with the key in journal/key");
    w.config.store_id[0] = 'x'; /* segments of another store beside the key of this one */
    image_key_put(w.disk, w.config.store_id);
    must_refuse(&w, -ERR_CORRUPT, "belongs to another store (30313233");
    world_done(&w);
}

static void test_two_stores_have_different_keys(void **state)
{
    (void)state;
    struct world a, b;
    world_fill(&a, 1);
    world_fill(&b, 1);
    assert_memory_not_equal(files_torn_content(a.disk, "key").at + 24,
                            files_torn_content(b.disk, "key").at + 24, JOURNAL_KEY_BYTES);
    world_done(&a);
    world_done(&b);
}

/* The first start ends at its nth change, by kill or power cut; what follows works. */
static void test_the_first_start_may_end_at_any_moment(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2 * 16 * 20; i++) {
        struct world w;
        world_init(&w, SEGMENT, i);
        open_up_to(&w, 0);
        files_torn_stop(w.disk, 1 + i / 2 % 16);
        bool synced = journal_begin(w.j, &w.note) == 0;
        journal_rig_log_add(&w.log, 1, 1, 3000, 1);
        struct span frame = journal_rig_log_frame(&w.log, 0);
        synced = synced && journal_append(w.j, &frame, 1, &w.note) == 0;
        world_close(&w);
        if (i % 2)
            files_torn_crash(w.disk);
        else
            files_torn_kill(w.disk);
        int rc = try_open(&w);
        if (rc != 0)
            fail_msg("run %u: %s", i, w.note.text);
        if (journal_position(w.j) == 0) {
            assert_false(synced);
            journal_rig_log_cut(&w.log, 0);
        }
        start(&w);
        append(&w, 2);
        files_torn_crash(w.disk);
        start(&w);
        world_done(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forged_entries_are_no_entries),
        cmocka_unit_test(test_a_forged_newer_version_is_none),
        cmocka_unit_test(test_salvage_gives_no_forged_entry),
        cmocka_unit_test(test_a_damaged_last_entry_is_reported),
        cmocka_unit_test(test_a_damaged_last_entry_that_begins_a_segment_is_reported),
        cmocka_unit_test(test_a_damaged_only_entry_is_reported),
        cmocka_unit_test(test_a_cut_last_entry),
        cmocka_unit_test(test_a_last_entry_without_its_header_ends_the_journal),
        cmocka_unit_test(test_each_byte_of_an_earlier_entry_matters),
        cmocka_unit_test(test_two_damaged_entries_at_the_end_are_refused),
        cmocka_unit_test(test_it_is_reported_once),
        cmocka_unit_test(test_old_headers_may_be_damaged),
        cmocka_unit_test(test_the_bytes_are_saved),
        cmocka_unit_test(test_on_a_full_disk_nothing_is_saved_and_the_journal_begins),
        cmocka_unit_test(test_without_its_key_a_used_journal_is_refused),
        cmocka_unit_test(test_one_copy_of_the_key_is_enough),
        cmocka_unit_test(test_another_key_reads_nothing),
        cmocka_unit_test(test_two_stores_have_different_keys),
        cmocka_unit_test(test_the_first_start_may_end_at_any_moment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
