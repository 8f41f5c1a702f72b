/* SPDX-License-Identifier: Apache-2.0 */
/* What journal_open makes of what it finds: a tail that was being written is cut, damage is refused
 * with a sentence that says where it is, and what was superseded does not come back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/local/journal/entry.h"
#include "base/mem.h"
#include "support/files_torn.h"
#include "support/journal_image.h"
#include "unit/backend/local/journal/journal_world.h"

#define KEY_BYTES (2 * JOURNAL_PAGE) /* of the file */

/* The journal ends with the last of the log, and all that the store lacks was given. */
static void open_all(struct world *w)
{
    world_must(w, world_try_open(w));
    assert_int_equal(journal_position(w->j), world_last(w));
    if (world_last(w) > w->config.applied)
        assert_int_equal(w->given, w->log.count);
}

static void add(struct world *w, size_t bytes, uint64_t seed)
{
    journal_rig_log_add(&w->log, world_last(w) + 1, 1, bytes, seed);
}

static int append_last(struct world *w)
{
    struct span frame = journal_rig_log_frame(&w->log, w->log.count - 1);
    return journal_append(w->j, &frame, 1, &w->note);
}

static void must_refuse(struct world *w, int code, const char *words)
{
    world_refuses(w, code, words);
    if (code == -ERR_CORRUPT &&
        !strstr(w->note.text, "save what can still be read (holdfast export --data DIR)"))
        fail_msg("'%s' gives no advice", w->note.text);
}

/* ---- damage ---- */

static void test_damage_in_an_older_segment(void **state)
{
    (void)state;
    struct world w;
    world_fill(&w, 10);
    world_flip(&w, "1", JOURNAL_PAGE + 300);
    must_refuse(&w, -ERR_CORRUPT,
                "journal/1 is damaged at 4096: record 1 is the last before it, and journal/2 goes "
                "on with record 5");
    world_done(&w);
}

static void test_damage_at_the_end_of_an_older_segment(void **state)
{
    (void)state;
    struct world w;
    world_fill(&w, 10);
    world_flip(&w, "1", 3 * JOURNAL_PAGE + JOURNAL_ENTRY_HEADER_BYTES);
    must_refuse(&w, -ERR_CORRUPT, "journal/1 is damaged at 12288: record 3");
    world_done(&w);
}

static void test_damage_before_the_last_entry(void **state)
{
    (void)state;
    struct world w;
    world_fill(&w, 12);
    world_flip(&w, "3", JOURNAL_PAGE + 8);
    must_refuse(&w, -ERR_CORRUPT,
                "journal/3 is damaged at 4096, behind record 9: a later entry begins at 8192");
    world_done(&w);
}

static void test_damage_of_the_first_entry_in_the_newest_segment(void **state)
{
    (void)state;
    struct world w;
    world_fill(&w, 10);
    world_flip(&w, "3", 40);
    must_refuse(&w, -ERR_CORRUPT, "journal/3 is damaged at its beginning");
    /* The same when nothing else is left. */
    files_torn_drop(w.disk, "1");
    files_torn_drop(w.disk, "2");
    must_refuse(&w, -ERR_CORRUPT, "journal/3 is damaged at its beginning");
    world_done(&w);
}

static void test_a_missing_generation(void **state)
{
    (void)state;
    struct world w;
    world_fill(&w, 10);
    files_torn_drop(w.disk, "2");
    must_refuse(&w, -ERR_CORRUPT,
                "generations 2 to 2 are missing: journal/1 ends at 16384 with record 4, and "
                "journal/3 begins with record 9");
    world_done(&w);
}

static void test_a_journal_that_ends_too_early_or_begins_too_late(void **state)
{
    (void)state;
    struct world w;
    world_fill(&w, 10);
    w.config.applied = 11;
    must_refuse(&w, -ERR_CORRUPT,
                "the store has the records up to 11, but the journal ends with 10 (journal/3 at "
                "8192)");
    w.config.applied = 3;
    files_torn_drop(w.disk, "1");
    must_refuse(&w, -ERR_CORRUPT,
                "the store has the records up to 3, and the journal begins with 5 (journal/2)");
    w.config.applied = 4;
    open_all(&w);
    world_done(&w);
}

static void test_no_entry_at_all(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, SEGMENT, 1);
    w.config.from = w.config.applied = 3;
    world_start(&w);
    w.config.applied = 5;
    must_refuse(&w, -ERR_CORRUPT, "no entry, though the store took the records 4 to 5 from it");
    world_done(&w);
}

static void test_another_store(void **state)
{
    (void)state;
    struct world w;
    world_fill(&w, 10);
    w.config.store_id[0] = 'x';
    must_refuse(&w, -ERR_CORRUPT, "journal/key belongs to another store (3031323334");
    world_done(&w);
}

