/* SPDX-License-Identifier: Apache-2.0 */
/* Tables, their versions, and the views for people with a `sqlite3` shell.
 *
 * `jobs` is narrow and has no secondary index, not even a partial one (7 % of a cycle's CPU,
 * measured): enqueue, claim, ack and removal touch its tree alone. What few jobs have, and which
 * few jobs are dead or cancelled, is in tables of their own, all keyed by the sequence, so that one
 * rising scan of each can be merged. Numbers are those of core (state.h, job.h, policy.h); times
 * are milliseconds since 1970; 64-bit values without sign are stored as SQLite's signed ones, bit
 * for bit.
 *
 * Steps are never changed once released: a new version is a new step. Views hold no data and are
 * made anew after any step. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "backend/local/store_sqlite.h"
#include "backend/local/store_sqlite_notices.h"
#include "base/failpoint.h"

/* ---- version 1 ---- */

static const char step_1[] =
    "CREATE TABLE meta ("
    " id INTEGER PRIMARY KEY CHECK (id = 1),"
    " store_id BLOB NOT NULL,"
    " hash_key BLOB NOT NULL,"
    " created_at INTEGER NOT NULL,"
    " epoch INTEGER NOT NULL,"    /* of the last boot */
    " seq_upto INTEGER NOT NULL," /* sequences up to this one may have been handed out */
    " position INTEGER NOT NULL"  /* records applied */
    ") STRICT;"

    "CREATE TABLE queues ("
    " number INTEGER PRIMARY KEY,"
    " name TEXT NOT NULL,"
    " generation INTEGER NOT NULL," /* waiting jobs of another one are purged */
    " created_at INTEGER NOT NULL,"
    " updated_at INTEGER NOT NULL,"
    " paused_until INTEGER NOT NULL,"
    " gone INTEGER NOT NULL," /* deleted; its jobs are being removed */
    " policy BLOB NOT NULL,"
    " owner TEXT,"
    " note TEXT,"
    " attributes TEXT"
    ") STRICT;"
    "CREATE UNIQUE INDEX queues_by_name ON queues (name) WHERE gone = 0;"

    "CREATE TABLE jobs ("
    " seq INTEGER PRIMARY KEY,"
    " queue INTEGER NOT NULL,"
    " state INTEGER NOT NULL,"
    " marks INTEGER NOT NULL,"
    " since INTEGER NOT NULL,"
    " token_epoch INTEGER NOT NULL," /* of the newest claim … */
    " token_counter INTEGER NOT NULL,"
    " lease_ms INTEGER NOT NULL," /* … which is under way: else 0 and NULL */
    " worker TEXT,"
    " run_at INTEGER NOT NULL,"
    " priority INTEGER NOT NULL,"
    " counts INTEGER NOT NULL,"
    " payload INTEGER NOT NULL,"
    " id_hi INTEGER NOT NULL"
    ") STRICT;"

    "CREATE TABLE aside (" /* dead and cancelled jobs: what lists of them look up */
    " seq INTEGER PRIMARY KEY,"
    " queue INTEGER NOT NULL,"
    " state INTEGER NOT NULL"
    ") STRICT;"
    "CREATE INDEX aside_by_queue ON aside (queue, state);"

    "CREATE TABLE payload (" /* jobs with payload_bytes > 0 */
    " seq INTEGER PRIMARY KEY,"
    " body BLOB NOT NULL"
    ") STRICT;"

    "CREATE TABLE extra (" /* jobs with flag 1 */
    " seq INTEGER PRIMARY KEY,"
    " unique_key TEXT,"
    " group_key TEXT,"
    " correlation TEXT,"
    " label TEXT,"
    " attributes TEXT,"
    " expires_at INTEGER NOT NULL,"
    " options BLOB"
    ") STRICT;"

    "CREATE TABLE outcome (" /* jobs that ended with a result, or failed at least once with a text
                              */
    " seq INTEGER PRIMARY KEY,"
    " result_kind INTEGER NOT NULL DEFAULT 0,"
    " result BLOB,"
    " error_kind INTEGER NOT NULL DEFAULT 0,"
    " error TEXT"
    ") STRICT;"

    "CREATE TABLE bulks ("
    " bulk INTEGER PRIMARY KEY,"
    " action INTEGER NOT NULL,"
    " at INTEGER NOT NULL,"
    " queue INTEGER NOT NULL,"
    " states INTEGER NOT NULL,"
    " group_key TEXT,"
    " seq_max INTEGER NOT NULL,"
    " cursor INTEGER NOT NULL DEFAULT 0,"
    " changed INTEGER NOT NULL DEFAULT 0,"
    " refused INTEGER NOT NULL DEFAULT 0"
    ") STRICT;"

    "CREATE TABLE keys (" /* by expiry: keys come and go at the two ends, and load in this order */
    " expires_at INTEGER NOT NULL,"
    " key_hi INTEGER NOT NULL,"
    " key_lo INTEGER NOT NULL,"
    " fingerprint INTEGER NOT NULL,"
    " seq INTEGER NOT NULL,"
    " id_hi INTEGER NOT NULL,"
    " PRIMARY KEY (expires_at, key_hi, key_lo)"
    ") STRICT, WITHOUT ROWID;";

