/* SPDX-License-Identifier: Apache-2.0 */
/* C11: keys and the jobs they were written with. */
#include "sim/checker/keeps.h"
#include "sim/clients/keeper.h"

/* ---- the key of each commit, and the job that came with it ------------------------- */

const struct hist_kv *keeps_key(const struct keeps *k, enum keeper_key kind, uint32_t number)
{
    struct span key = keeper_key_of((struct pool *)(uintptr_t)&k->pool, kind, number);
    for (size_t i = k->drained; i < k->h->count; i++) {
        const struct hist_entry *e = &k->h->entries[i];
        for (uint32_t n = 0; keeps_ok(e, OP_KV_GET) && n < e->kv_count; n++)
            if (span_equal(e->kvs[n].key, key))
                return &e->kvs[n];
    }
    return NULL;
}

const struct hist_job *keeps_job_with(const struct keeps *k, struct span payload, unsigned *count)
{
    const struct hist_job *found = NULL;
    *count = 0;
    for (size_t i = 0; i < k->end_count; i++)
        if (span_equal(k->end[i]->payload, payload)) {
            found = k->end[i];
            ++*count;
        }
    return found;
}

/* What a job leaves at its key, if it dies. */
static void check_left(struct keeps *k, size_t at, const struct hist_job *j)
{
    const struct hist_entry *e = &k->h->entries[at];
    const struct hist_kv *left = keeps_key(k, KEY_LEFT, e->call);
    bool there = left && left->found;
    bool owes =
        j && j->job.state == STATE_DEAD && e->op.kv_commit.enqueues[0].extra.undelivered.len > 0;
    uint64_t seq = j ? j->job.seq : 0;
    if (owes && !there)
        keeps_blame(k, CHECK_C11, seq, at, "job %llu died and did not leave its key",
                    (unsigned long long)seq);
    if (there && !owes)
        keeps_blame(k, CHECK_C11, seq, at, "job %llu left its key and did not die",
                    (unsigned long long)seq);
    if (there && owes && !span_equal(left->value, j->payload))
        keeps_blame(k, CHECK_C11, seq, at, "job %llu left another payload at its key",
                    (unsigned long long)seq);
}

static void check_commit(struct keeps *k, size_t at)
{
    const struct hist_entry *e = &k->h->entries[at];
    const struct op_kv_commit *op = &e->op.kv_commit;
    const struct hist_kv *own = keeps_key(k, KEY_COMMIT, e->call);
    bool there = own && own->found;
    unsigned jobs = 0;
    const struct hist_job *j =
        op->enqueue_count ? keeps_job_with(k, op->enqueues[0].payload, &jobs) : NULL;
    if (jobs > 1)
        keeps_blame(k, CHECK_C11, j->job.seq, at, "commit %u made %u jobs", e->call, jobs);
    if (op->enqueue_count && there != (j != NULL))
        keeps_blame(k, CHECK_C11, j ? j->job.seq : 0, at, "commit %u left its %s alone", e->call,
                    there ? "key" : "job");
    if (keeps_ok(e, OP_KV_COMMIT)) {
        if (!there || own->version != e->reply.version)
            keeps_blame(k, CHECK_C11, 0, at, "commit %u was answered, and its key is %s", e->call,
                        there ? "another" : "not there");
        if (op->enqueue_count && j && e->enqueued[0].seq != j->job.seq)
            keeps_blame(k, CHECK_C11, j->job.seq, at, "commit %u named another job", e->call);
    }
    if (op->enqueue_count)
        check_left(k, at, j);
}

/* ---- keys that all of them set --------------------------------------------------------------- */

/* An answer that told of the key: a commit happens in the order of the entries, a read at some time
 * between its request and its answer. */
struct told {
    size_t entry;
    int64_t until; /* mono; it had happened then */
    bool found;
    uint64_t version;
};

static bool tells(const struct hist_entry *e, struct span key, struct told *ret)
{
    for (uint32_t i = 1; keeps_ok(e, OP_KV_COMMIT) && i < e->op.kv_commit.set_count; i++)
        if (span_equal(e->op.kv_commit.sets[i].key, key)) {
            *ret = (struct told){.until = e->mono, .found = true, .version = e->reply.version};
            return true;
        }
    for (uint32_t i = 0; keeps_ok(e, OP_KV_GET) && i < e->kv_count; i++)
        if (span_equal(e->kvs[i].key, key)) {
            *ret = (struct told){0, e->replied_mono, e->kvs[i].found, e->kvs[i].version};
            return true;
        }
    return false;
}

