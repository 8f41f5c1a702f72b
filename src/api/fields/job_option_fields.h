/* SPDX-License-Identifier: Apache-2.0 */
/* The options of a job that override the policy of its queue (struct job_options), as members of a
 * request. */
#pragma once

#include "api/fields/fields.h"

struct job_options_in {
    int64_t max_attempts, max_crashes, lease_ms, timeout_ms;
    struct backoff backoff;
};

/* Rows of a table of fields. The target has a member struct job_options_in options, and AT(member)
 * is an offset in the target. */
#define JOB_OPTION_FIELDS                                                                           \
    {"max_attempts", FIELD_INT, AT(options.max_attempts), 1, LIMIT_ATTEMPTS, NULL, 0},              \
        {"max_crashes", FIELD_INT, AT(options.max_crashes), 1, LIMIT_ATTEMPTS, NULL, 0},            \
        {"lease_ms", FIELD_INT, AT(options.lease_ms), LIMIT_LEASE_MS_MIN, LIMIT_LEASE_MS, NULL, 0}, \
        {"timeout_ms", FIELD_INT, AT(options.timeout_ms), 0, LIMIT_TIMEOUT_MS, NULL, 0},            \
        {"backoff", FIELD_BACKOFF, AT(options.backoff), 0, 0, NULL, 0},

static inline struct job_options job_options_of(const struct job_options_in *in, bool has_backoff)
{
    return (struct job_options){
        .max_attempts = (uint16_t)in->max_attempts,
        .max_crashes = (uint16_t)in->max_crashes,
        .lease_ms = (uint32_t)in->lease_ms,
        .timeout_ms = (uint32_t)in->timeout_ms,
        .has_backoff = has_backoff,
        .backoff = in->backoff,
    };
}
