/* SPDX-License-Identifier: Apache-2.0 */
/* src/base has what every other folder uses and what knows nothing about jobs: errors, buffers,
 * text, log, memory. It may use only libraries and the system.
 *
 * Operating errors: negative codes that travel up, and the text that goes with them.
 *
 * A function returns 0 or one of -ERR_…; expected outcomes (empty, not found, stale token) are
 * results, not errors. A function that handles an error logs it; one that returns it does not. */
#pragma once

#define ERR_TABLE(X)                                                                               \
    X(NOMEM, "out of memory")                                                                      \
    X(INVALID, "invalid argument")                                                                 \
    X(SYNTAX, "malformed text")                                                                    \
    X(RANGE, "value out of range")                                                                 \
    X(TOO_BIG, "larger than the limit")                                                            \
    X(IO, "input/output error")                                                                    \
    X(NO_SPACE, "no space left on the device")                                                     \
    X(CORRUPT, "stored data is damaged")                                                           \
    X(VERSION, "made by a newer version")                                                          \
    X(LOCKED, "in use by another process")                                                         \
    X(NOT_FOUND, "not found")                                                                      \
    X(CLOSED, "already closed")                                                                    \
    X(TIMEOUT, "took too long")                                                                    \
    X(UNSAFE, "the server may lose what it is given")

enum err {
    ERR_OK = 0,
#define ERR_ENUM(name, text) ERR_##name,
    ERR_TABLE(ERR_ENUM)
#undef ERR_ENUM
        ERR_COUNT,
};

#define MUST_CHECK __attribute__((warn_unused_result))

/* Both take the negative code as returned ("-ERR_IO") and accept any int. */
const char *err_name(int code);
const char *err_text(int code);

/* A sentence for the operator, filled by the function that failed. */
struct err_note {
    char text[512];
};

/* Fills note (which may be NULL) and returns code, so that a caller can `return err_note_set(…)`.
 */
int err_note_set(struct err_note *note, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
