/* SPDX-License-Identifier: Apache-2.0 */
/* Conditions of alert rules: decides from measurements of a queue whether one holds.
 *
 * Between holding and not holding there is a band of a tenth, in which the state does not change.
 * alert.h says what a new condition needs. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/system/clock.h"
#include "core/alerts/alert.h"

enum verdict { VERDICT_NONE, VERDICT_HOLDS, VERDICT_HOLDS_NOT };

/* A measurement of a queue or (capacity) of the whole server. */
struct sighting {
    struct mono_time at;
    uint64_t ready, scheduled, running;
    uint64_t capacity;   /* live jobs at most; 0 = no limit */
    uint64_t warn_depth; /* 0 = none */
    uint64_t claimed;    /* claims since start */
    /* attempts that ended since the start, and those of them that failed or crashed */
    uint64_t ends, errors;
    int64_t oldest_ready_ms; /* -1 = none */
    int64_t age_ms;          /* of the queue */
    bool paused;
};

#define CONDITION_SAMPLES 32

struct condition_sample {
    struct mono_time at;
    uint64_t ends, errors;
};

/* What one rule remembers about one queue. */
struct condition {
    struct mono_time begun; /* watched since */
    uint64_t claimed;
    struct mono_time claimed_at; /* when the number of claims last increased */
    bool claim_seen;
    struct condition_sample last;                       /* the previous measurement */
    struct condition_sample samples[CONDITION_SAMPLES]; /* oldest first */
    unsigned sample_count;
};

/* What is known about the time before the first measurement. */
enum condition_past {
    PAST_UNKNOWN,    /* it is not known when the counted events happened */
    PAST_SINCE_BOOT, /* everything counted happened since the server started, just now */
    PAST_ALL,        /* since the queue was created, age_ms ago; just now */
};
void condition_begin(struct condition *c, const struct sighting *s, enum condition_past past);
/* *value is the measured value, *mark the limit that it is compared with. */
enum verdict condition_look(struct condition *c, const struct alert_rule *rule,
                            const struct sighting *s, uint64_t *value, uint64_t *mark);
