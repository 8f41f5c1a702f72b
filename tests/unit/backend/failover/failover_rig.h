/* SPDX-License-Identifier: Apache-2.0 */
/* Failover between two stores of this machine: a primary that the test switches off and on, and a
 * spool. One rig at a time; names begin with fr_. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend/failover/impl.h"
#include "unit/backend/switched.h"

#define FR_NODE 3u
#define FR_REPLIES_MAX 512

/* Whether a server listens at the primary's address; also read on another thread. */
extern _Atomic bool fr_listening;
/* The check on the other thread: what it finds, whether it ran on the loop thread instead, and how
 * often it was called. */
extern _Atomic bool fr_unsafe, fr_checked_on_loop;
extern _Atomic unsigned fr_checks;

extern struct failover_rig {
    uv_loop_t loop;
    struct clock_manual clock;
    struct backend_config config;
    char dir[64];
    bool on_disk;          /* otherwise both stores are in memory */
    const char *unusable;  /* why the primary cannot be opened; NULL = it can */
    const char *alert_url; /* of the setup */
    unsigned opens;        /* how often the primary was opened, or refused to be */
    struct switched *primary;
    struct backend *spool;
    struct backend *b;
    struct reply *kept[FR_REPLIES_MAX]; /* until the end, because a test may use several */
    size_t kept_count;
    bool answered, closed;
} fr;

/* --- beginning and end --- */

void fr_begin_with(bool listening); /* opens nothing */
void fr_begin(void);                /* with a primary that is available */
void fr_open(void);
int fr_try_open(struct err_note *note);
int fr_open_store(const char *name, struct backend **ret);
int fr_open_primary(void *ctx, struct backend **ret, struct err_note *note); /* as a setup has it */
bool fr_reachable(void *ctx);
void fr_close(void);
void fr_end(void);        /* closes */
void fr_end_closed(void); /* of one that is not open */

/* --- operations --- */

const struct reply *fr_run(struct op op);
const struct reply *fr_run_at(struct backend *b, struct op op);
struct op fr_enqueue_op(void); /* into the queue q */
struct job_ref fr_enqueue_this(struct op op);
struct job_ref fr_enqueue(void);
const struct reply *fr_claim(uint32_t count); /* from the queue q */
struct op fr_lease_op(enum op_kind kind, const struct job_view *v);
const struct reply *fr_get(struct job_ref id);
const struct reply *fr_get_at_primary(struct job_ref id); /* as another node sees it */
void fr_put_queue(struct span name, const struct queue_policy *policy, struct span owner);

/* --- states --- */

struct backend_figures fr_figures(void);
struct backend_cluster fr_health(void);
void fr_outage(void); /* the primary is switched off, and the node has noticed */
/* The primary is switched on, in this mode, until it is given a job to move, and then off. */
void fr_lose_move(enum switched_mode mode);
void fr_until_up(bool up);
void fr_until_moved(void);  /* the spool has no jobs */
void fr_until_copied(void); /* the spool has the queues and rules that this node has changed */
