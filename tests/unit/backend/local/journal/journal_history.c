/* SPDX-License-Identifier: Apache-2.0 */
/* See journal_history.h.
 *
 * The model is the log of all frames that were ever handed to journal_append: `synced` of them were
 * appended for sure, those behind are of the one entry whose append did not return. That stays open
 * until a process has found (or not found) it and begun: up to there it may still get lost. */
#include "unit/backend/local/journal/journal_history.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/local/journal/entry.h"
#include "support/files_torn.h"
#include "unit/backend/local/journal/journal_rig.h"

#define WHY_BYTES 1024
#define FRAMES_MAX 4 /* of one entry */

struct life {
    struct journal_history *h;
    struct random random;
    struct files_torn *disk;
    struct journal *j;
    struct journal_config config;
    struct journal_rig_log log;
    size_t synced; /* frames */
    size_t given;  /* by recovery */
    size_t read;   /* by the sweeper */
    uint64_t salt; /* makes the content of frames that take another's place different */
    bool wrong;
    char *why;
};

__attribute__((format(printf, 2, 3))) static void violated(struct life *l, const char *format, ...)
{
    va_list args;
    if (l->wrong)
        return;
    l->wrong = true;
    va_start(args, format);
    vsnprintf(l->why, WHY_BYTES, format, args);
    va_end(args);
}

static uint64_t position_of(const struct life *l, size_t frames)
{
    return frames ? l->log.frames[frames - 1].last : l->config.from;
}

/* Frames that the store has. */
static size_t applied_frames(const struct life *l)
{
    size_t n = 0;
    while (n < l->log.count && l->log.frames[n].last <= l->config.applied)
        n++;
    return n;
}

/* ---- a process begins ---- */

static int frame_given_cb(void *ctx, struct span frame, uint64_t first, uint64_t last,
                          struct err_note *note)
{
    struct life *l = ctx;
    (void)note;
    if (l->given >= l->log.count)
        violated(l, "recovery invented records %llu to %llu", (unsigned long long)first,
                 (unsigned long long)last);
    else if (l->log.frames[l->given].first != first || l->log.frames[l->given].last != last ||
             !span_equal(frame, journal_rig_log_frame(&l->log, l->given)))
        violated(l, "recovery gave records %llu to %llu, and they are not what was appended",
                 (unsigned long long)first, (unsigned long long)last);
    l->given++;
    return l->wrong ? -ERR_INVALID : 0;
}

static void recovered_check(struct life *l)
{
    if (l->given < l->synced)
        violated(l, "records after %llu are lost; %llu was the last appended",
                 (unsigned long long)position_of(l, l->given),
                 (unsigned long long)position_of(l, l->synced));
    else if (l->given > l->synced && l->given < l->log.count)
        violated(l, "an entry was recovered in part");
    else if (journal_position(l->j) != position_of(l, l->given))
        violated(l, "the journal says %llu, and gave records up to %llu",
                 (unsigned long long)journal_position(l->j),
                 (unsigned long long)position_of(l, l->given));
}

/* Opens and begins once. False: the disk stopped in between (or something is wrong). */
static bool process_begin(struct life *l)
{
    struct err_note note = {""};
    l->config.files = files_torn_files(l->disk);
    l->given = applied_frames(l);
    int rc = journal_open(&l->config, frame_given_cb, l, &l->j, &note);
    if (rc != 0) {
        l->j = NULL;
        if (!files_torn_stopped(l->disk))
            violated(l, "refused to open: %s", note.text);
        return false;
    }
    recovered_check(l);
    if (l->wrong)
        return false;
    l->h->reached.recovered += l->given - applied_frames(l);
    struct journal_torn torn = journal_torn(l->j);
    if (torn.bytes > 0 && l->log.count == l->synced)
        violated(l,
                 "an incomplete entry was reported, and none was being written: %llu bytes%s at "
                 "%llu in %u, after %llu",
                 (unsigned long long)torn.bytes, torn.header_damaged ? ", damaged header," : "",
                 (unsigned long long)torn.at, torn.segment, (unsigned long long)torn.after);
    l->h->reached.torn += journal_torn(l->j).bytes > 0;
    rc = journal_begin(l->j, &note);
    if (rc != 0 && !files_torn_stopped(l->disk))
        violated(l, "refused to begin: %s", note.text);
    return rc == 0;
}

/* The process ends here and now, by the power or by kill -9. */
static void process_end(struct life *l)
{
    journal_close(l->j);
    l->j = NULL;
    if (random_chance(&l->random, 60)) {
        files_torn_crash(l->disk);
        l->h->reached.crashes++;
    } else {
        files_torn_kill(l->disk);
        l->h->reached.kills++;
    }
}

/* Until one process has begun; some do not get that far. */
static void process_start(struct life *l)
{
    unsigned tries = 0;
    do {
        if (tries > 0) {
            l->h->reached.begin_cuts++;
            process_end(l);
        }
        if (++tries < 5 && random_chance(&l->random, 40))
            files_torn_stop(l->disk, 1 + (unsigned)random_below(&l->random, 8));
    } while (!process_begin(l) && !l->wrong);
    files_torn_stop(l->disk, 0);
    if (l->wrong)
        return;
    if (l->log.count > l->synced)
        *(l->given > l->synced ? &l->h->reached.in_flight_kept : &l->h->reached.in_flight_lost) +=
            1;
    l->synced = l->given;
    journal_rig_log_cut(&l->log, l->given);
    l->read = applied_frames(l);
}

