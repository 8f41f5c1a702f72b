/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/local/offline/start.h"

#define BUSY_MS 1000

/* What the engine loads from: a connection that somebody else has opened. */
struct start_store {
    struct store base;
    sqlite3 *db;
    const struct store_meta *meta;
};

static int load_slot(struct store *s, const struct store_sink *sink, struct err_note *note)
{
    const struct start_store *from = (const struct start_store *)s;
    int64_t rows;
    return sqlite_load(from->db, from->meta, sink, &rows, note);
}

static const struct store_ops start_store_ops = {.kind = "start", .load = load_slot};

int start_load(sqlite3 *db, const struct store_meta *meta, struct engine **ret,
               struct err_note *note)
{
    struct engine_config config;
    struct engine *e = NULL;
    struct start_store store = {{.ops = &start_store_ops}, db, meta};
    engine_config_default(&config);
    int rc = engine_new(&config, &e);
    if (rc == 0)
        rc = engine_load(e, &store.base, note);
    if (rc != 0 && note->text[0] == '\0')
        rc = err_note_set(note, rc, "%s", err_text(rc));
    if (rc == 0)
        *ret = e;
    else
        engine_free(e);
    return rc;
}

int start_possible(const char *path, struct err_note *note)
{
    sqlite3 *db = NULL;
    struct store_meta meta;
    struct engine *e = NULL;
    note->text[0] = '\0';
    int rc = sql_open(path, SQLITE_OPEN_READONLY, BUSY_MS, &db, note);
    if (rc == 0)
        rc = sqlite_load_meta(db, &meta, note);
    if (rc == 0)
        rc = start_load(db, &meta, &e, note);
    engine_free(e);
    sqlite3_close(db);
    return rc;
}
