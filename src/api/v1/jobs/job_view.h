/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs as answers show them. */
#pragma once

#include "base/json/json.h"
#include "broker/broker.h"

enum job_view_flag {
    VIEW_PAYLOAD = 1u << 0, /* payload and result */
    VIEW_HISTORY = 1u << 1, /* the attempts */
    VIEW_LOG = 1u << 2,     /* the lines of the log, if there are any */
};

/* The job view of GET and of lists, one object. Never shows a token. */
void job_view_write(struct json_writer *w, const struct job_view *v, struct wall_time now,
                    unsigned flags);
/* What a claim hands out, one object with the token. */
void job_claim_write(struct json_writer *w, const struct job_view *v, struct wall_time now);
/* "cancel": true and cancel_deadline while a cancel is requested, else nothing: for every reply to
 * a worker that holds a lease. */
void cancel_write(struct json_writer *w, const struct lease_news *lease);
/* One attempt of the history. */
void attempt_write(struct json_writer *w, const struct attempt_view *a);
const char *error_kind_name(uint8_t kind);
/* "progress", as progress_decode reads it; nothing when it is empty (progress.c). */
void progress_write(struct json_writer *w, struct span stored);
