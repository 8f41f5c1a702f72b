/* SPDX-License-Identifier: Apache-2.0 */
/* Views of jobs. The folder v1/jobs has the endpoints of jobs; what it may use is in v1_impl.h. */
#pragma once

#include "base/json/json.h"
#include "broker/broker.h"

enum job_view_flag {
    VIEW_PAYLOAD = 1u << 0, /* payload and result */
    VIEW_HISTORY = 1u << 1, /* the attempts */
    VIEW_LOG = 1u << 2,     /* the lines of the log, if there are any */
};

/* Writes the view of GET and of lists as an object. It never has a lease token. */
void job_view_write(struct json_writer *w, const struct job_view *v, struct wall_time now,
                    unsigned flags);
/* Writes the view of a claim as an object, with the lease token. */
void job_claim_write(struct json_writer *w, const struct job_view *v, struct wall_time now);
/* Writes "cancel": true and cancel_deadline if a cancel is requested: for every reply to a
 * worker that holds a lease. */
void cancel_write(struct json_writer *w, const struct lease_news *lease);
/* The members for the encoded options of a job. Options that the queue decides are not written. */
void job_options_write(struct json_writer *w, struct span encoded);
/* Writes one attempt of the history. */
void attempt_write(struct json_writer *w, const struct attempt_view *a);
const char *error_kind_name(uint8_t kind);
/* Writes "progress", which progress_decode reads; nothing if it is empty (progress.c). */
void progress_write(struct json_writer *w, struct span stored);
/* What an enqueue that is part of a larger request did; null if nothing was enqueued. */
void enqueued_write(struct json_writer *w, const struct enqueued_view *v);
