/* SPDX-License-Identifier: Apache-2.0 */
/* What the engine does for commits of the key-value store: room for their records, the records. */
#include "backend/local/engine/engine_impl.h"

static struct record set_record(const struct kv_set *s, uint64_t version)
{
    return (struct record){.kind = REC_KV_SET,
                           .kv_set = {.key = s->key,
                                      .version = version,
                                      .expires_at = s->expires_at,
                                      .kind = s->kind,
                                      .value = s->value}};
}

/* The keys that are there to be deleted, in scratch; count 0: none. */
static int gone_record(struct engine *e, const struct span *keys, uint32_t count,
                       struct record *ret)
{
    *ret = (struct record){.kind = REC_KV_GONE};
    buf_clear(&e->scratch);
    for (uint32_t i = 0; i < count; i++) {
        if (!kv_find(e, keys[i], NULL))
            continue;
        int err = record_span_append(&e->scratch, keys[i]);
        if (err)
            return err;
        ret->kv_gone.count++;
    }
    ret->kv_gone.keys = buf_span(&e->scratch);
    return 0;
}

int kv_commit_reserve(struct engine *e, const struct op_kv_commit *want, size_t *bytes)
{
    struct record rec;
    int err = 0;
    for (uint32_t i = 0; !err && i < want->set_count; i++) {
        rec = set_record(&want->sets[i], 1);
        *bytes += record_bytes_max(&rec);
        err = kv_reserve_text(e, want->sets[i].key);
    }
    if (!err)
        err = gone_record(e, want->deletes, want->delete_count, &rec);
    if (!err && rec.kv_gone.count > 0)
        *bytes += record_bytes_max(&rec);
    return err ? err : kv_reserve(e, want->set_count);
}

void kv_emit_set(struct engine *e, const struct kv_set *set, uint64_t version)
{
    struct record rec = set_record(set, version);
    engine_emit(e, &rec);
}

uint32_t kv_emit_gone(struct engine *e, const struct span *keys, uint32_t count, uint64_t version)
{
    struct record rec;
    CHECK(gone_record(e, keys, count, &rec) == 0); /* as large as when memory was reserved */
    rec.kv_gone.version = version;
    if (rec.kv_gone.count > 0)
        engine_emit(e, &rec);
    return rec.kv_gone.count;
}
