/* SPDX-License-Identifier: Apache-2.0 */
#include "core/job_texts.h"

#include "base/containers/arena.h"
#include "base/json/json.h"
#include "core/headers.h"
#include "core/policy.h"
#include "core/records/wire.h"
#include "core/validate.h"

_Static_assert(offsetof(struct job_extra, unique) == 0, "job_text_at takes a struct job_extra");

#define ROW(member, name, column, max, kind, events, ...)                                          \
    {name, offsetof(struct job_texts, member), max, JOB_TEXT_##kind, events},
const struct job_text job_texts[JOB_TEXTS] = {JOB_TEXT_TABLE(ROW)};

int job_texts_check(const struct job_extra *x, struct err_note *note)
{
    int err = 0;
    for (size_t i = 0; err == 0 && i < JOB_TEXTS; i++) {
        struct span text = job_text_of(x, i);
        if (text.len > 0)
            err = validate_text(job_texts[i].name, text, job_texts[i].max, note);
        if (err == 0 && text.len > 0 && job_texts[i].kind == JOB_TEXT_HEADERS)
            err = headers_check(text, note);
    }
    return err;
}

int job_texts_keep(struct arena *arena, void *x)
{
    for (size_t i = 0; i < JOB_TEXTS; i++) {
        struct span *text = job_text_at(x, i);
        if (text->len > 0 && !(text->at = arena_copy(arena, text->at, text->len)))
            return -ERR_NOMEM;
    }
    return 0;
}

void job_texts_write(struct json_writer *w, const void *x, bool in_events)
{
    for (size_t i = 0; i < JOB_TEXTS; i++) {
        const struct job_text *row = &job_texts[i];
        struct span text = job_text_of(x, i);
        if (text.len == 0 || row->kind == JOB_TEXT_OWN || (in_events && !row->in_events))
            continue;
        json_write_key(w, row->name);
        if (row->kind == JOB_TEXT_HEADERS)
            json_write_raw(w, text);
        else
            json_write_text(w, text);
    }
}

/* ---- the stored form ---- */

/* What most jobs with any of it have comes first: seven bits are one byte. */
#define HAS_EXPIRY 1u
#define HAS_OPTIONS 2u
#define HAS_TEXT(i) (4u << (i))
#define BITS_END HAS_TEXT(JOB_TEXTS)

static uint32_t extra_bits(const struct job_extra *x)
{
    uint32_t bits = (x->expires_at.ms ? HAS_EXPIRY : 0) | (x->options.len ? HAS_OPTIONS : 0);
    for (size_t i = 0; i < JOB_TEXTS; i++)
        bits |= job_text_of(x, i).len ? HAS_TEXT(i) : 0;
    return bits;
}

bool job_extra_present(const struct job_extra *x)
{
    return extra_bits(x) != 0;
}

bool job_extra_fits(const struct job_extra *x)
{
    for (size_t i = 0; i < JOB_TEXTS; i++) {
        if (job_text_of(x, i).len > job_texts[i].max)
            return false;
    }
    return x->options.len <= POLICY_BYTES_MAX && wall_fits(x->expires_at);
}

size_t job_extra_bytes_max(const struct job_extra *x)
{
    return WIRE_U32 + WIRE_WALL + (JOB_TEXTS + 1) * WIRE_LENGTH + job_texts_bytes(x) +
           x->options.len;
}

uint8_t *job_extra_put(uint8_t *at, const struct job_extra *x)
{
    uint32_t bits = extra_bits(x);
    at = put_varint(at, bits);
    if (bits & HAS_EXPIRY)
        at = put_wall(at, x->expires_at);
    if (bits & HAS_OPTIONS)
        at = put_span(at, x->options);
    for (size_t i = 0; i < JOB_TEXTS; i++)
        if (bits & HAS_TEXT(i))
            at = put_span(at, job_text_of(x, i));
    return at;
}

static struct span text_take(struct wire_in *in, const struct job_text *row)
{
    struct span text = row->kind == JOB_TEXT_TEXT ? take_text(in, row->max) : take_span(in);
    if (text.len == 0 || text.len > row->max)
        wire_spoil(in);
    return text;
}

void job_extra_take(struct wire_in *in, struct job_extra *ret)
{
    struct job_options options;
    uint32_t bits = (uint32_t)take_upto(in, BITS_END - 1);
    *ret = (struct job_extra){.expires_at = {0}};
    if (bits & HAS_EXPIRY)
        ret->expires_at = take_wall(in);
    if (bits & HAS_OPTIONS)
        ret->options = take_span(in);
    if (ret->options.len > 0 && options_decode(ret->options, &options) < 0)
        wire_spoil(in);
    for (size_t i = 0; i < JOB_TEXTS; i++)
        if (bits & HAS_TEXT(i))
            *job_text_at(ret, i) = text_take(in, &job_texts[i]);
    if (extra_bits(ret) != bits)
        wire_spoil(in);
}