/* Makes the header at this place one of another version and tags it. */
static void header_version(struct world *w, const char *name, uint64_t at, char version)
{
    struct journal_seal seal;
    char header[JOURNAL_ENTRY_HEADER_BYTES];
    journal_rig_seal(w->disk, &seal);
    memcpy(header, files_torn_content(w->disk, name).at + at, sizeof header);
    header[3] = version;
    image_tag(&seal, header);
    files_torn_poke(w->disk, name, at, span_of(header, sizeof header));
    journal_seal_done(&seal);
}

static void test_a_newer_version(void **state)
{
    (void)state;
    struct world w;
    world_fill(&w, 10);
    header_version(&w, "3", JOURNAL_PAGE, '2');
    must_refuse(&w, -ERR_VERSION, "journal/3 at 4096 was written by a newer version");
    header_version(&w, "3", JOURNAL_PAGE, '1');
    header_version(&w, "3", 0, '9');
    must_refuse(&w, -ERR_VERSION, "journal/3 at 0 was written by a newer version");
    header_version(&w, "3", 0, '1');
    open_all(&w);
    world_done(&w);
}

static void test_two_of_one_generation(void **state)
{
    (void)state;
    struct world w;
    world_fill(&w, 10);
    char copy[SEGMENT];
    memcpy(copy, files_torn_content(w.disk, "2").at, sizeof copy);
    files_torn_put(w.disk, "9", span_of(copy, sizeof copy));
    must_refuse(&w, -ERR_CORRUPT, "both hold generation 2");
    world_done(&w);
}

static void test_a_file_that_was_cut(void **state)
{
    (void)state;
    struct world w;
    world_fill(&w, 10);
    files_torn_cut(w.disk, "2", SEGMENT - 100);
    must_refuse(&w, -ERR_CORRUPT, "journal/2 has 16284 bytes and had 16384");
    files_torn_cut(w.disk, "2", SEGMENT / 2);
    must_refuse(&w, -ERR_CORRUPT, "journal/2 has 8192 bytes and had 16384");
    world_done(&w);
}

static void test_opening_writes_nothing(void **state)
{
    (void)state;
    struct world w;
    world_fill(&w, 10);
    uint64_t before = files_torn_figures(w.disk).changes;
    w.config.read_only = true;
    open_all(&w);
    world_flip(&w, "1", 100);
    assert_int_equal(world_try_open(&w), -ERR_CORRUPT);
    assert_int_equal(files_torn_figures(w.disk).changes, before);
    world_done(&w);
}

static int refusing_cb(void *ctx, struct span frame, uint64_t first, uint64_t last,
                       struct err_note *note)
{
    (void)ctx;
    (void)frame;
    (void)last;
    return first == 3 ? err_note_set(note, -ERR_RANGE, "three is too many") : 0;
}

static void test_the_reader_of_frames_may_refuse(void **state)
{
    (void)state;
    struct world w;
    world_fill(&w, 10);
    w.config.files = files_torn_files(w.disk);
    assert_int_equal(journal_open(&w.config, refusing_cb, NULL, &w.j, &w.note), -ERR_RANGE);
    assert_string_equal(w.note.text, "three is too many");
    w.j = NULL;
    world_done(&w);
}

/* ---- tails ---- */

static void test_a_torn_tail_is_cut(void **state)
{
    (void)state;
    struct world w;
    world_fill(&w, 10);
    world_flip(&w, "3", JOURNAL_PAGE + 200);
    journal_rig_log_cut(&w.log, 9);
    world_start(&w);
    assert_int_equal(journal_torn(w.j).bytes, JOURNAL_PAGE);
    world_append(&w, 3);
    world_start(&w);
    assert_int_equal(journal_torn(w.j).bytes, 0);
    world_done(&w);
}

static void test_a_tail_torn_in_its_first_sector(void **state)
{
    (void)state;
    struct world w;
    world_fill(&w, 9);
    static const char zeros[512];
    files_torn_poke(w.disk, "3", 0, span_of(zeros, sizeof zeros));
    journal_rig_log_cut(&w.log, 8);
    world_start(&w);
    world_append(&w, 6);
    world_start(&w);
    world_done(&w);
}

static void test_the_older_copy_of_a_repeated_entry_does_not_matter(void **state)
{
    (void)state;
    struct world w;
    world_fill(&w, 10);
    world_start(&w);
    world_flip(&w, "3", JOURNAL_PAGE + 200); /* record 10, which now is elsewhere */
    open_all(&w);
    world_start(&w);
    world_append(&w, 2);
    world_start(&w);
    world_done(&w);
}