/* Somebody may have deleted it after one answer and before the other. */
static bool may_be_gone(const struct keeps *k, struct span key, const struct told *was,
                        const struct told *is)
{
    for (size_t i = was->entry; i < k->h->count && k->h->entries[i].mono <= is->until; i++) {
        const struct hist_entry *e = &k->h->entries[i];
        if (e->kind == HIST_OP && e->apart && e->op.kind == OP_KV_COMMIT && !keeps_refused(e) &&
            e->op.kv_commit.delete_count > 0 && span_equal(e->op.kv_commit.deletes[0], key))
            return true;
    }
    return false;
}

static void compare(struct keeps *k, struct span key, const struct told *was, const struct told *is)
{
    bool before = k->h->entries[is->entry].mono > was->until ||
                  (was->entry < is->entry && k->h->entries[was->entry].op.kind == OP_KV_COMMIT);
    if (!was->found || !before)
        return;
    if (!is->found && !may_be_gone(k, key, was, is))
        keeps_blame(k, CHECK_C11, 0, is->entry, "a key of version %llu is gone",
                    (unsigned long long)was->version);
    if (is->found && is->version < was->version)
        keeps_blame(k, CHECK_C11, 0, is->entry, "a key went back from version %llu to %llu",
                    (unsigned long long)was->version, (unsigned long long)is->version);
}

/* The value shown is that of the commit which got this version. Of a hand-off the history does not
 * have the version. */
static void check_value(struct keeps *k, size_t at, const struct hist_kv *kv)
{
    bool known = false, possible = false;
    for (size_t i = 0; i < k->h->count && k->h->entries[i].mono <= k->h->entries[at].replied_mono;
         i++) {
        const struct hist_entry *e = &k->h->entries[i];
        const struct op_kv_commit *c = e->kind == HIST_OP ? op_commit(&e->op) : NULL;
        if (!c || c->jobs_alone || keeps_refused(e))
            continue;
        bool same = span_equal(c->sets[0].value, kv->value);
        if (keeps_ok(e, OP_KV_COMMIT) && e->reply.version == kv->version) {
            known = true;
            possible = same;
        } else if (!known) {
            possible = possible || same;
        }
    }
    if (!possible)
        keeps_blame(k, CHECK_C11, 0, at, "version %llu of a key has another value",
                    (unsigned long long)kv->version);
}

static void check_values(struct keeps *k)
{
    for (size_t i = 0; i < k->h->count; i++) {
        const struct hist_entry *e = &k->h->entries[i];
        bool shows = (keeps_ok(e, OP_KV_GET) || keeps_ok(e, OP_KV_LIST)) && i < k->drained;
        for (uint32_t n = 0; shows && n < e->kv_count; n++)
            if (e->kvs[n].found && e->kvs[n].value.len > 0 && e->kvs[n].key.at[1] != KEY_LEFT)
                check_value(k, i, &e->kvs[n]);
    }
}

static void check_shared(struct keeps *k, uint32_t number)
{
    struct span key = keeper_key_of(&k->pool, KEY_SHARED, number);
    struct told *all = NULL, t;
    size_t count = 0, room = 0;
    for (size_t i = 0; i < k->h->count; i++) {
        if (!tells(&k->h->entries[i], key, &t))
            continue;
        t.entry = i;
        for (size_t n = 0; n < count; n++)
            compare(k, key, &all[n], &t);
        all = vec_room(all, &room, count + 1, sizeof(*all));
        all[count++] = t;
    }
    vec_free(all);
}

/* ---- notes ----------------------------------------------------------------------------------- */

/* The label of the last note that was answered, or of one after it that was not. */
static void check_label(struct keeps *k, const struct hist_job *j)
{
    struct span sure = {NULL, 0};
    bool right = false;
    size_t at = 0;
    for (size_t i = 0; i < k->h->count; i++) {
        const struct hist_entry *e = &k->h->entries[i];
        if (e->kind != HIST_OP || !e->apart || e->op.kind != OP_NOTE || keeps_refused(e) ||
            e->op.note.job.seq != j->job.seq)
            continue;
        if (keeps_ok(e, OP_NOTE)) {
            sure = e->op.note.label;
            right = false;
            at = i;
        } else {
            right = right || span_equal(e->op.note.label, j->label);
        }
    }
    if (!right && !span_equal(sure, j->label))
        keeps_blame(k, CHECK_C11, j->job.seq, at, "job %llu has not the label that was noted last",
                    (unsigned long long)j->job.seq);
}

void keeps_keys(struct keeps *k)
{
    for (size_t i = 0; i < k->drained; i++)
        if (k->h->entries[i].kind == HIST_OP && k->h->entries[i].op.kind == OP_KV_COMMIT &&
            !k->h->entries[i].op.kv_commit.jobs_alone)
            check_commit(k, i);
    for (uint32_t i = 0; i < KEEPER_SHARED; i++)
        check_shared(k, i);
    check_values(k);
    for (size_t i = 0; i < k->end_count; i++)
        check_label(k, k->end[i]);
}
