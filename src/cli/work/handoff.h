/* SPDX-License-Identifier: Apache-2.0 */
/* What a target, or `holdfast ack --handoff`, hands off: jobs to enqueue and keys to change in the
 * commit of the ack.
 *
 * A command writes it into the file that HOLDFAST_HANDOFF names, which does not exist before; an
 * HTTP target replies with it, with the content type HANDOFF_TYPE. It is one JSON object with the
 * members enqueues, sets and deletes, and in an HTTP reply also result. The server checks their
 * values. */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json/json.h"
#include "base/span.h"

#define HANDOFF_TYPE "application/vnd.holdfast.handoff+json"
#define HANDOFF_BYTES_MAX ((size_t)1 << 20)
#define HANDOFF_PATH_BYTES 4096

/* Values as they were written; at NULL = not given. They point into the text that was parsed. */
struct handoff {
    struct span enqueues, sets, deletes, result;
};

/* -ERR_INVALID with a sentence; -ERR_NOMEM. *ret is then unchanged. */
MUST_CHECK int handoff_parse(struct span text, bool with_result, struct handoff *ret,
                             struct err_note *note);
bool handoff_given(const struct handoff *h);
/* Writes enqueues, sets and deletes as members of an ack, as far as they are given. */
void handoff_write_members(const struct handoff *h, struct json_writer *w);

/* Creates the directory of the files, which only this user can read. -ERR_IO with a sentence. */
MUST_CHECK int handoff_dir_create(char out[HANDOFF_PATH_BYTES], struct err_note *note);
/* Appends what the command wrote; nothing if there is no file. -ERR_INVALID, -ERR_IO, -ERR_NOMEM
 * with a sentence. */
MUST_CHECK int handoff_file_read(const char *path, struct buf *out, struct err_note *note);
