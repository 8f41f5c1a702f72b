/* SPDX-License-Identifier: Apache-2.0 */
/* src/core/alerts has the rules of alerts, webhooks and circuit breakers. It may use core and base,
 * and does no I/O: src/broker sends the notices.
 *
 * Alert rules: what they react to, in which queues, and where the notices are sent.
 *
 * There are two kinds. Events (a job dies, a schedule fails) create one notice each. Conditions
 * hold or do not hold in a queue: there is one notice when a condition is raised and another one
 * when it clears. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"
#include "base/system/clock.h"

/* What a rule reacts to: name in C, number, name for users, and what precedes it in ALERT_NAMES.
 * Numbers are on disk: never renumber. A new one needs a row here and, if it has members or is a
 * condition, one in the table of alert.c; an event needs a call of ops_notify (ops/alerts/alerts.h)
 * in backend/local/engine and in backend/shared; a condition of queues needs a function in
 * core/alerts/condition.c. ALERT_FAILOVER is a condition of a node, which backend/failover/rules.c
 * raises. */
#define ALERT_KINDS(K, SEPARATOR)                                                                  \
    K(ALERT_DEAD, 1, "dead", "")                                                                   \
    K(ALERT_SCHEDULE_FAILED, 2, "schedule_failed", SEPARATOR)                                      \
    K(ALERT_DEEP, 3, "deep", SEPARATOR)                                                            \
    K(ALERT_ERROR_SHARE, 4, "error_share", SEPARATOR)                                              \
    K(ALERT_NO_CLAIM, 5, "no_claim", SEPARATOR)                                                    \
    K(ALERT_CAPACITY, 6, "capacity", SEPARATOR)                                                    \
    K(ALERT_FAILOVER, 7, "failover", SEPARATOR)

enum alert_on {
#define ALERT_ENUMERATOR(on, number, name, separator) on = (number),
    ALERT_KINDS(ALERT_ENUMERATOR, "")
#undef ALERT_ENUMERATOR
        ALERT_ON_COUNT
};

/* The names as one string literal, for messages and help. */
#define ALERT_NAME(on, number, name, separator) separator name
#define ALERT_NAMES(separator) ALERT_KINDS(ALERT_NAME, separator)

/* Members that a kind of rule has; others must be 0. */
enum alert_member {
    ALERT_HAS_DEPTH = 1u << 0,
    ALERT_HAS_PERCENT = 1u << 1,
    ALERT_HAS_WINDOW = 1u << 2,
    ALERT_HAS_MIN_ENDS = 1u << 3,
    ALERT_HAS_AFTER = 1u << 4,
    ALERT_HAS_PAYLOAD = 1u << 5,
};

#define ALERT_DEPTH_DEFAULT 10000

struct alert_rule {
    uint8_t on; /* enum alert_on */
    bool enabled;
    bool with_payload;  /* dead: the notice contains the job's payload */
    struct span queue;  /* a name, or a pattern in which * matches anything */
    uint64_t depth;     /* deep: waiting jobs; 0 = the queue's warn_depth, else the default */
    uint32_t percent;   /* error_share: more than; capacity: at least */
    uint32_t window_ms; /* error_share */
    uint32_t min_ends;  /* error_share: with fewer attempts the condition is not evaluated */
    uint32_t after_ms;  /* no_claim */
    struct span url;    /* of the webhook; empty = none */
    struct span secret; /* for the signature of deliveries; empty = unsigned */
};

const char *alert_on_name(enum alert_on on); /* "dead", …; NULL when unknown */
bool alert_is_condition(enum alert_on on);
bool alert_is_of_node(enum alert_on on);  /* it has no queues: `queue` must be * */
unsigned alert_members(enum alert_on on); /* mask of enum alert_member */

/* A rule of this kind with the defaults: enabled, every queue. */
void alert_rule_default(enum alert_on on, struct alert_rule *ret);
/* 0, or -ERR_INVALID with a note that begins with the member's name. */
MUST_CHECK int alert_rule_check(const struct alert_rule *rule, struct err_note *note);
MUST_CHECK int alert_name_check(struct span name, struct err_note *note);
/* Whether the pattern matches the whole name. */
bool alert_matches(struct span pattern, struct span name);
/* Whether the two hold at the same times in the same queues. */
bool alert_same_condition(const struct alert_rule *a, const struct alert_rule *b);

/* What happened to a condition. Numbers are on disk. */
enum notice_edge { EDGE_NONE, EDGE_RAISED, EDGE_CLEARED, EDGE_COUNT };

/* The state of a notice. Numbers are on disk. */
enum notice_state { NOTICE_PENDING, NOTICE_DEAD, NOTICE_STATE_COUNT };
const char *notice_state_name(enum notice_state s); /* "pending", "dead" */

/* Why a notice left the outbox. Numbers are on disk. */
enum notice_end { NOTICE_DELIVERED, NOTICE_DROPPED, NOTICE_DISCARDED, NOTICE_END_COUNT };

/* The wait before attempt number `tries` + 1: 1 s doubling to 1 h, ±10 %. */
struct random;
int64_t notice_backoff_ms(uint32_t tries, struct random *random);
