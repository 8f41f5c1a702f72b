/* SPDX-License-Identifier: Apache-2.0 */
/* The table of a job's texts: the members of struct job_extra that are texts of a client. Records,
 * stores and copies walk through the rows, in this order, which is the one on disk: a new text is a
 * member of struct job_extra and a row at the end.
 *
 * Columns: member; name in messages and in JSON; column of the embedded store; bytes at most; kind,
 * TEXT or JSON (an object). */
#pragma once

#include <stddef.h>

#include "base/err.h"
#include "core/job.h"
#include "core/limits.h"

#define JOB_TEXT_TABLE(X)                                                                          \
    X(unique, "unique", unique_key, LIMIT_KEY_BYTES, TEXT)                                         \
    X(group, "group", group_key, LIMIT_KEY_BYTES, TEXT)                                            \
    X(correlation, "correlation_id", correlation, LIMIT_KEY_BYTES, TEXT)                           \
    X(label, "label", label, LIMIT_LABEL_BYTES, TEXT)                                              \
    X(attributes, "attributes", attributes, LIMIT_ATTRIBUTES_BYTES, JSON)

enum job_text_kind { JOB_TEXT_TEXT, JOB_TEXT_JSON };

struct job_text {
    const char *name;
    size_t offset; /* in struct job_extra */
    size_t max;
    enum job_text_kind kind;
};

#define JOB_TEXT_BYTE(member, name, column, max, kind) 0,
enum { JOB_TEXTS = sizeof((char[]){JOB_TEXT_TABLE(JOB_TEXT_BYTE)}) };
#undef JOB_TEXT_BYTE

extern const struct job_text job_texts[JOB_TEXTS];

static inline struct span *job_text_at(struct job_extra *x, size_t i)
{
    return (struct span *)(void *)((char *)x + job_texts[i].offset);
}

static inline struct span job_text_of(const struct job_extra *x, size_t i)
{
    return *(const struct span *)(const void *)((const char *)x + job_texts[i].offset);
}

/* Bytes of all of them together. */
static inline size_t job_texts_bytes(const struct job_extra *x)
{
    size_t bytes = 0;
    for (size_t i = 0; i < JOB_TEXTS; i++)
        bytes += job_text_of(x, i).len;
    return bytes;
}
/* Whether each text that is there is valid and within its limit. A JSON text is checked as a text
 * only. -ERR_INVALID, -ERR_TOO_BIG. */
MUST_CHECK int job_texts_check(const struct job_extra *x, struct err_note *note);