/* An entry could not be read, another took its place, and then it can be read again. */
static void test_what_was_superseded_does_not_come_back(void **state)
{
    (void)state;
    struct world w;
    world_fill(&w, 11);
    world_flip(&w, "3", 2 * JOURNAL_PAGE + 200);
    journal_rig_log_cut(&w.log, 10);
    world_start(&w);
    add(&w, 500, 99);
    world_must(&w, append_last(&w));
    world_flip(&w, "3", 2 * JOURNAL_PAGE + 200);
    open_all(&w);
    world_start(&w);
    world_append(&w, 5);
    world_start(&w);
    world_done(&w);
}

static void test_restarts_alone_need_no_more_files(void **state)
{
    (void)state;
    struct world w;
    struct journal_figures f;
    world_fill(&w, 6);
    for (unsigned i = 0; i < 20; i++)
        world_start(&w);
    journal_figures(w.j, &f);
    assert_true(f.segments <= 5);
    assert_int_equal(f.bytes_unapplied, 6 * JOURNAL_PAGE);
    world_done(&w);
}

/* Begins, and is stopped at the nth change. */
static void begin_cut(struct world *w, unsigned nth)
{
    open_all(w);
    files_torn_stop(w->disk, nth);
    (void)!journal_begin(w->j, &w->note);
    journal_close(w->j);
    w->j = NULL;
}

/* A process that was killed while it began leaves an entry that is seen, but not on the disk. The
 * next one must not write over the older copy before its own is synced. */
static void test_a_copy_that_was_never_synced_is_not_relied_on(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 8 * 8 * 8; i++) {
        struct world w;
        world_init(&w, SEGMENT, i);
        world_start(&w);
        world_append(&w, 2);
        w.config.applied = 1;
        begin_cut(&w, 1 + i % 8);
        files_torn_kill(w.disk);
        begin_cut(&w, 1 + i / 8 % 8);
        files_torn_crash(w.disk);
        world_start(&w);
        world_done(&w);
    }
}

/* ---- files that are not what they should be ---- */

static void test_half_made_files_are_removed_and_blank_ones_used(void **state)
{
    (void)state;
    struct world w;
    static const char zeros[SEGMENT];
    world_fill(&w, 4);
    for (char name[] = "2"; *name <= '5'; ++*name)
        files_torn_drop(w.disk, name);
    files_torn_put(w.disk, "4", span_of(zeros, SEGMENT - JOURNAL_PAGE));
    files_torn_put(w.disk, "5", span_of(zeros, 0));
    files_torn_put(w.disk, "7", span_of(zeros, SEGMENT));
    files_torn_put(w.disk, "lost+found", span_of(zeros, 10));
    files_torn_put(w.disk, "08", span_of(zeros, 10));
    world_start(&w);
    assert_int_equal(files_torn_content(w.disk, "4").len, 0);
    assert_null(files_torn_content(w.disk, "5").at);
    assert_memory_equal(files_torn_content(w.disk, "7").at, "HFj1", 4);
    assert_int_equal(files_torn_content(w.disk, "08").len, 10);
    struct journal_figures f;
    journal_figures(w.j, &f);
    assert_int_equal(f.segments, 2);
    world_done(&w);
}

static void test_segments_of_another_size_are_read_and_then_removed(void **state)
{
    (void)state;
    struct world w;
    struct journal_figures f;
    world_fill(&w, 10);
    w.config.segment_bytes = 2 * SEGMENT;
    world_start(&w);
    world_append(&w, 1);
    journal_applied(w.j, 11);
    bool more = true;
    while (more)
        world_must(&w, journal_provide(w.j, &more, &w.note));
    journal_figures(w.j, &f);
    assert_int_equal(f.bytes, 2 * SEGMENT * f.segments);
    world_done(&w);
}

/* ---- disks that fail ---- */

static void test_a_failed_sync_is_final(void **state)
{
    (void)state;
    struct world w;
    world_fill(&w, 2);
    world_start(&w);
    files_torn_fail_sync(w.disk, 1, -ERR_IO);
    add(&w, 1000, 5);
    assert_int_equal(append_last(&w), -ERR_IO);
    struct err_note first = w.note;
    w.note.text[0] = '\0';
    assert_int_equal(append_last(&w), -ERR_IO);
    assert_string_equal(w.note.text, first.text);
    assert_int_equal(journal_position(w.j), 2);
    world_done(&w);
}

static void test_no_space_inside_a_segment_is_final(void **state)
{
    (void)state;
    struct world w;
    world_fill(&w, 2);
    world_start(&w);
    files_torn_fail_write(w.disk, 1, -ERR_NO_SPACE);
    add(&w, 1000, 5);
    assert_int_equal(append_last(&w), -ERR_IO);
    assert_non_null(strstr(w.note.text, "copy on write"));
    assert_int_equal(append_last(&w), -ERR_IO);
    world_done(&w);
}

