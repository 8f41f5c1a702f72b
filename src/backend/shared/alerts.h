/* SPDX-License-Identifier: Apache-2.0 */
/* Alert rules, notices and breakers of a unit.
 *
 * Rules are few and change seldom: each node keeps them all, with the number of their last change.
 * A unit in which something may happen that a rule is about compares that number with the store's,
 * and reads the rules again when it has changed; one that changes rules does so with that number
 * locked. Notices go into the store with what they tell of. */
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
    uint64_t version; /* 0 = nothing is known */
};

/* What a rule is to become; encoded as REC_ALERT_PUT. */
struct walert_put {
    struct span name, record;
    bool gone;        /* deleted instead */
    bool forget;      /* what it had raised */
    bool drop;        /* its notices: it has nowhere to send them */
    uint64_t notices; /* that it has, by the store */
};

/* A condition in a queue. */
struct wraised {
    struct span alert, queue;
    struct wall_time since;
    uint64_t value, mark;
    bool stored; /* in the store, before */
    bool there;  /* now */
    bool changed;
    struct span packed; /* for stores that keep it as one piece of bytes: as it was loaded */
    struct wraised *next;
};

struct wnotice {
    struct notice_entry; /* its members are members of this struct; number 0 = a new one, which the
                            store numbers */
    int64_t look_ms;     /* when it is to be looked at: due, or given out until then */
    bool held;           /* given out, by this node from now on */
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

/* What a unit has of all this. */
struct unit_alerts {
    struct walert_put *put; /* one at most */
    struct wraised *raised;
    uint64_t raised_there; /* in all, before the unit */
    int64_t raised_adds;
    struct wnotice *notices, **notices_last; /* that were loaded, in their order … */
    struct wnotice *take_at;                 /* the next that a take looks at */
    struct wnotice *fresh, **fresh_last;     /* … and those that are new */
    struct wbreaker *breakers;
    uint64_t named_there; /* named breakers in all, before the unit; where one was asked about */
    struct wall_time next_look; /* of those that were not loaded; 0 = none */
    struct span *let_go;        /* alerts whose notices need not wait longer … */
    size_t let_go_count;        /* … since their target answers again */
};

void unit_alerts_reset(struct unit *u);
bool unit_alerts_changed(const struct unit *u); /* whether it leaves anything of this */

/* --- the rules that this node knows --- */

void alerts_known_done(struct shared *s);
/* All of them, by name, each as it is encoded; the record's bytes are copied. -ERR_NOMEM,
 * -ERR_CORRUPT: nothing is known any more. */
MUST_CHECK int alerts_known_set(struct shared *s, uint64_t version, const struct span *records,
                                size_t count);
const struct alert_state *alerts_known_find(const struct shared *s, struct span name);
/* Whether something may happen in this unit that a rule is about. */
bool unit_may_notify(const struct unit *u);
/* Whether the operation is about rules, notices or breakers, which are loaded separately. */
bool unit_about_alerts(const struct unit *u);

/* --- what was loaded; NULL: no memory --- */

struct wraised *unit_raised_add(struct unit *u, struct span alert, struct span queue);
struct wraised *unit_raised(const struct unit *u, struct span alert, struct span queue);
struct wnotice *unit_notice_add(struct unit *u, const struct wnotice *loaded);
struct wbreaker *unit_breaker_add(struct unit *u, struct span target, const struct breaker *b);
/* The named breaker that the operation is about; empty = none. */
struct span unit_breaker_name(const struct op *op);

/* --- what happens --- */

void unit_alert_dead(struct unit *u, const struct row *r, const struct rec_job_dead *rec);
void unit_alert_failed(struct unit *u, const struct wschedule *s); /* a schedule */

/* As struct ops_store says. */
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
