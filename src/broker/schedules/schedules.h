/* SPDX-License-Identifier: Apache-2.0 */
/* src/broker/schedules fires schedules. It may use the rest of the broker and what the broker may
 * use.
 *
 * Internals that schedules.c and its neighbours share. Included by src/broker only.
 *
 *   schedules.c        the table of schedules, when each is due, firing
 *   schedule_times.c   the firing times of a definition: cron, zones, misfires; previews
 *   schedule_follow.c  changes of other nodes, if a store is shared
 *   schedule_clock.c   moving the test clock through everything that becomes due */
#pragma once

#include "base/containers/heap.h"
#include "base/containers/map.h"
#include "base/system/zone.h"
#include "broker/broker.h"
#include "core/schedules/cron.h"

/* When a definition is due: its cron text parsed, its zone opened. */
struct times {
    const struct schedule_spec *spec; /* borrowed */
    struct cron cron;
    struct cron_zone zone;
    struct cron_dst dst;
};

/* 0, or -ERR_INVALID with a note. */
MUST_CHECK int times_init(struct times *t, struct zones *zones, const struct schedule_spec *spec,
                          struct err_note *note);
/* The first time after this one; LIMIT_WALL_MS = none. */
struct wall_time times_next(const struct times *t, struct wall_time after);

/* What to do about a schedule that has been due since `due`. */
struct plan {
    struct wall_time at, next_at;
    uint32_t missed;
    bool skip;
};
struct plan times_plan(const struct times *t, struct wall_time due, struct wall_time now);

/* A schedule in the broker. */
struct planned {
    struct broker *broker;
    struct hash128 key;
    uint32_t slot;    /* in schedules.list */
    size_t place;     /* in schedules.due; SIZE_MAX = not in it */
    char *title;      /* its name; an outstanding op uses it, too … */
    struct span name; /* … as a span */
    struct buf own;   /* the encoded definition */
    struct schedule_spec spec;
    struct times times;
    struct schedule_state state;
    bool known; /* its times could be computed */
    bool paused, last_live;
    bool gone;         /* deleted while an op is outstanding */
    bool busy;         /* an op is outstanding */
    bool troubled;     /* the backend could not reply; tried again soon, in real time */
    bool parked;       /* a trigger that found nothing, until its source signals */
    int64_t looked_ms; /* the last check of a trigger */
    bool signalled;    /* the source has signalled since the outstanding op was submitted */
    struct backend_watch *watch;
};

struct moving {
    struct moving *next;
    int64_t left_ms;
    uint32_t rounds;
    bool jump;
    void (*fn)(void *ctx);
    void *ctx;
};

struct schedules {
    struct zones *zones;
    bool started;
    bool loading, list_busy; /* the list at the start is not complete yet; a page is outstanding */
    struct planned **list;   /* by slot; NULL = free */
    uint32_t count;
    size_t room;
    struct map128 by_name; /* → slot + 1 */
    struct heap due;       /* (wall ms, slot) */
    uv_timer_t timer, trouble_timer, follow_timer;
    /* other nodes may use the store, too; the following members are for that */
    bool shared;
    bool by_change;        /* the store lists changes; otherwise always all schedules are read */
    bool leads;            /* this node is to fire … */
    bool behind;           /* … after it has read all of them again */
    bool page_outdated;    /* the outstanding page was requested before that: it does not count */
    uint64_t mark;         /* changes up to this one have been read */
    uint32_t follow_ticks; /* of follow_timer */
    uint32_t busy, troubled;
    struct span list_after; /* the next page to request … */
    struct buf list_name;   /* … and the text it points to */
    struct moving *moving;  /* the first one is in progress */
    bool settling;
    bool dirty; /* something fired since the backend settled */
};

MUST_CHECK int schedules_init(struct broker *b);
void schedules_handles(struct broker *b); /* initialises its timers, which cannot fail */
void schedules_done(struct broker *b);
void schedules_drain(struct broker *b);
/* Sets the member of an op that only the broker knows: the time at which it is due next. */
void schedules_prepare(struct broker *b, struct op *op);
void schedules_observe(struct broker *b, const struct op *op, const struct reply *r);
/* Requests all schedules or, if the store is shared, those that were changed. */
void schedules_list(struct broker *b);
/* Begins to follow other nodes, if there may be any. */
void schedules_follow(struct broker *b);
/* Checks whether this node has become the leader, or is no longer. */
void schedules_notice(struct broker *b);
bool schedules_lead(const struct broker *b); /* and may it fire? */
/* Fires what is due now. */
void schedules_run(struct broker *b);
/* When the next one is due; INT64_MAX = none. */
int64_t schedules_next_ms(const struct broker *b);
/* A schedule's op has its reply, or the backend has settled: continues moving the clock. */
void moving_further(struct broker *b);
void moving_cut(struct broker *b); /* the broker drains: moves in progress end early */
