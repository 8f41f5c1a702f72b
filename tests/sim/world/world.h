/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated world: virtual time, a network, a server with its disk, clients.
 *
 * Everything that happens is an event in one heap, ordered by (time, order of scheduling), and
 * every choice comes from one random generator, so a seed decides everything. */
#pragma once

#include "backend/local/commit_gate.h"
#include "sim/checker/checker.h"
#include "sim/checker/history.h"
#include "sim/clients/keeper.h"
#include "sim/coverage.h"
#include "sim/plan.h"
#include "sim/world/disk.h"

enum sim_event_kind {
    SIM_CLIENT,  /* client `who` may do something */
    SIM_ARRIVE,  /* call `who` reaches the server */
    SIM_ANSWER,  /* the reply of history entry `what` reaches its client */
    SIM_TIMEOUT, /* call `who` has waited long enough since its send number `what` */
    SIM_TASK,    /* a worker's task `who` goes on */
    SIM_KEEP,    /* a keeper's */
    SIM_TURN,    /* the server takes its inbox; who = boot */
    SIM_TICK,    /* the server's timer; who = boot, what = number of the timer */
    SIM_COMMIT,  /* the disk is done; who = boot */
    SIM_READ,    /* read `what` is done; who = boot */
    SIM_PROVIDE, /* the journal makes segments; who = boot */
    SIM_APPLY,   /* the store catches up a little */
    SIM_CRASH,
    SIM_RESTART,
    SIM_STALL,
    SIM_JUMP,   /* of the wall clock */
    SIM_ACCEPT, /* an operator looks at the clock */
    SIM_FULL,   /* the disk is full, or (what = 0) no longer */
    SIM_KIND_COUNT
};

struct event {
    int64_t at;
    uint64_t order;
    enum sim_event_kind kind;
    uint32_t who;
    uint64_t what;
};

enum role { ROLE_PRODUCER, ROLE_WORKER, ROLE_ADMIN, ROLE_KEEPER, ROLE_DRAIN, ROLE_COUNT };

struct client {
    enum role role;
    uint32_t open; /* calls without an answer that it waits for */
    bool parked;   /* worker: waits for a job */
};

/* A request: sent at least once, perhaps several times; its op stays for the whole run. */
struct call {
    uint32_t client;
    bool done;      /* answered or given up */
    bool abandoned; /* whatever is still on its way is dropped */
    bool apart;     /* a keeper's */
    uint8_t sends, sends_max;
    struct op op;
};

/* A job in a worker's hands. */
struct task {
    uint32_t client;
    uint64_t seq, id_hi;
    struct job_token token;
    uint32_t lease_ms;
    bool bound;
    uint8_t steps;
};

enum server_state { SERVER_DOWN, SERVER_BOOTING, SERVER_UP };

struct server_read {
    void *request; /* NULL = answered */
    struct store_query query;
};

struct server {
    enum server_state state;
    struct commit_gate *gate;
    struct engine *shadow; /* lives through exactly the durable frames; NULL = none */
    size_t shadowed;       /* frames it has seen */
    struct disk disk;
    uint32_t boot;       /* number of this process */
    int64_t mono_base;   /* its monotonic clock is that far ahead */
    int64_t stall_until; /* stands still until then */
    uint32_t *inbox;     /* calls */
    size_t inbox_count, inbox_room;
    bool turn_due;
    bool provide_due;
    bool full;               /* the journal's files cannot grow */
    bool unsettled;          /* with a journal: what the last crash left is not known yet */
    uint64_t crash_position; /* where the engine stood when it crashed */
    uint64_t timer;          /* number of the valid one */
    struct server_read *reads;
    size_t read_count, read_room;
};

struct world {
    struct plan plan;
    struct random random;
    struct pool pool;
    struct history history;
    struct coverage *coverage;
    struct violation bad; /* found by the machine itself */

    int64_t mono;
    int64_t wall_offset;
    struct event *events; /* heap */
    size_t event_count, event_room;
    uint64_t event_order, events_run;

    struct server server;
    struct client *clients;
    size_t client_count;
    struct call *calls; /* number 0 is not used */
    size_t call_count, call_room;
    struct task *tasks;
    size_t task_count, task_room;
    uint64_t *seqs; /* of jobs seen in replies */
    size_t seq_count, seq_room;
    struct span queues[PLAN_QUEUES];
    uint64_t wake_total;
    bool draining;
    uint64_t nonce;
    uint32_t last_keyed; /* a call with an idempotency key */
    struct span last_unique, last_unique_queue;
    struct keeper keeper;
};

/* world.c */
bool world_run(
    struct world *w); /* true: nothing wrong so far; the history is still to be checked */
void world_init(struct world *w, const struct plan *plan, const struct random *random,
                struct coverage *coverage);
void world_done(struct world *w);
void world_blame(struct world *w, enum check check, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void schedule(struct world *w, int64_t delay_ms, enum sim_event_kind kind, uint32_t who,
              uint64_t what);
/* Handles the next event; false when there is no event or something is wrong. */
bool world_step(struct world *w);
struct now world_now(const struct world *w); /* simulation's own time and the server's wall clock */
bool chance(struct world *w, unsigned percent);
int64_t between(struct world *w, int64_t low, int64_t high);

/* server.c */
void server_start(struct world *w);
void server_stop(struct world *w); /* frees everything */
void server_arrive(struct world *w, uint32_t call);
void server_turn(struct world *w);
void server_tick(struct world *w);
void server_commit(struct world *w);
void server_read(struct world *w, size_t read);
void server_crash(struct world *w);
void server_apply(struct world *w);
void server_provide(struct world *w);
void server_full(struct world *w, bool full);
bool server_idle(struct world *w);
/* Compares the living state with what a recovery would give; everything must be durable. */
void server_compare(struct world *w);
uint64_t server_live(struct world *w);                       /* waiting or running jobs */
bool server_stalled(struct world *w, const struct event *e); /* puts the event off */

/* clients.c: producers and workers */
void client_act(struct world *w, uint32_t client);
void client_answer(struct world *w, size_t entry);
void client_timeout(struct world *w, uint32_t call, unsigned send);
void client_task(struct world *w, uint32_t task);
void client_wake(struct world *w); /* a job became ready somewhere */
struct call *call_new(struct world *w, uint32_t client, enum op_kind kind, unsigned sends_max,
                      uint32_t *ret);
void call_send(struct world *w, uint32_t call);
void seq_seen(struct world *w, uint64_t seq);
struct span any_queue(struct world *w);

/* admin.c */
void admin_act(struct world *w, uint32_t client);
/* drain.c: no more faults, everything runs out, then the last reads. */
void drain(struct world *w);
/* Asks on behalf of the client that only drains; `apart`: for the keepers. */
void drain_ask(struct world *w, const struct op *op, bool apart);
void drain_settle(struct world *w); /* runs until the server has answered everything */
