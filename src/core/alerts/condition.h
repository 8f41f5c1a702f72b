/* SPDX-License-Identifier: Apache-2.0 */
/* Conditions of alert rules: given what was measured in a queue, does one hold?
 *
 * Between holding and not holding lies a band of a tenth, in which nothing is said: what is raised
 * stays raised, what is not is not. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/system/clock.h"
#include "core/alerts/alert.h"

enum verdict { VERDICT_NONE, VERDICT_HOLDS, VERDICT_HOLDS_NOT };

/* A look at a queue, or (capacity) at the whole server. */
struct sighting {
    struct mono_time at;
    uint64_t ready, scheduled, running;
    uint64_t capacity;     /* live jobs at most; 0 = no limit */
    uint64_t warn_depth;   /* 0 = none */
    uint64_t claimed;      /* claims since start */
    uint64_t ends, errors; /* attempts that ended since start, and those of them that went wrong */
    int64_t oldest_ready_ms; /* -1 = none */
    int64_t age_ms;          /* of the queue */
    bool paused;
};

#define CONDITION_SAMPLES 32

struct condition_sample {
    struct mono_time at;
    uint64_t ends, errors;
};

/* What one rule remembers of one queue. */
struct condition {
    struct mono_time begun; /* watched since */
    uint64_t claimed;
    struct mono_time claimed_at; /* when claims were last seen to have risen */
    bool claim_seen;
    struct condition_sample last;                       /* the look before this */
    struct condition_sample samples[CONDITION_SAMPLES]; /* oldest first */
    unsigned sample_count;
};

/* What is known of the time before the first look. */
enum condition_past {
    PAST_UNKNOWN,    /* counted long ago, nobody knows when */
    PAST_SINCE_BOOT, /* everything counted happened since the server started, just now */
    PAST_ALL,        /* since the queue was made, age_ms ago; just now */
};
void condition_begin(struct condition *c, const struct sighting *s, enum condition_past past);
/* *value is what was measured, *mark what it is held against. */
enum verdict condition_look(struct condition *c, const struct alert_rule *rule,
                            const struct sighting *s, uint64_t *value, uint64_t *mark);
