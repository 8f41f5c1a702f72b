/* SPDX-License-Identifier: Apache-2.0 */
/* The error of an attempt: its message, and the class and stack of the exception if the worker gave
 * them.
 *
 * Records and stores contain the three as one text, so an error without class and stack is its
 * message and costs no more: message, U+FDD0, class, U+FDD0, stack; empty parts at the end are left
 * out with their separators. U+FDD0 is a noncharacter that Unicode reserves for use inside a
 * program; a message and a class end before it. */
#pragma once

#include "base/containers/arena.h"
#include "base/err.h"
#include "base/span.h"
#include "core/limits.h"

#define JOB_ERROR_SEPARATOR "\xef\xb7\x90"
#define JOB_ERROR_SEPARATOR_CODE 0xfdd0
#define JOB_ERROR_PACKED_MAX                                                                       \
    (LIMIT_ERROR_BYTES + LIMIT_ERROR_TYPE_BYTES + LIMIT_STACK_BYTES +                              \
     2 * (sizeof JOB_ERROR_SEPARATOR - 1))

struct job_error {
    struct span text, type, stack; /* empty = none */
};

/* Truncates parts that are too long; texts are borrowed if nothing has to be joined. -ERR_NOMEM. */
MUST_CHECK int job_error_pack(const struct job_error *e, struct arena *arena, struct span *ret);
/* Any text can be split. */
struct job_error job_error_split(struct span packed);
/* A packed error with message and stack truncated to their limits. */
struct span job_error_cut(struct span packed);
/* 0, or -ERR_INVALID or -ERR_TOO_BIG: for a packed error from another store. */
MUST_CHECK int job_error_check(struct span packed, struct err_note *note);
