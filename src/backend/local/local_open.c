/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the local backend: what the store has, and then what the journal has beyond it, give the
 * exact state at the last durable record. Then the epoch is increased, durably, and the threads
 * start.
 *
 * If the store was in use before, nothing here needs free space on the disk: the boot record is
 * written to an existing segment, and it is applied later. */
#include <inttypes.h>
#include <string.h>

#include "backend/local/local.h"
#include "backend/local/local_impl.h"
#include "base/digest/random.h"
#include "base/mem.h"

#define DEFAULT_CACHE_BYTES (UINT64_C(64) << 20)

static int seed_of(const struct backend_config *config, uint64_t *ret)
{
    *ret = config->seed;
    return config->seed ? 0 : random_bytes(ret, sizeof(*ret));
}

static int gate_config_of(struct local *l, bool cached, struct gate_config *ret)
{
    const struct backend_config *c = &l->config;
    *ret = (struct gate_config){
        .calls = {.ctx = l,
                  .frame = local_frame,
                  .reply = local_reply,
                  .wake = local_wake,
                  .read = local_read,
                  .damaged = local_damaged},
    };
    engine_config_default(&ret->engine);
    if (c->policy)
        ret->engine.policy = *c->policy;
    ret->engine.no_auto_create = c->no_auto_create;
    ret->engine.queue_limits = c->queue_limits;
    ret->engine.node = c->node;
    ret->engine.still = c->still;
    ret->engine.capacity = c->capacity;
    ret->engine.key_ttl_ms = c->key_ttl_ms;
    ret->engine.keys_max = c->keys_max;
    ret->engine.kv_keys_max = c->kv_keys_max;
    ret->engine.kv_bytes_max = c->kv_bytes_max;
    if (c->clock.manual) {
        ret->engine.stall_ms = INT64_MAX;
        ret->engine.jump_ms = INT64_MAX;
    }
    if (cached)
        ret->cache_bytes = c->cache_bytes ? c->cache_bytes : DEFAULT_CACHE_BYTES;
    return seed_of(c, &ret->engine.seed);
}

static int local_new(const struct backend_config *config, const struct backend_ops *ops,
                     struct local **ret)
{
    struct local *l = mem_zalloc(sizeof(*l));
    if (!l)
        return -ERR_NOMEM;
    l->base.ops = ops;
    l->config = *config;
    l->opened_at = clock_now(&config->clock).wall;
    watches_init(&l->watches);
    *ret = l;
    return 0;
}

static int engine_fill(struct local *l, bool cached, struct err_note *note)
{
    struct gate_config config;
    int err = gate_config_of(l, cached, &config);
    if (!err)
        err = gate_new(&config, &l->gate);
    return err ? err : engine_load(gate_engine(l->gate), l->store, note);
}

/* --- the journal --- */

struct replay {
    struct engine *engine;
    const struct backend_config *config;
    uint64_t records, told_ns;
};

/* A start that takes seconds reports its progress. */
static void tell_progress(struct replay *r, uint64_t position)
{
    uint64_t now = clock_ns();
    if (now - r->told_ns < UINT64_C(1000000000))
        return;
    r->told_ns = now;
    log_event(r->config->log, LOG_INFO, "journal_replaying", LOG_INT("records", r->records),
              LOG_INT("position", position));
}

static int replay_cb(void *ctx, struct span frame, uint64_t first, uint64_t last,
                     struct err_note *note)
{
    struct replay *r = ctx;
    r->records += last - first + 1;
    tell_progress(r, last);
    return engine_replay(r->engine, frame, note);
}

/* The free space that must remain besides the copy of a torn entry, as a multiple of its size. */
#define TORN_ROOM_FACTOR 4
#define TORN_BYTES_MAX (UINT64_C(64) << 20)

/* Saves a copy if possible: the server starts in any case. The name is empty if there is no
 * copy. */
static void torn_save(struct local *l, uint64_t bytes, char name[JOURNAL_TORN_NAME_BYTES],
                      struct err_note *why)
{
    int err;
    if (bytes > TORN_BYTES_MAX)
        err = err_note_set(why, -ERR_TOO_BIG, "it has more than %" PRIu64 " bytes", TORN_BYTES_MAX);
    else if (disk_reserve_room(l->reserve) / TORN_ROOM_FACTOR < bytes)
        err = err_note_set(why, -ERR_NO_SPACE, "there is too little free space on the disk");
    else
        err = journal_torn_save(l->journal, name, why);
    if (err)
        name[0] = '\0';
}

/* It cannot be determined whether the entry was never confirmed or was damaged later, so this logs
 * a message for the operator. */
