/* SPDX-License-Identifier: Apache-2.0 */
/* The table of a job's texts: the members of struct job_texts. Records, stores, copies, filters,
 * JSON, SQL and options of commands go through the rows, in this order, which is the one on disk: a
 * new text is a member of struct job_texts and a row at the end.
 *
 * Columns: member; name in messages and in JSON; column of the stores; bytes at most; kind: TEXT,
 * HEADERS (an object, core/headers.h) or OWN (JSON of an API, which no client gives directly);
 * whether events show it; short option, value, noun and help of the commands. */
#pragma once

#include <stddef.h>
#include <string.h>

#include "base/err.h"
#include "core/job.h"
#include "core/limits.h"

#define JOB_TEXT_TABLE(X)                                                                          \
    X(unique, "unique", unique_key, LIMIT_KEY_BYTES, TEXT, false, 'u', "KEY", "unique key",        \
      "at most one live job with this key")                                                        \
    X(group, "group", group_key, LIMIT_KEY_BYTES, TEXT, false, 'g', "NAME", "group",               \
      "group of the job")                                                                          \
    X(correlation, "correlation_id", correlation, LIMIT_KEY_BYTES, TEXT, true, 0, "ID",            \
      "correlation id", "is passed to the worker and shown in events")                             \
    X(label, "priority_label", label, LIMIT_LABEL_BYTES, TEXT, false, 0, "TEXT", "priority label", \
      "shown with the priority; that of --priority high is high")                                  \
    X(attributes, "attributes", attributes, LIMIT_ATTRIBUTES_BYTES, OWN, false, 0, "", "", "")     \
    X(kind, "kind", kind, LIMIT_KIND_BYTES, TEXT, true, 0, "KIND", "kind",                         \
      "what sort of work the job is; passed to the worker and shown in events")                    \
    X(headers, "headers", headers, LIMIT_HEADERS_BYTES, HEADERS, true, 'H', "NAME=VALUE",          \
      "headers", "a header that is passed to the worker; may be repeated")

enum job_text_kind { JOB_TEXT_TEXT, JOB_TEXT_HEADERS, JOB_TEXT_OWN };

struct job_text {
    const char *name;
    size_t offset; /* in struct job_texts */
    size_t max;
    enum job_text_kind kind;
    bool in_events;
};

#define JOB_TEXT_BYTE(...) 0,
enum { JOB_TEXTS = sizeof((char[]){JOB_TEXT_TABLE(JOB_TEXT_BYTE)}) };
#undef JOB_TEXT_BYTE

extern const struct job_text job_texts[JOB_TEXTS];

/* x: a struct job_texts, or a struct that begins with one. */
static inline struct span *job_text_at(void *x, size_t i)
{
    return (struct span *)(void *)((char *)x + job_texts[i].offset);
}

static inline struct span job_text_of(const void *x, size_t i)
{
    return *(const struct span *)(const void *)((const char *)x + job_texts[i].offset);
}

/* Bytes of all of them together. */
static inline size_t job_texts_bytes(const void *x)
{
    size_t bytes = 0;
    for (size_t i = 0; i < JOB_TEXTS; i++)
        bytes += job_text_of(x, i).len;
    return bytes;
}

/* Whether each text that is there is valid and within its limit. JSON of an API is checked as a
 * text only. -ERR_INVALID, -ERR_TOO_BIG. */
MUST_CHECK int job_texts_check(const struct job_extra *x, struct err_note *note);
/* What is given replaces what is there; both as for job_text_at. */
static inline void job_texts_set(void *to, const void *from)
{
    memcpy(to, from, sizeof(struct job_texts));
}
struct json_writer;
/* The members of an object that is begun: those that are there, except an API's own; with
 * `in_events` only what events show. */
void job_texts_write(struct json_writer *w, const void *x, bool in_events);
/* Copies those that are there; -ERR_NOMEM. */
struct arena;
MUST_CHECK int job_texts_keep(struct arena *arena, void *x);

/* ---- the stored form of a struct job_extra, without `undelivered` ----
 *
 * A number whose bits say what is there, then that. Nothing is written for what is not there. */

struct wire_in;
/* Whether there is anything to write. */
bool job_extra_present(const struct job_extra *x);
/* Whether it could be read back. */
bool job_extra_fits(const struct job_extra *x);
/* An upper bound of its bytes. */
size_t job_extra_bytes_max(const struct job_extra *x);
uint8_t *job_extra_put(uint8_t *at, const struct job_extra *x);
/* Spans point into the input. Anything that job_extra_put would not write is bad. */
void job_extra_take(struct wire_in *in, struct job_extra *ret);
