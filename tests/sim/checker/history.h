/* SPDX-License-Identifier: Apache-2.0 */
/* What happened at the server's border, in order: all that the checker gets to see.
 *
 * An entry is one request as it was handed to the server (a request sent or duplicated twice makes
 * two), with the reply that left, if one did; or a crash, a boot, a jump of the wall clock, the end
 * of the faults. There is one submitter, so requests take effect in the order of their entries.
 *
 * `mono` is the simulation's own time, which runs on through crashes and stalls; `wall` is what the
 * server's wall clock showed. Spans point into the history's pool or to memory that lives longer.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "ops/op.h"
#include "sim/pool.h"

enum hist_kind {
    HIST_OP,
    HIST_CRASH,   /* the process died; records after `position` never became durable */
    HIST_BOOT,    /* the process is back; `position` covers what the boot wrote */
    HIST_WALL,    /* the wall clock was set; `wall` is the new time */
    HIST_STALL,   /* the process stands still; `position` says for how many ms */
    HIST_DRAINED, /* no more faults, no more work: what follows are the last reads */
    HIST_KIND_COUNT
};

/* While leases run, the server looks at the time twice a second, and a second is a standstill. */
#define SHORT_STALL_MS 400

struct hist_job {
    struct job job;
    struct span queue;
    struct job_token token;
    uint32_t lease_ms;
    struct lease_limits limits;
    uint64_t holder; /* the job that holds its lease; 0 = none */
    bool has_body;
    struct span group, payload, attributes, label;
    struct span progress, log; /* of a get that asked for them */
    struct span steps;         /* likewise, or of a claim with bodies */
};

struct hist_kv {
    struct span key, value;
    bool found;
    uint64_t version;
};

struct hist_schedule {
    struct span name;
    struct schedule_state state;
};

struct hist_notice {
    uint64_t number, job;
    struct span alert;
    uint32_t tries;
    uint8_t state;
};

struct hist_queue {
    struct span name;
    struct queue_policy policy;
    struct wall_time paused_until;
    uint64_t by_state[STATE_COUNT];
};

struct hist_entry {
    enum hist_kind kind;
    int64_t mono, wall; /* when it was handed over, ms */
    uint64_t position;  /* the server's, right after the batch that contained it */
    /* HIST_OP */
    uint32_t call; /* the request: equal for repeats of the same one */
    bool apart;    /* a keeper's: checked by keeps.c alone */
    struct op op;
    bool strained; /* memory was short: a claim may come back with less than there is */
    bool replied;  /* false: the outcome is not known */
    int64_t replied_mono;
    struct reply reply; /* its pointers mean nothing: here are its lists */
    uint32_t job_count, queue_count, kv_count, schedule_count, notice_count, enqueued_count;
    struct hist_job *jobs;
    struct hist_queue *queues;
    struct hist_kv *kvs;
    struct hist_schedule *schedules;
    struct hist_notice *notices;
    struct enqueued_view *enqueued;
};

struct history {
    struct pool pool;
    struct queue_policy policy; /* of queues made by the first enqueue */
    bool wild;                  /* anything may happen to what keepers have */
    uint64_t key_ttl_ms;        /* how long idempotency keys hold */
    struct hist_entry *entries;
    size_t count, room;
    uint64_t hash; /* over everything recorded so far */
};

void history_init(struct history *h, const struct queue_policy *policy, uint64_t key_ttl_ms);
void history_done(struct history *h);

/* A request is handed over; its op must live as long as the history. Returns the entry's number. */
size_t history_op(struct history *h, uint32_t call, const struct op *op, struct now now);
/* The batch that began with entry `first` has been taken; the server stands at this position. */
void history_taken(struct history *h, size_t first, uint64_t position, bool strained);
void history_reply(struct history *h, size_t entry, const struct reply *reply, int64_t mono);
void history_event(struct history *h, enum hist_kind kind, uint64_t position, struct now now);

/* Prints the entry in one line. */
void history_print(const struct history *h, size_t entry, FILE *out);
/* Prints the last `limit` entries up to `upto` that concern the job (or, seq 0, all). */
void history_print_job(const struct history *h, uint64_t seq, size_t upto, size_t limit, FILE *out);
const char *op_kind_name(enum op_kind kind);
