/* SPDX-License-Identifier: Apache-2.0 */
/* The circuit breaker of one target, as a pure state machine.
 *
 *   CLOSED ──threshold failures in a row──► OPEN ──cooldown over──► HALF_OPEN
 *      ▲                                      ▲                        │
 *      └── a success, in whatever state       └────── a failure ───────┘
 *
 * While OPEN every call is denied; HALF_OPEN lets a number of probes through. A denied call is no
 * failure. Answers of calls that began before it opened may come late: a success closes it all the
 * same, since the target answers; a failure says nothing new. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/system/clock.h"

/* Numbers are on disk and the values of a metric: never renumber. */
enum breaker_state { BREAKER_CLOSED, BREAKER_OPEN, BREAKER_HALF_OPEN, BREAKER_STATE_COUNT };
const char *breaker_state_name(enum breaker_state s); /* "closed", "open", "half_open" */

struct breaker_rules {
    uint32_t failure_threshold;     /* failures in a row that open it; ≥ 1 */
    uint32_t open_cooldown_seconds; /* ≥ 1 */
    uint32_t half_open_probe_count; /* calls let through while HALF_OPEN; ≥ 1 */
};

/* All zero = a target of which nothing is known. */
struct breaker {
    uint8_t state;     /* enum breaker_state */
    uint32_t failures; /* in a row */
    uint32_t probes;   /* HALF_OPEN: let through */
    /* OPEN: when the cooldown ends. HALF_OPEN: when probes that gave no answer are given up. */
    struct wall_time until;
    struct wall_time changed_at; /* when it came into this state; 0 = never changed */
};

/* May a call be made now? *b becomes what it is afterwards: an OPEN one whose cooldown is over
 * turns HALF_OPEN, and a probe is counted. */
bool breaker_ask(struct breaker *b, const struct breaker_rules *rules, struct wall_time now);
/* How a call ended. Rate-limit answers are failures. */
void breaker_tell(struct breaker *b, const struct breaker_rules *rules, bool success,
                  struct wall_time now);
bool breaker_equal(const struct breaker *a, const struct breaker *b);
