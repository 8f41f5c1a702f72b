/* SPDX-License-Identifier: Apache-2.0 */
/* The table of a job's texts: the members of struct job_texts. Records, stores, copies, filters,
 * JSON, SQL and options of commands go through the rows, in this order, which is the one on disk: a
 * new text is a member of struct job_texts and a row at the end.
 *
 * Columns: member; name in messages and in JSON; column of the stores; bytes at most; kind: TEXT,
 * HEADERS (an object, core/jobs/headers.h) or OWN (JSON of an API, which no client gives directly);
 * whether events show it; short option, value, noun and help of the commands.
 *
 * A new row changes three formats, whose numbers must be raised: STORE_FORMAT
 * (sqlite/store_sqlite.h), PG_SCHEMA_VERSION (postgres/sql/version.h), and of Redis both
 * ROW_VERSION (redis/unit/row.h) and REDIS_FORMAT (redis/connection/handshake.h). The filter of
 * bulk actions does not come from the table: struct op_bulk and struct rec_bulk_begin name the
 * texts by which it selects. "To add a text of a job" in ARCHITECTURE.md has the whole list. */
#pragma once

#include <stddef.h>
#include <string.h>

#include "base/err.h"
#include "core/jobs/job.h"
#include "core/limits.h"

#define JOB_TEXT_TABLE(X)                                                                          \
    X(unique, "unique", unique_key, LIMIT_KEY_BYTES, TEXT, false, 'u', "KEY", "unique key",        \
      "at most one live job with this key")                                                        \
    X(group, "group", group_key, LIMIT_KEY_BYTES, TEXT, false, 'g', "NAME", "group",               \
      "group of the job")                                                                          \
    X(correlation, "correlation_id", correlation, LIMIT_KEY_BYTES, TEXT, true, 0, "ID",            \
      "correlation id", "a text that is passed to the worker and shown in events")                 \
    X(label, "priority_label", label, LIMIT_LABEL_BYTES, TEXT, false, 0, "TEXT", "priority label", \
      "a label that is shown with the priority (default: that of --priority)")                     \
    X(attributes, "attributes", attributes, LIMIT_ATTRIBUTES_BYTES, OWN, false, 0, "", "", "")     \
    X(kind, "kind", kind, LIMIT_KIND_BYTES, TEXT, true, 0, "KIND", "kind",                         \
      "the kind of work; it is passed to the worker and shown in events")                          \
    X(headers, "headers", headers, LIMIT_HEADERS_BYTES, HEADERS, true, 'H', "NAME=VALUE",          \
      "headers", "a header that is passed to the worker; may be repeated")

enum job_text_kind { JOB_TEXT_TEXT, JOB_TEXT_HEADERS, JOB_TEXT_OWN };

struct job_text {
    const char *name;
    size_t max;
    enum job_text_kind kind;
    bool in_events;
};

#define JOB_TEXT_INDEX(member, ...) JOB_TEXT_INDEX_##member,
enum { JOB_TEXT_TABLE(JOB_TEXT_INDEX) JOB_TEXTS };
#undef JOB_TEXT_INDEX

extern const struct job_text job_texts[JOB_TEXTS];

/* x: a struct job_texts, or a struct that begins with one. Its members are spans in the order of
 * the rows, so row i is member i: loops over the rows compile to a few instructions. */
static inline struct span *job_text_at(void *x, size_t i)
{
    return (struct span *)x + i;
}

static inline struct span job_text_of(const void *x, size_t i)
{
    return ((const struct span *)x)[i];
}

/* Bytes of all of them together. */
static inline size_t job_texts_bytes(const void *x)
{
    const struct job_texts *t = x;
    size_t bytes = 0;
#define JOB_TEXT_LEN(member, ...) bytes += t->member.len;
    JOB_TEXT_TABLE(JOB_TEXT_LEN)
#undef JOB_TEXT_LEN
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
/* The same for bytes that this process has written with job_extra_put and kept in memory: the
 * content is not checked again. */
void job_extra_view(struct span bytes, struct job_extra *ret);
