/* SPDX-License-Identifier: Apache-2.0 */
/* A reply, and all that a store holds, as text.
 *
 * TELLS compares every member of a reply that the contract speaks of, also those that must be
 * empty; so a backend that fills one member more, or one less, fails. UNCHANGED compares queues,
 * jobs, keys, schedules, alerts and notices with what they were: a refusal changes nothing. */
#pragma once

#include "conform/conform.h"

/* From now on the job is told by this name. */
void name_job(struct env *e, const char *name, uint64_t seq);

/* The outcome; its note; then what is not empty: job and state, run_at from now on, flags, counts,
 * queue, worker. "refused: duplicate job=a ready". */
const char *tell(struct env *e, const struct reply *r);
#define TELLS(reply, text) expect_tells(e, __FILE__, __LINE__, (reply), (text))
void expect_tells(struct env *e, const char *file, int line, const struct reply *r,
                  const char *text);
/* What `good`, with one member changed, is answered. */
#define WITH(member, value, text)                                                                  \
    do {                                                                                           \
        struct op op_ = good;                                                                      \
        op_.member = (value);                                                                      \
        TELLS(run(e, op_), text);                                                                  \
    } while (0)

/* All objects that can be listed, as text. */
const char *world(struct env *e);
#define UNCHANGED(before) expect_same(e, __FILE__, __LINE__, (before), world(e))
void expect_same(struct env *e, const char *file, int line, const char *before, const char *after);

/* A text, or a JSON string, of this many bytes. */
struct span text_of(struct env *e, size_t bytes);
struct span json_of(struct env *e, size_t bytes);

/* A store of this kind may differ here, and does: says so beside the case's result. */
bool known_difference(struct env *e, const char *store, bool differs, const char *what);

/* Texts that no store takes. */
#define BAD_UTF8 SPAN_LITERAL("a\xff")
#define WITH_NUL ((struct span){"a\0b", 3})
