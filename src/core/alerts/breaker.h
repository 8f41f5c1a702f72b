/* SPDX-License-Identifier: Apache-2.0 */
/* The circuit breaker of one target, as a pure state machine.
 *
 *   CLOSED ──threshold failures in a row──► OPEN ──cooldown over──► HALF_OPEN
 *      ▲                                      ▲                        │
 *      └── a success, in any state            └────── a failure ───────┘
 *
 * While OPEN every call is denied; HALF_OPEN allows a number of probes. A denied call is not a
 * failure. Replies to calls that began before it opened may arrive late: a success closes it in any
 * case, because the target answers; a failure is ignored.
 *
 * There are two types, distinguished by their names: those of webhooks, whose name is the target's
 * scheme, host and port, and named ones, which clients consult for targets of any kind. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"
#include "base/system/clock.h"

/* Numbers are on disk and the values of a metric: never renumber. */
enum breaker_state { BREAKER_CLOSED, BREAKER_OPEN, BREAKER_HALF_OPEN, BREAKER_STATE_COUNT };
const char *breaker_state_name(enum breaker_state s); /* "closed", "open", "half_open" */

struct breaker_rules {
    uint32_t failure_threshold;     /* failures in a row that open it; ≥ 1 */
    uint32_t open_cooldown_seconds; /* ≥ 1 */
    uint32_t half_open_probe_count; /* calls allowed while HALF_OPEN; ≥ 1 */
};

/* All zero = nothing is known about the target. */
struct breaker {
    uint8_t state;     /* enum breaker_state */
    uint32_t failures; /* in a row */
    uint32_t probes;   /* HALF_OPEN: probes allowed so far */
    /* OPEN: when the cooldown ends. HALF_OPEN: when probes whose result was not reported lapse.
     * CLOSED: if it opens, it stays open at least until then; 0 = no such time. */
    struct wall_time until;
    struct wall_time changed_at; /* when it entered this state; 0 = never changed */
    /* Named ones only. Members that are 0 have the server's defaults. */
    struct breaker_rules own;
    struct wall_time used_at; /* last use, up to BREAKER_USED_STEP_MS too early */
};

/* The use of a named breaker is recorded at most this often. */
#define BREAKER_USED_STEP_MS (3600 * 1000)
/* Times that are further back than this come from a clock that was set back. */
#define BREAKER_SKEW_MS (60 * 1000)
/* A named breaker that has no settings and was not used for this time is dropped. */
#define BREAKER_UNUSED_MS (INT64_C(7) * 24 * 3600 * 1000)

/* 0, or -ERR_INVALID: not the name of a named breaker. */
MUST_CHECK int breaker_name_check(struct span name, struct err_note *note);
/* Whether the target is the name of a named breaker, not the target of a webhook. */
bool breaker_is_named(struct span target);
/* 0, or -ERR_INVALID with a note that begins with the member's name; 0 = the default. */
MUST_CHECK int breaker_rules_check(const struct breaker_rules *rules, struct err_note *note);
/* The breaker's own rules, completed with the defaults. */
struct breaker_rules breaker_rules_of(const struct breaker *b,
                                      const struct breaker_rules *defaults);

/* Whether a call is allowed now. Updates *b: an OPEN one whose cooldown is over becomes HALF_OPEN,
 * and a probe is counted. */
bool breaker_ask(struct breaker *b, const struct breaker_rules *rules, struct wall_time now);
/* Reports how a call ended. Rate-limit replies are failures. */
void breaker_call_ended(struct breaker *b, const struct breaker_rules *rules, bool success,
                        struct wall_time now);
/* The target has asked for no calls before that time: unless a success is reported, the breaker
 * stays open until then once it is open. */
void breaker_hold(struct breaker *b, struct wall_time until);
/* How long to wait before another attempt after a denied call, ≥ 1 ms. */
int64_t breaker_retry_ms(const struct breaker *b, struct wall_time now);
void breaker_used(struct breaker *b, struct wall_time now);
/* Whether it can be dropped without loss: see BREAKER_UNUSED_MS. */
bool breaker_is_unused(const struct breaker *b, struct wall_time now);
bool breaker_equal(const struct breaker *a, const struct breaker *b);
