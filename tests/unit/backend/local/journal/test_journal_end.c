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
#include "unit/backend/local/journal/journal_world.h"

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
    world_start(w);
    for (unsigned i = 0; i < 6; i++) {
        forged_payload(JOURNAL_ENTRY_HEADER_BYTES + FRAME_HEADER_BYTES, version, generation,
                       world_last(w) + ahead, payload);
        journal_rig_log_put(&w->log, world_last(w) + 1, 1, span_of(payload, FORGED_BYTES));
        world_append_put(w);
        world_append(w, 1);
        world_applied(w);
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
        world_start(&w);
        no_torn(&w);
        world_append(&w, 1);
    }
    /* The only entry of the newest segment is torn, so that the rest of it is all old. */
    struct journal_figures f;
    world_start(&w);
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
    world_start(&w);
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
    world_start(&w);
    world_append(&w, 3);
    world_close(&w);
    w.given = 0;
    w.config.files = files_torn_files(w.disk);
    assert_int_equal(journal_salvage(&w.config, world_frame_cb, &w, &w.note), 0);
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
    world_open_up_to(w, after);
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
        world_flip(&w, name, at + i);
        must_be_torn(&w, segment, at, count - 1);
        world_flip(&w, name, at + i);
    }
    for (uint64_t i = length; i < JOURNAL_PAGE; i += 97) { /* what is not part of it */
        world_flip(&w, name, at + i);
        world_open_up_to(&w, count);
        no_torn(&w);
        world_flip(&w, name, at + i);
    }
    world_open_up_to(&w, count);
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
    world_flip(&w, "1", 300);
    world_open_up_to(&w, 0);
    assert_true(journal_torn(w.j).bytes > 0);
    assert_int_equal(journal_torn(w.j).generation, 0);
    world_flip(&w, "1", 300);
    world_flip(&w, "1", 41); /* its header */
    world_open_up_to(&w, 0);
    assert_true(journal_torn(w.j).header_damaged);
    world_must(&w, journal_begin(w.j, &w.note));
    world_open_up_to(&w, 0);
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
        world_refuses(&w, -ERR_CORRUPT, "when it was begun: it was cut");
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
    world_open_up_to(&w, 9);
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
        world_flip(&w, "3", JOURNAL_PAGE + i);
        world_refuses(&w, -ERR_CORRUPT, "journal/3 is damaged at 4096, behind record 9");
        world_flip(&w, "3", JOURNAL_PAGE + i);
    }
    world_done(&w);
}

/* The header of a later entry proves that the one before it was synced, whatever its own body. */
static void test_two_damaged_entries_at_the_end_are_refused(void **state)
{
    (void)state;
    struct world w;
    world_fill(&w, 11);
    world_flip(&w, "3", JOURNAL_PAGE + 500);
    world_flip(&w, "3", 2 * JOURNAL_PAGE + 500);
    world_refuses(&w, -ERR_CORRUPT, "a later entry begins at 8192");
    world_done(&w);
    world_fill(&w, 9); /* the last of one segment, and the only one of the next */
    world_flip(&w, "2", 3 * JOURNAL_PAGE + 500);
    world_flip(&w, "3", 500);
    world_refuses(&w, -ERR_CORRUPT,
                  "record 7 is the last that can be read, and journal/3 has at 0 ");
    world_done(&w);
}