/* ---- what a process does ---- */

static size_t frame_bytes_pick(struct life *l)
{
    uint64_t kind = random_below(&l->random, 100);
    uint64_t segment = l->config.segment_bytes;
    if (kind < 60)
        return (size_t)random_below(&l->random, 200);
    if (kind < 85)
        return (size_t)random_below(&l->random, 3 * JOURNAL_PAGE);
    if (kind < 95)
        return (size_t)random_below(&l->random, segment);
    return (size_t)(segment + random_below(&l->random, 2 * segment));
}

static void frames_add(struct life *l)
{
    size_t count = 1 + (size_t)random_below(&l->random, FRAMES_MAX);
    for (size_t i = 0; i < count; i++)
        journal_rig_log_add(&l->log, position_of(l, l->log.count) + 1,
                            1 + (uint32_t)random_below(&l->random, 5), frame_bytes_pick(l),
                            ++l->salt);
}

static int append_once(struct life *l, struct err_note *note)
{
    struct span frames[FRAMES_MAX];
    size_t count = 0;
    for (; l->synced + count < l->log.count; count++)
        frames[count] = journal_rig_log_frame(&l->log, l->synced + count);
    return journal_append(l->j, frames, count, note);
}

/* Whether the process lives on. What does not succeed must be because of the disk. */
static bool alive(struct life *l, int rc, const struct err_note *note, bool disk_fails)
{
    if (rc == 0)
        return true;
    if (!files_torn_stopped(l->disk) && !disk_fails)
        violated(l, "failed on a good disk: %s", note->text);
    return false;
}

static bool append(struct life *l, bool disk_fails)
{
    struct err_note note = {""};
    frames_add(l);
    int rc = append_once(l, &note);
    if (rc == -ERR_NO_SPACE) {
        bool more;
        l->h->reached.refusals++;
        if (!alive(l, journal_provide(l->j, &more, &note), &note, disk_fails))
            return false;
        rc = append_once(l, &note);
    }
    if (rc == -ERR_NO_SPACE) {
        journal_rig_log_cut(&l->log, l->synced);
        return true;
    }
    if (!alive(l, rc, &note, disk_fails)) {
        if (append_once(l, &note) != rc)
            violated(l, "a failed journal took another entry");
        return false;
    }
    l->synced = l->log.count;
    l->h->reached.appends++;
    if (journal_position(l->j) != position_of(l, l->synced))
        violated(l, "the position is wrong after an append");
    return true;
}

static bool provide(struct life *l, bool disk_fails)
{
    struct err_note note = {""};
    bool more;
    return alive(l, journal_provide(l->j, &more, &note), &note, disk_fails);
}

static void batch_check(struct life *l, const struct journal_batch *b)
{
    for (size_t i = 0; i < b->count; i++, l->read++)
        if (l->read >= l->synced ||
            !span_equal(b->frames[i], journal_rig_log_frame(&l->log, l->read)))
            violated(l, "the sweeper read a frame that is not the one appended");
    if (b->last != position_of(l, l->read) && !l->wrong)
        violated(l, "the sweeper was told %llu", (unsigned long long)b->last);
}

static bool sweep(struct life *l, bool disk_fails)
{
    struct err_note note = {""};
    struct journal_batch b;
    journal_batch_init(&b);
    int rc = journal_read(l->j, (size_t)random_below(&l->random, 3u << 14), &b, &note);
    if (rc == 0 && b.count == 0 && l->read < l->synced)
        violated(l, "the sweeper was given nothing, and there is something");
    if (rc == 0)
        batch_check(l, &b);
    journal_batch_done(&b);
    if (rc == 0 && random_chance(&l->random, 60) && l->read > applied_frames(l)) {
        size_t from = applied_frames(l) + 1;
        size_t to = from + (size_t)random_below(&l->random, l->read - from + 1);
        l->config.applied = position_of(l, random_chance(&l->random, 70) ? l->read : to);
        journal_applied(l->j, l->config.applied);
    }
    return alive(l, rc, &note, disk_fails);
}

/* The store gets all there is. */
static bool catch_up(struct life *l, bool disk_fails)
{
    while (l->read < l->synced && !l->wrong)
        if (!sweep(l, disk_fails))
            return false;
    l->config.applied = position_of(l, l->read);
    journal_applied(l->j, l->config.applied);
    return true;
}

