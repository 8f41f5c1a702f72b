/* SPDX-License-Identifier: Apache-2.0 */
/* Both stores over the same random histories: after every batch they hold the same, for the engine
 * and for readers, whatever was netted out on the way; and so after closing, and after a crash. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/local/offline/check/check.h"
#include "backend/local/sqlite/store_sqlite.h"
#include "base/digest/hash.h"
#include "core/limits.h"
#include "unit/backend/local/sqlite/store_history.h"
#include "unit/backend/local/sqlite/store_rig.h"

struct pair {
    struct rig_dir dir;
    struct history *history;
    struct store *memory, *sqlite;
    struct store_reader *memory_reader, *sqlite_reader;
    bool marking;   /* removed jobs are marked wherever that can be */
    uint64_t marks; /* the most there were */
};

static void sqlite_open(struct pair *p)
{
    static const struct gone_rules eager = {
        .few = 1, .dense = 65, .recent = 0, .kept_min = 40, .kept_one_in = 4};
    p->sqlite = rig_open(p->dir.path);
    if (p->marking)
        store_sqlite_of(p->sqlite)->gone_rules = eager;
}

static void readers_open(struct pair *p)
{
    assert_int_equal(p->memory->ops->reader_open(p->memory, &p->memory_reader, NULL), 0);
    assert_int_equal(p->sqlite->ops->reader_open(p->sqlite, &p->sqlite_reader, NULL), 0);
}

static void readers_close(struct pair *p)
{
    p->memory_reader->ops->close(p->memory_reader);
    p->sqlite_reader->ops->close(p->sqlite_reader);
}

static void pair_open(struct pair *p, uint64_t seed, bool marking)
{
    *p = (struct pair){.marking = marking};
    printf("seed %llu\n", (unsigned long long)seed);
    rig_dir_make(&p->dir);
    p->history = history_new(seed, 0);
    assert_int_equal(store_open_memory(seed, &p->memory), 0);
    sqlite_open(p);
    readers_open(p);
}

static void pair_close(struct pair *p)
{
    readers_close(p);
    p->memory->ops->close(p->memory);
    p->sqlite->ops->close(p->sqlite);
    history_free(p->history);
    rig_dir_remove(&p->dir);
}

static void pair_reopen(struct pair *p)
{
    p->sqlite_reader->ops->close(p->sqlite_reader);
    p->sqlite->ops->close(p->sqlite);
    sqlite_open(p);
    assert_int_equal(p->sqlite->ops->reader_open(p->sqlite, &p->sqlite_reader, NULL), 0);
}

static void pair_same(struct pair *p)
{
    rig_same(p->memory, p->memory_reader, p->sqlite, p->sqlite_reader);
}

/* Progress is that of the newest lease; of a log the newest bytes are kept. */
static void reports_as_modelled(const struct history_job *j, const struct stored_body *b)
{
    bool newest = token_equal(j->progress_token, j->token);
    assert_int_equal(history_crc(b->progress), newest ? j->progress_crc : 0);
    if (j->log_bytes > LIMIT_LOG_BYTES)
        assert_int_equal(b->log.len, LIMIT_LOG_BYTES);
    else
        assert_int_equal(b->log.len ? crc32c(0, b->log.at, b->log.len) : 0, j->log_crc);
}

/* The model was not made by either store: what it knows of each job is what readers see. */
static void pair_as_modelled(struct pair *p)
{
    struct history *h = p->history;
    struct arena arena;
    arena_init(&arena);
    for (uint64_t seq = 1; seq <= h->seq; seq++) {
        const struct history_job *j = &h->jobs[seq];
        struct stored_body b;
        assert_int_equal(rig_read(p->sqlite_reader, &seq, 1, &arena, &b), 0);
        assert_int_equal(b.found, history_shown(h, j));
        if (!b.found)
            continue;
        assert_int_equal(history_crc(b.payload), j->payload_crc);
        assert_int_equal(history_crc(b.result), j->result_crc);
        assert_int_equal(history_crc(b.error), j->error_crc);
        assert_true(span_equal(b.extra.unique, span_text(j->unique)));
        assert_int_equal(b.extra.expires_at.ms, j->expires_at.ms);
        assert_true(span_equal(b.extra.kind, span_text(j->kind)));
        assert_int_equal(history_crc(b.extra.headers), j->headers_crc);
        reports_as_modelled(j, &b);
        arena_reset(&arena);
    }
    arena_done(&arena);
}