static void test_a_full_disk_keeps_what_there_is(void **state)
{
    (void)state;
    struct world w;
    struct journal_figures before, after;
    bool more = true;
    world_fill(&w, 2);
    files_torn_capacity(w.disk, 4 * SEGMENT + KEY_BYTES + 100);
    world_start(&w);
    while (more && journal_provide(w.j, &more, &w.note) == 0)
        ;
    journal_figures(w.j, &before);
    files_torn_capacity(w.disk, before.bytes + KEY_BYTES + 100);
    for (unsigned i = 0; i < 7 + 4 * before.free; i++) {
        int rc = journal_provide(w.j, &more, &w.note);
        assert_true(rc == 0 || rc == -ERR_NO_SPACE);
        add(&w, 1000, 1);
        rc = append_last(&w);
        if (rc == -ERR_NO_SPACE) {
            journal_rig_log_cut(&w.log, w.log.count - 1);
            break;
        }
        world_must(&w, rc);
    }
    assert_int_equal(journal_provide(w.j, &more, &w.note), -ERR_NO_SPACE);
    journal_figures(w.j, &after);
    assert_int_equal(after.bytes, before.bytes);
    assert_true(after.wanting);
    journal_applied(w.j, w.config.applied = journal_position(w.j));
    world_append(&w, 8);
    /* A restart writes into a segment that is free. */
    world_start(&w);
    world_done(&w);
}

static void test_on_a_full_disk_idle_segments_make_place_for_a_large_entry(void **state)
{
    (void)state;
    struct world w;
    struct journal_figures idle;
    bool more = true;
    world_fill(&w, 2);
    world_start(&w);
    world_append(&w, 40);
    journal_applied(w.j, w.config.applied = journal_position(w.j));
    journal_figures(w.j, &idle);
    assert_true(idle.free >= 6);
    files_torn_capacity(w.disk, idle.bytes + KEY_BYTES + 100);
    add(&w, 3 * SEGMENT, 1);
    assert_int_equal(append_last(&w), -ERR_NO_SPACE);
    while (more)
        world_must(&w, journal_provide(w.j, &more, &w.note));
    world_must(&w, append_last(&w));
    world_done(&w);
}

/* ---- memory that fails ---- */

static void append_quietly(struct world *w, size_t bytes)
{
    add(w, bytes, 1);
    if (append_last(w) != 0)
        journal_rig_log_cut(&w->log, w->log.count - 1);
}

static void test_every_allocation_may_fail(void **state)
{
    (void)state;
    struct world w;
    bool more, failed = true;
    world_fill(&w, 10);
    for (long nth = 1; failed; nth++) {
        mem_fail_at(nth, 0);
        int rc = world_try_open(&w);
        if (rc == 0)
            rc = journal_begin(w.j, &w.note);
        if (rc == 0)
            rc = journal_provide(w.j, &more, &w.note);
        failed = mem_calls() >= nth;
        mem_fail_at(0, 0);
        assert_true(rc == 0 || rc == -ERR_NOMEM);
        assert_true(rc == 0 || failed);
        world_start(&w);
        append_quietly(&w, 1000);
        w.config.applied = journal_position(w.j);
        world_start(&w);
    }
    world_done(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_damage_in_an_older_segment),
        cmocka_unit_test(test_damage_at_the_end_of_an_older_segment),
        cmocka_unit_test(test_damage_before_the_last_entry),
        cmocka_unit_test(test_damage_of_the_first_entry_in_the_newest_segment),
        cmocka_unit_test(test_a_missing_generation),
        cmocka_unit_test(test_a_journal_that_ends_too_early_or_begins_too_late),
        cmocka_unit_test(test_no_entry_at_all),
        cmocka_unit_test(test_another_store),
        cmocka_unit_test(test_a_newer_version),
        cmocka_unit_test(test_two_of_one_generation),
        cmocka_unit_test(test_a_file_that_was_cut),
        cmocka_unit_test(test_opening_writes_nothing),
        cmocka_unit_test(test_the_reader_of_frames_may_refuse),
        cmocka_unit_test(test_a_torn_tail_is_cut),
        cmocka_unit_test(test_a_tail_torn_in_its_first_sector),
        cmocka_unit_test(test_the_older_copy_of_a_repeated_entry_does_not_matter),
        cmocka_unit_test(test_what_was_superseded_does_not_come_back),
        cmocka_unit_test(test_restarts_alone_need_no_more_files),
        cmocka_unit_test(test_a_copy_that_was_never_synced_is_not_relied_on),
        cmocka_unit_test(test_half_made_files_are_removed_and_blank_ones_used),
        cmocka_unit_test(test_segments_of_another_size_are_read_and_then_removed),
        cmocka_unit_test(test_a_failed_sync_is_final),
        cmocka_unit_test(test_no_space_inside_a_segment_is_final),
        cmocka_unit_test(test_a_full_disk_keeps_what_there_is),
        cmocka_unit_test(test_on_a_full_disk_idle_segments_make_place_for_a_large_entry),
        cmocka_unit_test(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