static void torn_tell(struct local *l)
{
    struct journal_torn torn = journal_torn(l->journal);
    struct err_note why = {""};
    char name[JOURNAL_TORN_NAME_BYTES];
    if (torn.bytes == 0)
        return;
    torn_save(l, torn.bytes, name, &why);
    log_event(l->config.log, LOG_WARN, "journal_entry_incomplete", LOG_INT("segment", torn.segment),
              LOG_INT("offset", torn.at), LOG_INT("generation", torn.generation),
              LOG_INT("bytes", torn.bytes), LOG_INT("after_record", torn.after),
              LOG_TEXT("meaning", "the last entry of the journal is incomplete and is left out: it "
                                  "was being written when the server ended, and nothing in it was "
                                  "confirmed; or it was damaged later, and what it confirmed is "
                                  "lost"),
              LOG_TEXT(name[0] ? "saved_as" : "not_saved", name[0] ? name : why.text));
}

/* journal_begin rewrites a damaged copy of the key. A damaged sector may be the first of several,
 * so the operator is told. */
static int journal_start(struct local *l, struct err_note *note)
{
    bool damaged = journal_key_problem(l->journal) != NULL;
    int err = journal_begin(l->journal, note);
    if (!err && damaged && !journal_key_problem(l->journal))
        log_event(l->config.log, LOG_WARN, "journal_key_repaired",
                  LOG_TEXT("meaning", "one of the two copies in journal/key was damaged and has "
                                      "been written again from the other"),
                  LOG_TEXT("next", "check the disk"));
    return err;
}

static int journal_recover(struct local *l, struct files *files, struct err_note *note)
{
    const struct store_meta *meta = l->store->ops->meta(l->store);
    bool fresh = meta->journal_from < 0;
    struct journal_config config = {
        .files = files,
        .from = fresh ? meta->position : (uint64_t)meta->journal_from,
        .applied = meta->position,
        .segment_bytes = l->config.journal_segment_bytes,
        .bytes_max = l->config.journal_bytes_max,
    };
    struct replay replay = {
        .engine = gate_engine(l->gate), .config = &l->config, .told_ns = clock_ns()};
    memcpy(config.store_id, meta->store_id, sizeof(config.store_id));
    int err = journal_open(&config, replay_cb, &replay, &l->journal, note);
    if (!err && replay.records > 0)
        log_event(l->config.log, LOG_INFO, "journal_replayed", LOG_INT("records", replay.records));
    if (!err)
        torn_tell(l);
    if (!err)
        err = journal_torn_count(files, &l->torn_files, note);
    if (!err)
        err = journal_start(l, note);
    /* Before anything is in it: from now on a missing journal is a loss. */
    if (!err && fresh)
        err = l->store->ops->journal_begun(l->store, note);
    return err;
}

/* The helper thread does not run yet, and the last entry may have filled its segment. */
static int boot_append(struct local *l, struct err_note *note)
{
    bool more = true;
    int err;
    while ((err = journal_append(l->journal, l->frames, l->frame_count, note)) == -ERR_NO_SPACE &&
           more) {
        err = journal_provide(l->journal, &more, note);
        if (err)
            break;
    }
    return err;
}

/* Commits the frame that increases the epoch, on this thread. */
static int journal_boot(struct local *l, struct err_note *note)
{
    int err = gate_boot(l->gate, local_now(l));
    if (!err)
        err = boot_append(l, note);
    l->frame_count = 0;
    if (err)
        return err;
    gate_durable(l->gate, journal_position(l->journal), local_now(l));
    return 0;
}

/* --- threads --- */

static int reader_begin(struct local *l, struct reader **ret, struct err_note *note)
{
    struct store_reader *from;
    int err = l->store->ops->reader_open(l->store, &from, note);
    if (err)
        return err;
    err = reader_start(from, local_wake_loop, l, ret);
    if (err)
        from->ops->close(from);
    return err;
}

static void synced_cb(void *ctx, uint64_t position, uint64_t bytes)
{
    struct local *l = ctx;
    applier_synced(l->applier, position, bytes);
}

static uint64_t room_cb(void *ctx)
{
    return disk_reserve_room(((struct local *)ctx)->reserve);
}

/* The threads wake the loop only after they have been given work. */
static int threads_start(struct local *l, struct err_note *note)
{
    struct applier_config applier = {.store = l->store,
                                     .journal = l->journal,
                                     .reserve = l->reserve,
                                     .log = l->config.log,
                                     .ctx = l,
                                     .notify = local_wake_loop};
    struct writer_config writer = {.journal = l->journal,
                                   .log = l->config.log,
                                   .ctx = l,
                                   .notify = local_wake_loop,
                                   .synced = synced_cb,
                                   .room = room_cb,
                                   .segment_bytes = l->config.journal_segment_bytes
                                                        ? l->config.journal_segment_bytes
                                                        : JOURNAL_SEGMENT_BYTES};
    int err = reader_begin(l, &l->reader, note);
    if (!err)
        err = reader_begin(l, &l->lister, note);
    if (!err)
        err = applier_start(&applier, &l->applier);
    return err ? err : writer_start(&writer, &l->writer);
}

