/* SPDX-License-Identifier: Apache-2.0 */
/* Backup and compacting of the store: requested on the loop thread and done on others. A backup
 * starts when the store has everything that was decided when it was requested; some of that may
 * have been acknowledged before it was durable (relaxed queues, claims). */
#include <unistd.h>

#include "backend/local/local_impl.h"

static struct local *local_at(struct backend *b)
{
    return (struct local *)b; /* only the functions of its own table are called with it */
}

/* ---- backup ---- */

int local_backup(struct backend *b, const struct backup_request *request, struct err_note *note)
{
    struct local *l = local_at(b);
    if (l->closing)
        return err_note_set(note, -ERR_CLOSED, "the server is shutting down");
    if (l->backup)
        return err_note_set(note, -ERR_LOCKED,
                            "another backup is running; try again when it has ended");
    if (!l->store->ops->dir)
        return err_note_set(note, -ERR_INVALID, "this store keeps no files");
    if (backup_new(l->store->ops->dir(l->store), local_wake_loop, l, &l->backup) != 0)
        return err_note_set(note, -ERR_NOMEM, "out of memory");
    l->backup_for = *request;
    l->backup_need = engine_position(gate_engine(l->gate));
    applier_want(l->applier, l->backup_need);
    local_wake_loop(l);
    return 0;
}

static void backup_end(struct local *l, const struct backup_result *result)
{
    struct backup *b = l->backup;
    struct backup_request request = l->backup_for;
    l->backup = NULL;
    l->backup_need = 0;
    l->backup_for = (struct backup_request){NULL, NULL};
    if (request.done)
        request.done(request.ctx, result);
    else if (result->fd >= 0)
        close(result->fd);
    backup_free(b);
}

void local_backup_cancel(struct backend *b)
{
    static const struct backup_result cut = {.error = -ERR_CLOSED, .note = "cut short", .fd = -1};
    struct local *l = local_at(b);
    l->backup_for = (struct backup_request){NULL, NULL};
    if (l->backup && l->backup_need)
        backup_end(l, &cut); /* its thread has not started, and may never start */
    else if (l->backup)
        backup_cancel(l->backup);
}

/* While the disk is full, the records that it waits for are not applied; the client should not wait
 * for them. */
static bool backup_blocked(struct local *l)
{
    struct writer_state written;
    struct applier_state swept;
    if (!l->backup_need || l->applied >= l->backup_need)
        return false;
    writer_state(l->writer, &written);
    applier_state(l->applier, &swept);
    return written.full || swept.full;
}

static void backup_go_on(struct local *l)
{
    static const struct backup_result full = {
        .error = -ERR_NO_SPACE,
        .note = "the disk is full: the journal cannot be applied to the store, and there is no "
                "space for a copy; free some space and try again",
        .fd = -1};
    struct backup_result result;
    if (backup_blocked(l)) {
        backup_end(l, &full);
        return;
    }
    if (l->backup_need && l->applied >= l->backup_need) {
        l->backup_need = 0;
        backup_run(l->backup);
    }
    if (backup_over(l->backup, &result))
        backup_end(l, &result);
}

/* ---- compacting ---- */

int local_compact(struct backend *b, const struct compact_request *request, struct err_note *note)
{
    struct local *l = local_at(b);
    if (l->closing)
        return err_note_set(note, -ERR_CLOSED, "the server is shutting down");
    if (l->compact_for.done)
        return err_note_set(note, -ERR_LOCKED, "the store is already being compacted");
    if (!l->store->ops->bytes)
        return err_note_set(note, -ERR_INVALID, "this store keeps no files");
    l->compact_for = *request;
    l->compact_before = l->store->ops->bytes(l->store);
    applier_compact(l->applier);
    return 0;
}

void local_compact_cancel(struct backend *b)
{
    struct local *l = local_at(b);
    l->compact_for = (struct compact_request){NULL, NULL};
    if (l->applier)
        applier_compact_end(l->applier);
}

static void compact_end(struct local *l, int error, const char *note)
{
    struct compact_request request = l->compact_for;
    struct compact_result result = {
        .error = error, .note = note, .bytes_before = l->compact_before};
    l->compact_for = (struct compact_request){NULL, NULL};
    result.bytes_after = l->store->ops->bytes(l->store);
    request.done(request.ctx, &result);
}

/* ---- both ---- */

void local_upkeep(struct local *l)
{
    struct applier_state state;
    if (l->backup)
        backup_go_on(l);
    if (!l->compact_for.done)
        return;
    applier_state(l->applier, &state);
    if (!state.compacting)
        compact_end(l, state.compact_error,
                    state.compact_error ? "the disk is full: compacting needs a little free space"
                                        : "");
}

void local_upkeep_end(struct local *l)
{
    static const struct backup_result cut = {
        .error = -ERR_CLOSED, .note = "the server is shutting down", .fd = -1};
    if (l->backup)
        backup_end(l, &cut);
    if (l->compact_for.done)
        compact_end(l, cut.error, cut.note);
}

void local_upkeep_figures(const struct local *l, struct backend_figures *ret)
{
    struct applier_state state;
    applier_state(l->applier, &state);
    ret->compacting = state.compacting;
    ret->compact_left = state.compact_left;
    ret->store_bytes = l->store->ops->bytes ? l->store->ops->bytes(l->store) : 0;
    if (l->backup)
        backup_progress(l->backup, &ret->backup_pages, &ret->backup_total);
}