/* One to three frames in one call. */
static void pair_apply(struct pair *p, unsigned records)
{
    struct buf copies[3];
    struct span frames[3];
    size_t count = 1 + random_below(&p->history->random, 3);
    struct err_note note = {""};
    for (size_t i = 0; i < count; i++) {
        buf_init(&copies[i]);
        assert_int_equal(
            buf_append_span(&copies[i], history_frame(p->history, records / (unsigned)count + 1)),
            0);
        frames[i] = buf_span(&copies[i]);
    }
    if (p->memory->ops->apply(p->memory, frames, count, &note) != 0 ||
        p->sqlite->ops->apply(p->sqlite, frames, count, &note) != 0)
        fail_msg("apply: %s", note.text);
    /* A frame that comes again is passed over. */
    assert_int_equal(p->sqlite->ops->apply(p->sqlite, frames, count, &note), 0);
    assert_int_equal(p->memory->ops->apply(p->memory, frames, count, &note), 0);
    for (size_t i = 0; i < count; i++)
        buf_done(&copies[i]);
    uint64_t marks = store_sqlite_of(p->sqlite)->figures.marks;
    p->marks = marks > p->marks ? marks : p->marks;
    bool more;
    if (p->marking && random_chance(&p->history->random, 5))
        assert_int_equal(p->sqlite->ops->tidy(p->sqlite, &more, &note), 0);
}

static uint64_t seed_of(uint64_t fallback)
{
    const char *seed = getenv("HF_SEED");
    return seed ? strtoull(seed, NULL, 10) : fallback;
}

static void check_good(const char *dir)
{
    char *text = NULL;
    size_t len;
    FILE *out = open_memstream(&text, &len);
    int result = check_run(dir, out);
    fclose(out);
    if (result != CHECK_GOOD)
        fail_msg("%s", text);
    free(text);
}

static void test_histories(void **state)
{
    (void)state;
    for (uint64_t run = 0; run < 6; run++) {
        struct pair p;
        pair_open(&p, seed_of(1000) + run, run % 2 != 0);
        /* From every record for itself to batches in which most of a job's life is netted out. */
        static const unsigned sizes[] = {1, 8, 40, 200};
        for (unsigned round = 0; round < 60; round++) {
            pair_apply(&p, sizes[(run + round / 15) % 4]);
            if (sizes[(run + round / 15) % 4] > 1 || round % 5 == 0)
                pair_same(&p);
            if (round % 20 == 19)
                pair_reopen(&p);
        }
        pair_reopen(&p);
        pair_same(&p);
        pair_as_modelled(&p);
        assert_int_equal(p.marks > 20, p.marking);
        p.sqlite_reader->ops->close(p.sqlite_reader);
        p.sqlite->ops->close(p.sqlite);
        check_good(p.dir.path);
        p.sqlite = rig_open(p.dir.path);
        assert_int_equal(p.sqlite->ops->reader_open(p.sqlite, &p.sqlite_reader, NULL), 0);
        pair_close(&p);
    }
}

