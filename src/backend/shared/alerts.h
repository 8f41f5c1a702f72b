/* SPDX-License-Identifier: Apache-2.0 */
/* Alert rules, notices and breakers of a unit.
 *
 * Rules are few and change seldom: each node keeps them all, with the number of their last change.
 * A unit in which something may happen that a rule is about compares that number with the store's,
 * and reads the rules anew when it is another; one that changes rules does so with that number
 * locked. Notices go into the store with what they tell of. */
#pragma once

#include "base/containers/arena.h"
#include "ops/op.h"

struct shared;
struct unit;
struct turn;
struct row;
struct wschedule;

/* A rule, as this node knows it. */
struct walert {
    struct span name, target; /* target empty = no webhook */
    struct alert_rule rule;
    struct wall_time created_at, updated_at;
};

struct alerts_known {
    struct arena arena;
    struct walert *list; /* by name */
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
    struct rec_notice_new notice; /* number 0 = a new one, which the store numbers */
    struct rec_notice_tried tried;
    int64_t look_ms; /* when it is to be looked at: due, or given out until then */
    bool held;       /* given out, by this node from now on */
    bool changed, gone;
    struct span packed; /* as with wraised */
    struct wnotice *next;
};

struct wbreaker {
    struct span target;
    struct breaker breaker;
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
    struct wnotice *fresh, **fresh_last;     /* … and those that are new */
    struct wbreaker *breakers;
    size_t breaker_count;
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
const struct walert *alerts_known_find(const struct shared *s, struct span name);
/* Whether something may happen in this unit that a rule is about. */
bool unit_may_notify(const struct unit *u);
/* Whether it is about rules, notices or breakers: loaded in a way of its own. */
bool unit_about_alerts(const struct unit *u);

/* --- what was loaded; NULL: no memory --- */

struct wraised *unit_raised_add(struct unit *u, struct span alert, struct span queue);
struct wraised *unit_raised(const struct unit *u, struct span alert, struct span queue);
struct wnotice *unit_notice_add(struct unit *u, const struct wnotice *loaded);
struct wbreaker *unit_breaker_add(struct unit *u, struct span target, const struct breaker *b);

/* --- what happens --- */

void unit_alert_dead(struct unit *u, const struct row *r, const struct rec_job_dead *rec);
void unit_alert_failed(struct unit *u, const struct wschedule *s); /* a schedule */
void unit_notice_new(struct unit *u, const struct walert *a, const struct rec_notice_new *n);

void work_alert_put(struct unit *u, struct turn *t);
void work_alert_delete(struct unit *u, struct turn *t);
void work_alert_edge(struct unit *u, struct turn *t);
void work_notice_take(struct unit *u, struct turn *t);
void work_notice_end(struct unit *u, struct turn *t);
void work_notice_again(struct unit *u, struct turn *t);
void work_notice_discard(struct unit *u, struct turn *t);
#define NOTICE_LOOKS LIMIT_SLICE /* notices that one take looks at */