static void process_run(struct life *l, unsigned steps)
{
    bool disk_fails = random_chance(&l->random, 10);
    if (disk_fails && random_chance(&l->random, 50))
        files_torn_fail_sync(l->disk, 1 + (unsigned)random_below(&l->random, 30), -ERR_IO);
    else if (disk_fails)
        files_torn_fail_write(l->disk, 1 + (unsigned)random_below(&l->random, 30), -ERR_IO);
    else if (random_chance(&l->random, 80))
        files_torn_stop(l->disk, 1 + (unsigned)random_below(&l->random, 60));
    bool lives = true;
    while (lives && !l->wrong && steps-- > 0) {
        uint64_t what = random_below(&l->random, 100);
        lives = what < 60   ? append(l, disk_fails)
                : what < 75 ? provide(l, disk_fails)
                : what < 92 ? sweep(l, disk_fails)
                            : catch_up(l, disk_fails);
    }
    l->h->reached.failures += disk_fails && !lives;
}

/* ---- damage ---- */

struct place {
    char name[16];
    uint64_t at;
    struct journal_entry entry;
};

/* Adds the whole entries of one file that the store lacks; of those at the same position the one of
 * the newest generation counts. */
static void places_find(struct life *l, struct journal_seal *seal, const char *name,
                        struct place *places, size_t *count)
{
    struct span content = files_torn_content(l->disk, name);
    for (uint64_t at = 0; at + JOURNAL_PAGE <= content.len; at += JOURNAL_PAGE) {
        struct journal_entry e;
        struct span rest = span_of(content.at + at, content.len - at);
        if (journal_entry_header(seal, rest, at, &e) != 0 ||
            e.length > rest.len - JOURNAL_ENTRY_HEADER_BYTES || e.last <= l->config.applied ||
            journal_entry_check(&e, span_of(rest.at + JOURNAL_ENTRY_HEADER_BYTES, e.length)) != 0)
            continue;
        size_t i = 0;
        while (i < *count && places[i].entry.first != e.first)
            i++;
        if (i == *count)
            ++*count;
        else if (places[i].entry.generation > e.generation)
            continue;
        snprintf(places[i].name, sizeof places[i].name, "%s", name);
        places[i].at = at;
        places[i].entry = e;
    }
}

/* Flips a bit of an entry that was synced, that the store lacks, and that is not the last. */
static void damage(struct life *l)
{
    struct place places[512];
    size_t count = 0;
    for (uint64_t more = random_below(&l->random, 8); more > 0 && !l->wrong; more--)
        (void)append(l, false);
    struct journal_seal seal;
    journal_rig_seal(l->disk, &seal);
    for (unsigned n = 1; n < 64; n++) {
        char name[16];
        snprintf(name, sizeof name, "%u", n);
        places_find(l, &seal, name, places, &count);
    }
    journal_seal_done(&seal);
    size_t i = count ? (size_t)random_below(&l->random, count) : 0;
    if (l->wrong || count == 0 || places[i].entry.last == journal_position(l->j))
        return;
    const struct place *p = &places[i];
    uint64_t at = random_below(&l->random, JOURNAL_ENTRY_HEADER_BYTES + p->entry.length);
    char byte = files_torn_content(l->disk, p->name).at[p->at + at];
    byte = (char)(byte ^ (1 << random_below(&l->random, 8)));
    files_torn_poke(l->disk, p->name, p->at + at, span_of(&byte, 1));
    journal_close(l->j);
    l->j = NULL;
    files_torn_kill(l->disk);
    struct err_note note = {""};
    l->given = applied_frames(l);
    int rc = journal_open(&l->config, NULL, NULL, &l->j, &note);
    if (rc != -ERR_CORRUPT && rc != -ERR_VERSION)
        violated(l, "byte %llu of the entry at %llu in %s was changed, and open said %s",
                 (unsigned long long)at, (unsigned long long)p->at, p->name, err_name(rc));
    l->j = rc == 0 ? l->j : NULL;
    l->h->reached.damages++;
}

/* ---- */

static void life_begin(struct life *l, struct journal_history *h, char *why)
{
    *l = (struct life){.h = h, .why = why};
    random_seed(&l->random, h->seed);
    l->disk = files_torn_new(random_next(&l->random));
    l->config.segment_bytes = JOURNAL_PAGE * (4 + (uint32_t)random_below(&l->random, 5));
    l->config.bytes_max = l->config.segment_bytes * (4 + random_below(&l->random, 5));
    l->config.from = l->config.applied = random_below(&l->random, 3);
    l->config.defects = h->defects;
    memset(l->config.store_id, (int)random_below(&l->random, 256), sizeof l->config.store_id);
    l->salt = h->seed << 20;
    journal_rig_log_init(&l->log);
}

bool journal_history_run(struct journal_history *h, char *why)
{
    struct life life, *l = &life;
    life_begin(l, h, why);
    unsigned steps = h->steps;
    process_start(l);
    while (steps > 0 && !l->wrong) {
        unsigned some = 1 + (unsigned)random_below(&l->random, steps);
        steps -= some;
        process_run(l, some);
        if (!l->wrong) {
            process_end(l);
            process_start(l);
        }
    }
    if (l->j) {
        struct journal_figures f;
        journal_figures(l->j, &f);
        h->reached.generations += f.generation;
    }
    if (!l->wrong && h->damage)
        damage(l);
    journal_close(l->j);
    journal_rig_log_done(&l->log);
    files_torn_free(l->disk);
    return !l->wrong;
}
