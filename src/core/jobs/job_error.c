/* SPDX-License-Identifier: Apache-2.0 */
#include "core/jobs/job_error.h"

#include "core/validate.h"

#define SEPARATOR_BYTES (sizeof JOB_ERROR_SEPARATOR - 1)

/* The part before the first separator; *rest is the part after it. */
static struct span before_separator(struct span text, struct span *rest)
{
    const char *at =
        text.len > 0 ? memmem(text.at, text.len, JOB_ERROR_SEPARATOR, SEPARATOR_BYTES) : NULL;
    *rest = (struct span){NULL, 0};
    if (!at)
        return text;
    size_t len = (size_t)(at - text.at);
    *rest = span_of(at + SEPARATOR_BYTES, text.len - len - SEPARATOR_BYTES);
    return span_of(text.at, len);
}

static struct span part_cut(struct span text, size_t max)
{
    struct span rest;
    return validate_cut(before_separator(text, &rest), max);
}

struct job_error job_error_split(struct span packed)
{
    struct job_error e;
    struct span rest;
    e.text = before_separator(packed, &rest);
    e.type = before_separator(rest, &e.stack);
    return e;
}

static char *part_put(char *at, struct span part)
{
    memcpy(at, JOB_ERROR_SEPARATOR, SEPARATOR_BYTES);
    at += SEPARATOR_BYTES;
    if (part.len > 0)
        memcpy(at, part.at, part.len);
    return at + part.len;
}

int job_error_pack(const struct job_error *e, struct arena *arena, struct span *ret)
{
    struct span text = part_cut(e->text, LIMIT_ERROR_BYTES);
    struct span type = part_cut(e->type, LIMIT_ERROR_TYPE_BYTES);
    struct span stack = validate_cut(e->stack, LIMIT_STACK_BYTES);
    *ret = text;
    if (type.len == 0 && stack.len == 0)
        return 0;
    char *whole = arena_alloc(arena, text.len + type.len + stack.len + 2 * SEPARATOR_BYTES);
    if (!whole)
        return -ERR_NOMEM;
    if (text.len > 0)
        memcpy(whole, text.at, text.len);
    char *end = part_put(whole + text.len, type);
    if (stack.len > 0)
        end = part_put(end, stack);
    *ret = span_of(whole, (size_t)(end - whole));
    return 0;
}

struct span job_error_cut(struct span packed)
{
    struct job_error e = job_error_split(packed);
    if (e.text.len > LIMIT_ERROR_BYTES || e.type.len > LIMIT_ERROR_TYPE_BYTES)
        return validate_cut(e.text, LIMIT_ERROR_BYTES);
    return validate_cut(packed, packed.len - e.stack.len + LIMIT_STACK_BYTES);
}

int job_error_check(struct span packed, struct err_note *note)
{
    struct job_error e = job_error_split(packed);
    int err = validate_text("error", e.text, LIMIT_ERROR_BYTES, note);
    if (err == 0)
        err = validate_text("error_type", e.type, LIMIT_ERROR_TYPE_BYTES, note);
    return err ? err : validate_text("stack", e.stack, LIMIT_STACK_BYTES, note);
}