static void test_it_is_reported_once(void **state)
{
    (void)state;
    static const uint64_t places[] = {JOURNAL_PAGE, JOURNAL_PAGE + 500};
    for (unsigned i = 0; i < 4; i++) {
        struct world w;
        world_fill(&w, i < 2 ? 10 : 9);
        world_flip(&w, "3", places[i % 2] - (i < 2 ? 0 : JOURNAL_PAGE));
        journal_rig_log_cut(&w.log, i < 2 ? 9 : 8);
        world_start(&w);
        assert_true(journal_torn(w.j).bytes > 0);
        world_start(&w);
        no_torn(&w);
        world_append(&w, 9);
        world_start(&w);
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
    world_start(&w);
    world_append(&w, 8);
    world_applied(&w);
    world_append(&w, 8);
    world_applied(&w);
    world_start(&w);
    world_close(&w);
    for (char name[] = "1"; *name <= '6'; ++*name)
        for (uint64_t at = 0; at < SEGMENT && files_torn_content(w.disk, name).at;
             at += JOURNAL_PAGE) {
            world_flip(&w, name, at + 30);
            int rc = world_try_open(&w);
            if (rc == 0 && journal_position(w.j) == 16)
                no_torn(&w);
            else
                assert_int_equal(rc, -ERR_CORRUPT); /* the newest entry: the store has it */
            world_flip(&w, name, at + 30);
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
        world_must(&w, world_try_open(&w));
        world_must(&w, journal_begin(w.j, &w.note));
        world_append(&w, 1);
        world_close(&w);
        world_open_up_to(&w,
                         world_last(&w)); /* where the last entry lies: its segment is the newest */
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
        world_flip(&w, file, JOURNAL_PAGE + 200);
        memcpy(kept, files_torn_content(w.disk, file).at + JOURNAL_PAGE, sizeof kept);
        journal_rig_log_cut(&w.log, w.log.count - 1);
        world_open_up_to(&w, world_last(&w));
        world_must(&w, journal_torn_save(w.j, name, &w.note));
        world_must(&w, journal_torn_save(w.j, name, &w.note)); /* a start that was killed then */
        struct span saved = files_torn_content(w.disk, name);
        assert_int_equal(saved.len, JOURNAL_PAGE);
        assert_memory_equal(saved.at, kept, sizeof kept);
        world_must(&w, journal_torn_count(files_torn_files(w.disk), &count, &w.note));
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
    world_flip(&w, "3", JOURNAL_PAGE + 200);
    files_torn_capacity(w.disk, 100);
    journal_rig_log_cut(&w.log, 9);
    world_open_up_to(&w, 9);
    assert_int_equal(journal_torn_save(w.j, name, &w.note), -ERR_NO_SPACE);
    world_must(&w, journal_torn_count(files_torn_files(w.disk), &count, &w.note));
    assert_int_equal(count, 0);
    world_must(&w, journal_begin(w.j, &w.note));
    world_append(&w, 1);
    world_open_up_to(&w, 10);
    world_done(&w);
}

/* ---- the key ---- */

static void test_without_its_key_a_used_journal_is_refused(void **state)
{
    (void)state;
    struct world w;
    world_fill(&w, 10);
    world_flip(&w, "key", 30);
    world_flip(&w, "key", JOURNAL_PAGE + 50);
    world_refuses(&w, -ERR_CORRUPT, "journal/key is damaged, and the journal cannot be read");
    files_torn_drop(w.disk, "key");
    world_refuses(&w, -ERR_CORRUPT, "journal/key is missing, and the journal cannot be read");
    w.config.files = files_torn_files(w.disk);
    assert_int_equal(journal_salvage(&w.config, world_frame_cb, &w, &w.note), 0);
    assert_int_equal(w.given, 0);
    for (char name[] = "1"; *name <= '5'; ++*name)
        files_torn_drop(w.disk, name);
    w.config.applied = 10; /* the store had records of it */
    world_refuses(&w, -ERR_CORRUPT, "journal/key is missing");
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
            world_flip(&w, "key", copy * JOURNAL_PAGE + at);
            world_open_up_to(&w, 2);
            assert_non_null(strstr(journal_key_problem(w.j), "one of its two copies is damaged"));
            world_start(&w);
            world_open_up_to(&w, 2);
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
    world_refuses(&w, -ERR_CORRUPT, "was not written with the key in journal/key");
    w.config.store_id[0] = 'x'; /* segments of another store beside the key of this one */
    image_key_put(w.disk, w.config.store_id);
    world_refuses(&w, -ERR_CORRUPT, "belongs to another store (30313233");
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
        world_open_up_to(&w, 0);
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
        int rc = world_try_open(&w);
        if (rc != 0)
            fail_msg("run %u: %s", i, w.note.text);
        if (journal_position(w.j) == 0) {
            assert_false(synced);
            journal_rig_log_cut(&w.log, 0);
        }
        world_start(&w);
        world_append(&w, 2);
        files_torn_crash(w.disk);
        world_start(&w);
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