/* The files as they are after any commit hold everything up to it: nothing waits for a close. */
static void test_crash(void **state)
{
    (void)state;
    struct pair p;
    pair_open(&p, seed_of(2000), true);
    for (unsigned round = 0; round < 12; round++) {
        char path[200];
        pair_apply(&p, 60);
        snprintf(path, sizeof path, "%s/copy-%u", p.dir.base, round);
        rig_dir_copy(p.dir.path, path);
        struct store *copy = rig_open(path);
        struct store_reader *reader;
        assert_int_equal(copy->ops->reader_open(copy, &reader, NULL), 0);
        rig_same(p.memory, p.memory_reader, copy, reader);
        reader->ops->close(reader);
        copy->ops->close(copy);
        check_good(path);
    }
    pair_close(&p);
}

/* ---- lists ---- */

static void filter_random(struct history *h, struct op_list *q, char texts[4][16])
{
    struct random *r = &h->random;
    *q = (struct op_list){.limit = 1 + (uint32_t)random_below(r, 30),
                          .newest_first = random_chance(r, 50) != 0,
                          .want_body = random_chance(r, 30) != 0};
    struct job_filter *f = &q->filter;
    if (random_chance(r, 50))
        f->queue = 1 + (uint32_t)random_below(r, h->queue);
    if (random_chance(r, 60))
        f->states = 1 + (unsigned)random_below(r, STATES_ALL);
    if (random_chance(r, 30))
        f->states = STATE_BIT(random_chance(r, 50) ? STATE_DEAD : STATE_CANCELLED);
    if (random_chance(r, 10))
        f->states = STATE_BIT(STATE_DEAD) | STATE_BIT(STATE_CANCELLED);
    f->states &= STATES_ALL;
    for (int i = 0; i < 3; i++)
        snprintf(texts[i], 16, "%c%u", 'x' + i, (unsigned)random_below(r, 20));
    if (random_chance(r, 15))
        f->unique = span_text(texts[0]);
    if (random_chance(r, 15))
        f->group = span_text(texts[1]);
    if (random_chance(r, 15))
        f->correlation = span_text(texts[2]);
    snprintf(texts[3], 16, "kind-%u", (unsigned)random_below(r, 50));
    if (random_chance(r, 15))
        f->kind = span_text(texts[3]);
    if (random_chance(r, 20))
        f->seq_min = random_below(r, h->seq + 5);
    if (random_chance(r, 20))
        f->seq_max = random_below(r, h->seq + 5);
    if (random_chance(r, 20)) {
        f->has_priority = true;
        f->priority_min = random_between(r, -5, 0);
        f->priority_max = random_between(r, 0, 5);
    }
    if (random_chance(r, 20))
        f->created_from.ms = h->now.ms - random_between(r, 0, 500);
    if (random_chance(r, 20))
        f->created_to.ms = h->now.ms - random_between(r, 0, 500);
    if (random_chance(r, 20))
        f->reasons = 1 + (unsigned)random_below(r, (1u << REASON_COUNT) - 1);
}

/* The plain way: every job there is, one by one. */
static bool naive_match(const struct history *h, const struct op_list *q, uint64_t seq)
{
    const struct history_job *j = &h->jobs[seq];
    struct job_extra extra = {.unique = span_text(j->unique),
                              .group = span_text(j->group),
                              .correlation = span_text(j->correlation),
                              .kind = span_text(j->kind),
                              .expires_at = j->expires_at};
    if (q->after != 0 && (q->newest_first ? seq >= q->after : seq <= q->after))
        return false;
    return history_shown(h, j) && filter_match(&q->filter, &j->job, &extra);
}

static uint32_t naive_list(const struct history *h, const struct op_list *q, uint64_t *seqs,
                           uint64_t *ret_cursor)
{
    uint32_t count = 0;
    *ret_cursor = 0;
    for (uint64_t i = 1; i <= h->seq; i++) {
        uint64_t seq = q->newest_first ? h->seq + 1 - i : i;
        if (!naive_match(h, q, seq))
            continue;
        if (count == q->limit) {
            *ret_cursor = seqs[count - 1];
            break;
        }
        seqs[count++] = seq;
    }
    return count;
}

