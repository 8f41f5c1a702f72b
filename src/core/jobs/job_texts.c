/* SPDX-License-Identifier: Apache-2.0 */
#include "core/jobs/job_texts.h"

#include "base/containers/arena.h"
#include "base/json/json.h"
#include "core/jobs/headers.h"
#include "core/queues/policy.h"
#include "core/records/wire.h"
#include "core/validate.h"

_Static_assert(offsetof(struct job_extra, unique) == 0, "job_text_at takes a struct job_extra");
_Static_assert(sizeof(struct job_texts) == JOB_TEXTS * sizeof(struct span),
               "each member of struct job_texts has a row");
#define IN_ORDER(member, ...)                                                                      \
    _Static_assert(offsetof(struct job_texts, member) ==                                           \
                       JOB_TEXT_INDEX_##member * sizeof(struct span),                              \
                   "the rows have the order of the members: " #member);
JOB_TEXT_TABLE(IN_ORDER)

#define ROW(member, name, column, max, kind, events, ...) {name, max, JOB_TEXT_##kind, events},
const struct job_text job_texts[JOB_TEXTS] = {JOB_TEXT_TABLE(ROW)};

static int text_check(const struct job_text *row, struct span text, struct err_note *note)
{
    int err = validate_text(row->name, text, row->max, note);
    if (err == 0 && row->kind == JOB_TEXT_HEADERS)
        err = headers_check(text, note);
    return err;
}

int job_texts_check(const struct job_extra *x, struct err_note *note)
{
    int err = 0;
    if (job_texts_bytes(x) == 0)
        return 0;
    for (size_t i = 0; err == 0 && i < JOB_TEXTS; i++)
        if (job_text_of(x, i).len > 0)
            err = text_check(&job_texts[i], job_text_of(x, i), note);
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

/* Runs several times for each job: the rows are written out, not looped over. */
static uint32_t extra_bits(const struct job_extra *x)
{
    uint32_t bits = (x->expires_at.ms ? HAS_EXPIRY : 0) | (x->options.len ? HAS_OPTIONS : 0);
#define BIT(member, ...) bits |= x->member.len ? HAS_TEXT(JOB_TEXT_INDEX_##member) : 0;
    JOB_TEXT_TABLE(BIT)
#undef BIT
    return bits;
}

bool job_extra_present(const struct job_extra *x)
{
    return (job_texts_bytes(x) | x->options.len | (uint64_t)x->expires_at.ms) != 0;
}

bool job_extra_fits(const struct job_extra *x)
{
    bool fits = x->options.len <= POLICY_BYTES_MAX && wall_fits(x->expires_at);
#define FITS(member, name, column, max, ...) fits = fits && x->member.len <= (max);
    JOB_TEXT_TABLE(FITS)
#undef FITS
    return fits;
}

size_t job_extra_bytes_max(const struct job_extra *x)
{
    return WIRE_U32 + WIRE_WALL + (JOB_TEXTS + 1) * WIRE_LENGTH + job_texts_bytes(x) +
           x->options.len;
}

/* The loops visit only the rows whose bits are set, from the lowest. */
#define TEXT_BITS(bits) ((bits) / HAS_TEXT(0))
#define LOWEST(bits) ((size_t)__builtin_ctz(bits))

uint8_t *job_extra_put(uint8_t *at, const struct job_extra *x)
{
    uint32_t bits = extra_bits(x);
    at = put_varint(at, bits);
    if (bits & HAS_EXPIRY)
        at = put_wall(at, x->expires_at);
    if (bits & HAS_OPTIONS)
        at = put_span(at, x->options);
    for (uint32_t left = TEXT_BITS(bits); left; left &= left - 1)
        at = put_span(at, job_text_of(x, LOWEST(left)));
    return at;
}

static uint32_t extra_read(struct wire_in *in, struct job_extra *ret)
{
    uint32_t bits = (uint32_t)take_upto(in, BITS_END - 1);
    *ret = (struct job_extra){.expires_at = {0}};
    if (bits & HAS_EXPIRY)
        ret->expires_at = take_wall(in);
    if (bits & HAS_OPTIONS)
        ret->options = take_span(in);
    for (uint32_t left = TEXT_BITS(bits); left; left &= left - 1)
        *job_text_at(ret, LOWEST(left)) = take_span(in);
    return bits;
}

static bool text_sound(const struct job_text *row, struct span text)
{
    return text.len > 0 && text.len <= row->max &&
           (row->kind != JOB_TEXT_TEXT || validate_text(row->name, text, row->max, NULL) == 0);
}

void job_extra_take(struct wire_in *in, struct job_extra *ret)
{
    struct job_options options;
    uint32_t bits = extra_read(in, ret);
    if (((bits & HAS_EXPIRY) && ret->expires_at.ms == 0) ||
        ((bits & HAS_OPTIONS) && options_decode(ret->options, &options) < 0))
        wire_spoil(in);
    for (uint32_t left = TEXT_BITS(bits); left; left &= left - 1)
        if (!text_sound(&job_texts[LOWEST(left)], job_text_of(ret, LOWEST(left))))
            wire_spoil(in);
}

void job_extra_view(struct span bytes, struct job_extra *ret)
{
    struct wire_in in = {.rest = bytes};
    extra_read(&in, ret);
    CHECK(wire_ended(&in));
}