static int open_all(struct local *l, struct files *files, struct err_note *note)
{
    int err = engine_fill(l, true, note);
    if (err) {
        files->ops->done(files);
        return err;
    }
    l->applied = l->store->ops->meta(l->store)->position;
    gate_applied(l->gate, l->applied);
    err = journal_recover(l, files, note);
    if (!err)
        err = journal_boot(l, note);
    if (!err)
        err = local_handles_open(l);
    return err ? err : threads_start(l, note);
}

int backend_open_on_store(struct store *store, struct files *files, struct disk_reserve *reserve,
                          const struct backend_config *config, struct backend **ret,
                          struct err_note *note)
{
    struct local *l;
    int err = local_new(config, &local_ops, &l);
    if (err) {
        store->ops->close(store);
        files->ops->done(files);
        disk_reserve_close(reserve);
        return err;
    }
    l->store = store;
    l->reserve = reserve;
    err = open_all(l, files, note);
    if (err) {
        local_abandon(l);
        return err;
    }
    *ret = &l->base;
    return 0;
}

/* --- directories --- */

/* The journal's directory must exist if the store says that it has a journal. */
static int journal_dir(const char *dir, const struct store_meta *meta, struct files **ret,
                       struct err_note *note)
{
    struct buf path;
    buf_init(&path);
    int err = buf_printf(&path, "%s/journal", dir);
    if (!err)
        err = files_open_dir(path.data, meta->journal_from < 0, false, ret, note);
    if (err == -ERR_NOT_FOUND) {
        err = -ERR_CORRUPT;
        (void)err_note_set(note, err,
                           "%s/journal is missing; it holds what happened after record %" PRIu64
                           ": put it back, or restore a backup (holdfast restore)",
                           dir, meta->position);
    }
    buf_done(&path);
    return err;
}

/* A full disk must not prevent the server from starting: then the reserve file is removed. */
static int store_open(const char *dir, const struct backend_config *config,
                      struct disk_reserve *reserve, struct store **ret, struct err_note *note)
{
    struct wall_time now = clock_now(&config->clock).wall;
    int err = store_open_sqlite(dir, now, ret, note);
    if (err == -ERR_NO_SPACE && disk_reserve_remove(reserve))
        err = store_open_sqlite(dir, now, ret, note);
    if (!err)
        (*ret)->log = config->log;
    return err;
}

int backend_open_local(const char *dir, const struct backend_config *config, struct backend **ret,
                       struct err_note *note)
{
    struct store *store = NULL;
    struct files *files = NULL;
    struct disk_reserve *reserve = NULL;
    int err = disk_reserve_open(dir, DISK_RESERVE_BYTES, &reserve);
    if (!err)
        err = store_open(dir, config, reserve, &store, note);
    if (!err && backup_leftovers_remove(dir) > 0)
        log_event(config->log, LOG_INFO, "unfinished_backup_removed");
    if (!err)
        err = journal_dir(dir, store->ops->meta(store), &files, note);
    if (!err)
        return backend_open_on_store(store, files, reserve, config, ret, note);
    if (store)
        store->ops->close(store);
    disk_reserve_close(reserve);
    return err;
}

/* --- memory --- */

#define MEMORY_EPOCHS ((uint64_t)1 << 22) /* the id of an event has 24 bits for it */

/* The memory store cannot remember its epoch. A random epoch prevents tokens and event ids of an
 * earlier process from being valid in this one. */
static void draw_epoch(struct local *l, uint64_t seed)
{
    struct random random;
    random_seed(&random, seed);
    if (!l->config.seed)
        store_memory_set_epoch(l->store, (uint32_t)random_below(&random, MEMORY_EPOCHS));
}

/* Applies the frame of the boot at once. */
static int memory_start(struct local *l, struct err_note *note)
{
    int err = engine_fill(l, false, note);
    if (!err)
        err = gate_boot(l->gate, local_now(l));
    if (!err)
        gate_durable(l->gate, l->applied, local_now(l));
    return err ? err : local_handles_open(l);
}

int backend_open_memory(const struct backend_config *config, struct backend **ret,
                        struct err_note *note)
{
    struct local *l;
    uint64_t seed;
    int err = local_new(config, &memory_ops, &l);
    if (err)
        return err;
    err = seed_of(config, &seed);
    if (!err)
        err = store_open_memory(seed, &l->store);
    if (!err)
        draw_epoch(l, seed);
    if (!err)
        err = l->store->ops->reader_open(l->store, &l->direct, note);
    if (!err)
        err = memory_start(l, note);
    if (err) {
        local_free(l);
        return err;
    }
    *ret = &l->base;
    return 0;
}
