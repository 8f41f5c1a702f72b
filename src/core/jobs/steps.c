/* SPDX-License-Identifier: Apache-2.0 */
#include "core/jobs/steps.h"

#include <string.h>

#include "base/json/json.h"
#include "core/records/wire.h"
#include "core/validate.h"

int step_name_check(struct span name, struct err_note *note)
{
    if (name.len == 0 || name.len > LIMIT_STEP_NAME_BYTES)
        return err_note_set(note, -ERR_INVALID, "the name of a step must have 1 to %d bytes",
                            LIMIT_STEP_NAME_BYTES);
    for (size_t i = 0; i < name.len; i++)
        if ((unsigned char)name.at[i] < 0x20 || name.at[i] == 0x7f)
            return err_note_set(note, -ERR_INVALID,
                                "the name of a step must not have control characters");
    if (span_equal(name, SPAN_LITERAL(".")) || span_equal(name, SPAN_LITERAL("..")))
        return err_note_set(note, -ERR_INVALID,
                            "the name of a step must not be . or .., which many clients remove "
                            "from URLs");
    return validate_text("the name of a step", name, LIMIT_STEP_NAME_BYTES, note);
}

/* ---- lists ---- */

int steps_append(struct buf *list, const struct step *s)
{
    int err = buf_reserve(list, 2 * WIRE_LENGTH + s->name.len + s->result.len);
    if (err < 0)
        return err;
    buf_put_varint(list, s->name.len);
    buf_put_bytes(list, s->name.at, s->name.len);
    buf_put_varint(list, s->result.len);
    buf_put_bytes(list, s->result.at, s->result.len);
    return 0;
}

bool steps_next(struct span *list, struct step *ret)
{
    struct wire_in in = {*list, false};
    if (list->len == 0)
        return false;
    ret->name = take_span(&in);
    ret->result = take_span(&in);
    if (in.bad)
        return false;
    *list = in.rest;
    return true;
}

int steps_put(struct buf *list, const struct step *s)
{
    struct span rest = buf_span(list);
    struct step is;
    size_t at = 0, end = 0; /* what it replaces */
    int order = -1;
    while (order < 0 && steps_next(&rest, &is)) {
        order = span_order(is.name, s->name);
        end = order <= 0 ? list->len - rest.len : at;
        at = order < 0 ? end : at;
    }
    struct buf fresh;
    buf_init(&fresh);
    int err = steps_append(&fresh, s);
    if (err == 0)
        err = buf_reserve(list, fresh.len);
    if (err == 0) {
        memmove(list->data + at + fresh.len, list->data + end, list->len - end);
        memcpy(list->data + at, fresh.data, fresh.len);
        list->len += fresh.len - (end - at);
    }
    buf_done(&fresh);
    return err;
}

static bool step_fits(const struct step *s)
{
    return step_name_check(s->name, NULL) == 0 && s->result.len > 0 &&
           s->result.len <= LIMIT_STEP_RESULT_BYTES;
}

bool steps_fit(struct span list)
{
    struct step s;
    size_t count = 0, bytes = 0;
    bool any = list.len > 0;
    while (list.len > 0) {
        if (!steps_next(&list, &s) || !step_fits(&s))
            return false;
        count++;
        bytes += s.name.len + s.result.len;
    }
    return any && count <= LIMIT_STEPS && bytes <= LIMIT_STEPS_BYTES;
}

int steps_check(struct span list, struct err_note *note)
{
    struct step s;
    if (list.len > 0 && !steps_fit(list))
        return err_note_set(
            note, -ERR_INVALID,
            "steps must be at most %d names of 1 to %d bytes, each with a result of "
            "at most %d bytes of JSON, and have at most %d bytes in all",
            LIMIT_STEPS, LIMIT_STEP_NAME_BYTES, LIMIT_STEP_RESULT_BYTES, LIMIT_STEPS_BYTES);
    while (steps_next(&list, &s))
        if (json_check(s.result, NULL, NULL) != 0)
            return err_note_set(note, -ERR_INVALID, "the result of a step must be JSON");
    return 0;
}

size_t steps_count(struct span list)
{
    struct step s;
    size_t count = 0;
    while (steps_next(&list, &s))
        count++;
    return count;
}

/* ---- the index ---- */

/* Eight bytes of the hash, and four of the number of bytes. */
static uint64_t entry_hash(const char *at)
{
    uint64_t hash;
    memcpy(&hash, at, sizeof hash);
    return le64toh(hash);
}

static uint32_t entry_bytes(const char *at)
{
    uint32_t bytes;
    memcpy(&bytes, at + 8, sizeof bytes);
    return le32toh(bytes);
}

struct steps_use steps_use_without(struct span index, struct hash_key key, struct span name)
{
    struct steps_use use = {0, 0};
    uint64_t hash = hash128_of(key, name).hi;
    for (size_t at = 0; at + STEP_INDEX_BYTES <= index.len; at += STEP_INDEX_BYTES) {
        if (entry_hash(index.at + at) == hash)
            continue;
        use.count++;
        use.bytes += entry_bytes(index.at + at);
    }
    return use;
}

uint64_t steps_bytes(struct span index)
{
    uint64_t bytes = 0;
    for (size_t at = 0; at + STEP_INDEX_BYTES <= index.len; at += STEP_INDEX_BYTES)
        bytes += entry_bytes(index.at + at);
    return bytes;
}

size_t steps_index_put(char *index, size_t len, struct hash_key key, struct span name,
                       size_t result_bytes)
{
    uint64_t hash = hash128_of(key, name).hi, stored = htole64(hash);
    uint32_t bytes = htole32((uint32_t)(name.len + result_bytes));
    size_t at = 0;
    while (at < len && entry_hash(index + at) != hash)
        at += STEP_INDEX_BYTES;
    memcpy(index + at, &stored, sizeof stored);
    memcpy(index + at + sizeof stored, &bytes, sizeof bytes);
    return at < len ? len : len + STEP_INDEX_BYTES;
}

size_t steps_index_add(char *index, size_t len, struct hash_key key, struct span list)
{
    struct step s;
    while (steps_next(&list, &s))
        len = steps_index_put(index, len, key, s.name, s.result.len);
    return len;
}

bool steps_index_fits(struct span index)
{
    return index.len % STEP_INDEX_BYTES == 0 && index.len / STEP_INDEX_BYTES <= LIMIT_STEPS &&
           steps_bytes(index) <= LIMIT_STEPS_BYTES;
}
