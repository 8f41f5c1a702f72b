/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/local/sqlite/damage.h"

#include "backend/local/sqlite/store_sqlite.h"

#define BUSY_MS 5000

int damage_met(struct store_sqlite *q, int rc, const struct err_note *note)
{
    if (rc != -ERR_CORRUPT || q->damaged || !sqlite3_get_autocommit(q->db))
        return rc;
    q->damaged = true;
    log_event(q->base.log, LOG_ERROR, "store_page_damaged", LOG_TEXT("why", note->text),
              LOG_TEXT("meaning", "jobs are served, but rows of removed jobs stay in the database "
                                  "until the server starts again"),
              LOG_TEXT("next",
                       "check the disk; stop the server when you can, and restore a backup, "
                       "or export the jobs and import them into an empty store"));
    return 0;
}

/* The checksum is stored behind the body, so reading it reads every page of the row. */
static int probe_open(struct store_sqlite *q, struct err_note *note)
{
    if (q->probe)
        return 0;
    int rc = sql_open(q->dir.db_path, SQLITE_OPEN_READONLY, BUSY_MS, &q->probe, note);
    if (rc == 0)
        rc = sql_prepare(q->probe, "SELECT crc FROM payload WHERE seq = ?1", &q->probe_payload,
                         note);
    if (rc != 0)
        damage_done(q);
    return rc;
}

int damage_payload(struct store_sqlite *q, uint64_t seq, bool *ret, struct err_note *note)
{
    *ret = false;
    if (!q->damaged)
        return 0;
    int rc = probe_open(q, note);
    if (rc != 0)
        return rc;
    bind_number(q->probe_payload, 1, seq);
    int step = sqlite3_step(q->probe_payload);
    if (step != SQLITE_ROW && step != SQLITE_DONE)
        rc = sql_error(q->probe, "read", note);
    sqlite3_reset(q->probe_payload);
    *ret = rc == -ERR_CORRUPT;
    return *ret ? 0 : rc;
}

void damage_dropped(const struct store_sqlite *q, uint64_t seq)
{
    log_event(q->base.log, LOG_ERROR, "payload_dropped", LOG_INT("seq", seq),
              LOG_TEXT("why", "the page on which the payload of this job is stored is damaged, so "
                              "the new payload could not be stored; the job becomes dead with the "
                              "reason damaged when it is claimed"),
              LOG_TEXT("next", "enqueue the job again"));
}

void damage_done(struct store_sqlite *q)
{
    sqlite3_finalize(q->probe_payload);
    sqlite3_close(q->probe);
    q->probe_payload = NULL;
    q->probe = NULL;
}
