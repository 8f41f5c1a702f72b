/* SPDX-License-Identifier: Apache-2.0 */
/* Alert rules, notices and breakers of a unit.
 *
 * There are few rules, and they rarely change: each node keeps all of them in memory, with the
 * version of the list. A unit in which an event of a rule may happen compares that version with the
 * version in the store, and reads the rules again if it has changed. A unit that changes rules
 * locks the version. A notice is stored in the same commit as the event that it reports. */
#pragma once

#include "base/containers/arena.h"
#include "ops/alerts/alerts.h"

struct shared;
struct unit;
struct turn;
struct row;
struct wschedule;

struct alerts_known {
    struct arena arena;
    struct alert_state *list; /* by name */
    size_t count;
    uint64_t version; /* 0 = the rules are not known */
};

/* The new form of a rule; encoded as REC_ALERT_PUT. */
struct walert_put {
    struct span name, record;
    bool gone;        /* deleted instead */
    bool forget;      /* removes the alerts that it had raised */
    bool drop;        /* removes its notices, because it has no URL any more */
    uint64_t notices; /* how many it has in the store */
};

/* A condition in a queue. */
struct wraised {
    struct span alert, queue;
    struct wall_time since;
    uint64_t value, mark;
    bool stored; /* raised in the store, before the unit */
    bool there;  /* raised now */
    bool changed;
    struct span packed; /* as it was loaded, for stores that keep it as one byte string */
    struct wraised *next;
};

struct wnotice {
    struct notice_entry; /* its members are members of this struct; number 0 = a new one, which the
                            store numbers */
    int64_t look_ms;     /* when it is due, or until when it is given out */
    bool held;           /* given out by this node in this unit */
    bool changed, gone;
    struct span packed; /* as with wraised */
    struct wnotice *next;
};

struct wbreaker {
    struct breaker_view; /* its members are members of this struct */
    bool stored, changed, gone;
    struct span packed; /* as with wraised */
    struct wbreaker *next;
};

/* The part of a unit that concerns alerts. */
struct unit_alerts {
    struct walert_put *put; /* at most one */
    struct wraised *raised;
    uint64_t raised_there; /* in total, before the unit */
    int64_t raised_adds;
    struct wnotice *notices, **notices_last; /* that were loaded, in order … */
    struct wnotice *take_at;                 /* the next one for a take */
    struct wnotice *fresh, **fresh_last;     /* … and those that are new */
    struct wbreaker *breakers;
    uint64_t
        named_there; /* named breakers in total, before the unit; only if an operation names one */
    struct wall_time next_look; /* when the next of those that were not loaded is due; 0 = none */
    struct span *let_go;        /* alerts whose notices are due now … */
    size_t let_go_count;        /* … because their target answers again */
};

void unit_alerts_reset(struct unit *u);
bool unit_alerts_changed(const struct unit *u); /* whether anything of this must be stored */

/* --- the rules in memory --- */

void alerts_known_done(struct shared *s);
/* Replaces them. `records`: all rules by name, encoded; they are copied. After -ERR_NOMEM or
 * -ERR_CORRUPT the rules are not known. */
MUST_CHECK int alerts_known_set(struct shared *s, uint64_t version, const struct span *records,
                                size_t count);
const struct alert_state *alerts_known_find(const struct shared *s, struct span name);
/* Whether an event for which there may be a rule can happen in this unit. */
bool unit_may_notify(const struct unit *u);
/* Whether its operations concern rules, notices or breakers, which are loaded separately. */
bool unit_about_alerts(const struct unit *u);

/* --- loaded rows; NULL: no memory --- */

struct wraised *unit_raised_add(struct unit *u, struct span alert, struct span queue);
struct wraised *unit_raised(const struct unit *u, struct span alert, struct span queue);
struct wnotice *unit_notice_add(struct unit *u, const struct wnotice *loaded);
struct wbreaker *unit_breaker_add(struct unit *u, struct span target, const struct breaker *b);
/* The named breaker that the operation concerns; empty = none. */
struct span unit_breaker_name(const struct op *op);

/* --- events --- */

void unit_alert_dead(struct unit *u, const struct row *r, const struct rec_job_dead *rec);
void unit_alert_failed(struct unit *u, const struct wschedule *s); /* a schedule */

/* Functions of struct ops_store, which documents them. */
const struct alert_state *unit_alert_find(const struct ops *o, struct span name);
const struct alert_state *unit_alert_at(const struct ops *o, size_t at);
uint64_t unit_alert_notices(const struct ops *o, const struct alert_state *a);
bool unit_alert_raised(const struct ops *o, const struct alert_state *a, struct span queue);
uint64_t unit_raised_count(const struct ops *o);
bool unit_alert_commit(struct ops *o, const struct record *rec, struct rec_notice_new *n);
void unit_notice_new(struct ops *o, struct rec_notice_new *n);
struct notice_entry *unit_notice_find(struct ops *o, uint64_t number);
const struct alert_state *unit_notice_alert(const struct ops *o, const struct notice_entry *n);
bool unit_notice_commit(struct ops *o, struct notice_entry *n, const struct record *rec);
void unit_notices_begin(struct ops *o, const struct op_notice_take *want);
struct notice_entry *unit_notice_due(struct ops *o);
void unit_notice_look(struct ops *o, struct notice_entry *n, int64_t at_ms, bool given_out);
struct wall_time unit_notices_next(const struct ops *o);
void unit_notices_release(struct ops *o, struct span target);
const struct breaker_view *unit_breaker_find(const struct ops *o, struct span target);
const struct breaker_view *unit_breaker_next(const struct ops *o, const struct breaker_view *after);
bool unit_breaker_commit(struct ops *o, const struct record *rec);
uint64_t unit_breaker_named_count(const struct ops *o);
