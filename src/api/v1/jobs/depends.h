/* SPDX-License-Identifier: Apache-2.0 */
/* What a request says about the jobs on which a job depends. */
#pragma once

#include "api/fields/fields.h"
#include "api/v1/v1_impl.h"

/* The names of enum dependency_rule, in its order; ends with NULL. */
extern const char *const dependency_rules[];

/* Fills in op->depends from a list of ids; "#0", "#1" … are jobs of the same request, by index.
 * *ret_refs: whether the list has such a name. -ERR_INVALID with the problem set, also when the
 * store has no dependencies. */
MUST_CHECK int depends_take(const struct field_reader *r, struct texts_in parents, uint8_t rule,
                            struct op_enqueue *op, bool *ret_refs);
/* Whether the job that this JSON text describes names a job of the same request, even if it is not
 * a valid job. */
bool depends_has_refs(struct arena *arena, struct span text);
/* -ERR_INVALID with the problem set when the store has no dependencies. */
MUST_CHECK int depends_supported(const struct broker *b, struct problem *p, const char *field);
/* The members "on_dependency_failure" and "dependencies" of a job, and "waits_for" if the view has
 * it; nothing for a job that depends on no other. */
void depends_write(struct json_writer *w, const struct job_view *v);
/* Whether more dependencies can be added to the job. */
bool depends_open(const struct job_view *v);
/* The counts alone: an object. */
void depends_write_counts(struct json_writer *w, const struct job_view *v);
