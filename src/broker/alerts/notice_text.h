/* SPDX-License-Identifier: Apache-2.0 */
/* What a receiver gets: the JSON of a notice and its signature. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "ops/op.h"

#define NOTICE_PAYLOAD_MAX ((size_t)1 << 20) /* a larger payload is left out */
#define NOTICE_SIGNATURE_BYTES 72            /* "v1=" and 64 digits, with the NUL */

/* job: its present state, with its body; NULL = not wanted, or removed. -ERR_NOMEM. */
MUST_CHECK int notice_json(const struct notice_view *v, const struct job_view *job,
                           struct buf *out);
/* HMAC-SHA256 over `timestamp "." body`. -ERR_NOMEM. */
MUST_CHECK int notice_sign(struct span secret, const char *timestamp, struct span body,
                           char out[NOTICE_SIGNATURE_BYTES]);
