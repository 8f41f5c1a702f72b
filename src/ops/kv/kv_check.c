/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/kv/kv_check.h"

#include <stdlib.h>
#include <string.h>

#include "core/kvkey.h"
#include "core/limits.h"

static enum outcome wrong(const char **note, const char *text)
{
    *note = text;
    return OUT_INVALID;
}

enum outcome kv_body_right(uint8_t kind, struct span body, uint64_t max, const char **note)
{
    if (body.len > max)
        return OUT_TOO_BIG;
    if (kind > PAYLOAD_BYTES)
        return wrong(note, "the kind of a payload or result is none (0), json (1) or bytes (2)");
    if (kind == PAYLOAD_NONE && body.len > 0)
        return wrong(note, "a payload or result of no kind cannot have bytes");
    return OUT_OK;
}

enum outcome kv_keys_right(const struct span *keys, uint32_t count, const char **note)
{
    if (count > LIMIT_KV_KEYS)
        return wrong(note, "at most 1000 keys may be asked for at once");
    for (uint32_t i = 0; i < count; i++)
        if (kvkey_check(keys[i]) != 0)
            return wrong(note, "a key is none");
    return OUT_OK;
}

static int by_bytes(const void *a, const void *b)
{
    return span_order(*(const struct span *)a, *(const struct span *)b);
}

/* No key twice among sets and deletes: in which order would they be meant? */
static enum outcome keys_once(const struct op_kv_commit *want, struct arena *arena,
                              const char **note)
{
    size_t count = (size_t)want->set_count + want->delete_count;
    struct span *keys = arena_array(arena, count ? count : 1, sizeof(*keys));
    if (!keys)
        return OUT_UNAVAILABLE;
    for (uint32_t i = 0; i < want->set_count; i++)
        keys[i] = want->sets[i].key;
    for (uint32_t i = 0; i < want->delete_count; i++)
        keys[want->set_count + i] = want->deletes[i];
    qsort(keys, count, sizeof(*keys), by_bytes);
    for (size_t i = 1; i < count; i++)
        if (span_order(keys[i - 1], keys[i]) == 0)
            return wrong(note, "a commit may set or delete a key only once");
    return OUT_OK;
}

static enum outcome sets_right(const struct op_kv_commit *want, const char **note)
{
    for (uint32_t i = 0; i < want->set_count; i++) {
        const struct kv_set *s = &want->sets[i];
        if (kvkey_check(s->key) != 0)
            return wrong(note, "a key is none");
        if (s->expires_at.ms < 0 || s->expires_at.ms > LIMIT_WALL_MS)
            return wrong(note, "expires_at must be a time before the year 10000");
        enum outcome out = kv_body_right(s->kind, s->value, LIMIT_PAYLOAD_BYTES, note);
        if (out != OUT_OK)
            return out;
    }
    return OUT_OK;
}

static enum outcome others_right(const struct op_kv_commit *want, const char **note)
{
    for (uint32_t i = 0; i < want->check_count; i++)
        if (kvkey_check(want->checks[i].key) != 0)
            return wrong(note, "a key is none");
    for (uint32_t i = 0; i < want->delete_count; i++)
        if (kvkey_check(want->deletes[i]) != 0)
            return wrong(note, "a key is none");
    for (uint32_t i = 0; i < want->enqueue_count; i++)
        if (want->enqueues[i].past)
            return wrong(note, "a commit cannot import jobs");
    return OUT_OK;
}

uint32_t kv_enqueues_max(const struct op_kv_commit *want)
{
    return want->jobs_alone ? LIMIT_BATCH + 1u : LIMIT_KV_ENQUEUES;
}

enum outcome kv_commit_right(const struct op_kv_commit *want, struct arena *arena,
                             const char **note)
{
    *note = NULL;
    if ((uint64_t)want->check_count + want->set_count + want->delete_count > LIMIT_KV_KEYS ||
        want->enqueue_count > kv_enqueues_max(want))
        return wrong(note,
                     "a commit may have at most 1000 checks, sets and deletes, and 100 enqueues");
    enum outcome out = others_right(want, note);
    if (out == OUT_OK)
        out = sets_right(want, note);
    return out == OUT_OK ? keys_once(want, arena, note) : out;
}