/* ---- version 2: attempt history ---- */

/* An attempt that is under way or was acked is told by its job's row, so that a job which is done
 * at its first attempt costs no other. What an older version did not keep stays unknown. */
static const char step_2[] =
    "CREATE TABLE attempts (" /* ended, but not by an ack; the newest 20 of each job */
    " seq INTEGER NOT NULL,"
    " position INTEGER NOT NULL," /* of the record that ended it */
    " queue INTEGER NOT NULL,"
    " number INTEGER NOT NULL,"
    " started_at INTEGER NOT NULL,"
    " ended_at INTEGER NOT NULL,"
    " outcome INTEGER NOT NULL,"
    " error_kind INTEGER NOT NULL,"
    " worker TEXT,"
    " error TEXT,"
    " PRIMARY KEY (seq, position)"
    ") STRICT, WITHOUT ROWID;"
    /* What went wrong last, and in which queue, without a look at the rows. */
    "CREATE INDEX attempts_by_position ON attempts (position, queue, outcome)"
    " WHERE outcome IN (2, 3);";

/* ---- version 3: a journal in front of it ---- */

static const char step_3[] =
    /* Where the journal began; what the store lacks is in there. -1: it has none yet. */
    "ALTER TABLE meta ADD COLUMN journal_from INTEGER NOT NULL DEFAULT -1;";

/* ---- version 4: what each part brings stands in its own file ---- */

static const char step_4[] = SCHEMA_KV SCHEMA_NOTICES SCHEMA_HOUR SCHEMA_4_SCHEDULES SCHEMA_GONE
    /* The highest ever given. */
    "CREATE TABLE numbers ("
    " id INTEGER PRIMARY KEY CHECK (id = 1),"
    " queue INTEGER NOT NULL,"
    " schedule INTEGER NOT NULL"
    ") STRICT;"
    "INSERT INTO numbers VALUES (1, (SELECT ifnull(max(number), 0) FROM queues), 0);";

static const char *const steps[] = {step_1, step_2, step_3, step_4};

const struct schema_steps schema_steps = {steps, sizeof steps / sizeof steps[0]};

/* ---- versions ---- */

static int step_take(sqlite3 *db, const struct schema_steps *to, int64_t version,
                     struct err_note *note)
{
    char set[48];
    sqlite3_snprintf(sizeof set, set, "PRAGMA user_version = %lld", version + 1);
    int rc = sql_exec(db, "BEGIN IMMEDIATE", note);
    if (rc == 0)
        rc = sql_exec(db, to->sql[version], note);
    if (rc == 0)
        rc = sql_exec(db, set, note);
    FAILPOINT("upgrade.step");
    if (rc == 0)
        rc = sql_exec(db, "COMMIT", note);
    FAILPOINT("upgrade.done");
    if (rc != 0) /* the first error is the one to tell */
        sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    return rc;
}

int schema_upgrade(sqlite3 *db, const struct schema_steps *to, struct err_note *note)
{
    int64_t version = 0;
    int rc = sql_number(db, "PRAGMA user_version", &version, note);
    if (rc != 0)
        return rc;
    if (version < 0 || version > to->count)
        return err_note_set(note, -ERR_VERSION,
                            "%s has format %lld, made by a newer holdfast; this one reads formats "
                            "up to %d: use the newer one",
                            sqlite3_db_filename(db, "main"), (long long)version, to->count);
    for (; version < to->count && rc == 0; version++)
        rc = step_take(db, to, version, note);
    return rc;
}

/* ---- whose file is it? ---- */

static uint32_t big_endian(const unsigned char *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* The header of SQLite's file format: a magic text, and at 68 the application id. A store gets its
 * id before it gets its name, so a file without it is not one. */
int schema_probe(const char *path, struct err_note *note)
{
    unsigned char header[100] = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return -ERR_NOT_FOUND;
    if (fd < 0)
        return err_note_set(note, -ERR_IO, "cannot open %s: %s", path, strerror(errno));
    ssize_t n = read(fd, header, sizeof header);
    int error = errno;
    close(fd);
    if (n < 0)
        return err_note_set(note, -ERR_IO, "cannot read %s: %s", path, strerror(error));
    if (memcmp(header, "SQLite format 3", 16) != 0)
        return err_note_set(note, -ERR_INVALID,
                            "%s is not a holdfast store (not even a database); it is left as it "
                            "is: choose another --data directory",
                            path);
    if (big_endian(header + 68) != STORE_APPLICATION_ID)
        return err_note_set(note, -ERR_INVALID,
                            "%s is the database of another program; it is left as it is: choose "
                            "another --data directory",
                            path);
    return 0;
}