static void list_same(struct pair *p, struct op_list *q)
{
    struct store_reader *readers[2] = {p->memory_reader, p->sqlite_reader};
    uint64_t seqs[LIMIT_BATCH], cursor;
    uint32_t count = naive_list(p->history, q, seqs, &cursor);
    struct buf text[2];
    struct arena arena;
    arena_init(&arena);
    for (int i = 0; i < 2; i++) {
        struct job_view *jobs;
        uint32_t got;
        uint64_t got_cursor, as_of;
        buf_init(&text[i]);
        assert_int_equal(
            readers[i]->ops->list(readers[i], q, &arena, &jobs, &got, &got_cursor, &as_of), 0);
        assert_int_equal(got, count);
        assert_int_equal(got_cursor, cursor);
        assert_int_equal(as_of, p->history->position);
        for (uint32_t k = 0; k < got; k++) {
            assert_int_equal(jobs[k].job.seq, seqs[k]);
            rig_view(&text[i], &jobs[k]);
        }
    }
    assert_true(span_equal(buf_span(&text[0]), buf_span(&text[1])));
    buf_done(&text[0]);
    buf_done(&text[1]);
    arena_done(&arena);
    q->after = cursor;
}

/* ORC-6, NOM-6: every filter gives what a look at every job gives, page by page. */
static void test_lists(void **state)
{
    (void)state;
    struct pair p;
    pair_open(&p, seed_of(3000), true);
    p.history->jobs_max = 400;
    for (unsigned round = 0; round < 12; round++) {
        pair_apply(&p, 150);
        for (unsigned i = 0; i < 40; i++) {
            struct op_list q;
            char texts[4][16];
            filter_random(p.history, &q, texts);
            for (int page = 0; page < 3; page++) {
                list_same(&p, &q);
                if (q.after == 0)
                    break;
            }
        }
    }
    pair_close(&p);
}

static uint32_t list_count(struct store_reader *r, const struct op_list *q)
{
    struct arena arena;
    struct job_view *jobs;
    uint32_t count;
    uint64_t cursor, as_of;
    arena_init(&arena);
    assert_int_equal(r->ops->list(r, q, &arena, &jobs, &count, &cursor, &as_of), 0);
    arena_done(&arena);
    return count;
}

/* By name; a queue that is deleted, or not there, has no jobs; the name may come again. */
static void test_list_by_name(void **state)
{
    (void)state;
    struct pair p;
    pair_open(&p, 1, false);
    struct history *h = p.history;
    struct op_list q = {.queue = SPAN_LITERAL("queue-1"), .limit = 10};
    struct store_reader *readers[2] = {p.memory_reader, p.sqlite_reader};
    for (int round = 0; round < 2; round++) {
        history_begin(h);
        history_enqueue(h, 1, NULL, SPAN_LITERAL("x"));
        history_enqueue(h, 2, NULL, SPAN_LITERAL("y"));
        struct span frame = history_end(h);
        rig_apply(p.memory, frame);
        rig_apply(p.sqlite, frame);
        for (int i = 0; i < 2; i++)
            assert_int_equal(list_count(readers[i], &q), 1);
        history_begin(h);
        struct record gone = {.kind = REC_QUEUE_GONE, .queue = {h->queues[1].number, h->now}};
        history_add(h, &gone);
        frame = history_end(h);
        rig_apply(p.memory, frame);
        rig_apply(p.sqlite, frame);
        for (int i = 0; i < 2; i++)
            assert_int_equal(list_count(readers[i], &q), 0);
        h->queues[1].number = 0;
    }
    q.queue = SPAN_LITERAL("queue-2");
    for (int i = 0; i < 2; i++)
        assert_int_equal(list_count(readers[i], &q), 2);
    q.queue = SPAN_LITERAL("no such queue");
    for (int i = 0; i < 2; i++)
        assert_int_equal(list_count(readers[i], &q), 0);
    pair_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_histories),
        cmocka_unit_test(test_crash),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_list_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
