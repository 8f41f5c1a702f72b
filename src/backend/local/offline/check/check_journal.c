/* SPDX-License-Identifier: Apache-2.0 */
/* The journal of a store: is it whole, does it go on where the store ends, and do both together
 * make a state that the engine accepts? Rows that were found damaged before make the last question
 * moot.
 */
#include <inttypes.h>

#include "backend/local/offline/check/check_impl.h"
#include "backend/local/offline/reading.h"
#include "backend/local/offline/start.h"
#include "backend/local/pages/dbfile.h"

struct replayed {
    struct engine *engine; /* NULL = frames are only counted */
    uint64_t records;
};

/* NULL when the rows cannot be loaded; the finding says why. */
static struct engine *engine_of(struct check *c)
{
    struct engine *e = NULL;
    struct err_note note = {""};
    if (start_load(c->db, &c->meta, &e, &note) == 0)
        return e;
    check_problem(c, ADVICE_ROWS, "a server could not load the store: %s", note.text);
    return NULL;
}

static int frame_cb(void *ctx, struct span frame, uint64_t first, uint64_t last,
                    struct err_note *note)
{
    struct replayed *r = ctx;
    r->records += last - first + 1;
    return r->engine ? engine_replay(r->engine, frame, note) : 0;
}

static void check_state(struct check *c, const struct replayed *r)
{
    struct err_note note = {""};
    struct engine_figures figures;
    if (!r->engine)
        return;
    if (engine_verify(r->engine, &note) != 0)
        check_problem(c, ADVICE_ROWS, "the store and the journal are inconsistent: %s", note.text);
    engine_figures(r->engine, &figures);
    if (r->records == 0)
        return;
    c->jobs = figures.jobs;
    c->queues_told = figures.queues;
    fprintf(c->out, "with them %" PRIu64 " job%s in %" PRIu64 " queue%s\n", c->jobs,
            c->jobs == 1 ? "" : "s", c->queues_told, c->queues_told == 1 ? "" : "s");
}

/* Neither keeps a server from starting. */
static void check_end(struct check *c, const struct journal *journal)
{
    struct journal_torn torn = journal_torn(journal);
    if (torn.bytes > 0)
        check_warning(c, ADVICE_INCOMPLETE,
                      "the last entry of the journal (journal/%" PRIu32 " at %" PRIu64 ", %" PRIu64
                      " bytes, after record %" PRIu64 ", generation %" PRIu64
                      ") is incomplete; the next start ignores it",
                      torn.segment, torn.at, torn.bytes, torn.after, torn.generation);
    if (journal_key_problem(journal))
        check_warning(c, ADVICE_KEY_FILE, "%s", journal_key_problem(journal));
}

static void check_saved(struct check *c, struct files *files)
{
    unsigned saved = 0;
    struct err_note note = {""};
    if (journal_torn_count(files, &saved, &note) != 0)
        check_problem(c, ADVICE_JOURNAL, "%s", note.text);
    else if (saved > 0)
        check_warning(c, ADVICE_INCOMPLETE,
                      "earlier starts left out an incomplete last entry of the journal; %u cop%s "
                      "kept: journal/" JOURNAL_TORN_NAME "N",
                      saved, saved == 1 ? "y is" : "ies are");
}

static void check_frames(struct check *c, struct files *files)
{
    struct journal *journal = NULL;
    struct err_note note = {""};
    struct replayed r = {.engine = c->problems == 0 ? engine_of(c) : NULL};
    struct journal_config config = reading_journal_config(&c->meta, files);
    check_saved(c, files);
    int rc = journal_open(&config, frame_cb, &r, &journal, &note);
    fprintf(c->out, "journal: %" PRIu64 " record%s that the store has not applied yet\n", r.records,
            r.records == 1 ? "" : "s");
    if (rc != 0)
        check_problem(c, ADVICE_JOURNAL, "%s", note.text[0] ? note.text : err_text(rc));
    else
        check_state(c, &r);
    if (rc == 0)
        check_end(c, journal);
    journal_close(journal);
    engine_free(r.engine);
}

static void check_alone(struct check *c)
{
    struct replayed r = {.engine = c->problems == 0 ? engine_of(c) : NULL};
    check_state(c, &r);
    engine_free(r.engine);
}

static void check_missing(struct check *c)
{
    if (c->meta.journal_from < 0) { /* no server has been started on it */
        check_alone(c);
    } else if (dbfile_is_alone(c->db_path)) {
        fputs("a backup: no journal belongs to it; `holdfast restore` creates a store from it\n",
              c->out);
        check_alone(c);
    } else {
        check_problem(c, ADVICE_JOURNAL,
                      "the directory journal is missing; it holds what happened after record "
                      "%" PRIu64,
                      c->meta.position);
    }
}

void check_journal(struct check *c)
{
    struct err_note note = {""};
    struct files *files;
    if (!c->has_meta)
        return; /* it cannot be told which journal belongs to the store, and that was told */
    if (c->alone) {
        check_alone(c);
        return;
    }
    int rc = reading_journal_files(c->dir, &files, &note);
    if (rc == -ERR_NOT_FOUND)
        check_missing(c);
    else if (rc != 0)
        check_problem(c, ADVICE_JOURNAL, "%s", note.text[0] ? note.text : err_text(rc));
    else
        check_frames(c, files);
}
