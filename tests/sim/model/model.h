/* SPDX-License-Identifier: Apache-2.0 */
/* The reference model: what the operations of backend/op.h mean, in the plainest way.
 *
 * Arrays and linear scans; no records, no indexes, no slices. Written from the headers, to be
 * compared with the engine step by step. It takes two things from the engine that the headers leave
 * open, after checking what they do say: the tokens (they must rise) and the sequences (likewise).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "ops/op.h"

#define MODEL_QUEUES 8
#define MODEL_JOBS 4096
#define MODEL_KEYS 1024
#define MODEL_BULKS 64
#define MODEL_WORDS 8192
#define MODEL_VIEWS 256
#define MODEL_GROUPS 64

struct model_job {
    bool there;
    uint64_t seq, id_hi;
    uint32_t queue; /* index */
    uint8_t state, reason;
    int64_t priority, run_at, since;
    uint64_t entered; /* order of entering its state */
    uint32_t failures, crashes;
    struct span unique, group; /* borrowed from the op, which outlives the model */
    int64_t expires_at;
    const struct job_options *options;
    /* running */
    struct job_token token;
    uint32_t lease_ms;
    int64_t until; /* lease time */
    int64_t armed; /* when its end is looked at next; an extension moves only `until` */
    uint64_t nonce;
    bool bound;
    uint32_t timeout_ms;          /* 0 = no limit */
    int64_t limit;                /* lease time; until never goes beyond it */
    int64_t cancel_at, cancel_by; /* wall; 0 = no cancel is requested */
    uint32_t grace_ms;
};

struct model_queue {
    bool there;
    struct span name;
    struct queue_policy policy;
    int64_t paused_until;
    struct queue_counts counts; /* only the totals; the rest is counted when asked for */
    uint64_t round;             /* the highest in which a group started a job */
    int64_t full_us;            /* its bucket */
    bool over;                  /* kept more finished jobs than it should, in this batch */
    uint64_t purged;            /* gone, but counted as removed only with the next tick */
};

/* A group of jobs in a queue, or those without one. */
struct model_group {
    uint32_t queue;
    struct span name;
    uint64_t round;  /* in which it may start its next job */
    int64_t full_us; /* its bucket */
};

struct model_key {
    struct span key;
    uint64_t fingerprint, seq;
    int64_t expires_at;
};

/* How a lease ended by its holder's word. */
struct model_word {
    uint64_t seq;
    struct job_token token;
    enum op_kind kind;
    uint8_t state;
    int64_t run_at;
};

struct model_bulk {
    const struct op_bulk *op;
    uint64_t tag;
    uint64_t entered_max; /* the horizon: what came to be, or into its state, later is left alone */
    uint32_t queue;
};

struct model_reply {
    enum op_kind kind;
    enum outcome outcome;
    enum outcome or_else; /* this is right, too: what was said before a restart may be forgotten */
    uint64_t tag;
    bool repeat, created;
    uint8_t state;
    uint64_t seq, replaced_seq, changed, refused;
    int64_t run_at;
    int64_t cancel_by, left_ms; /* extend, cancel */
    uint32_t jobs[MODEL_VIEWS]; /* indexes in model.jobs */
    uint32_t job_count;
    bool any_order;             /* peek: of these jobs; in which order is the engine's to say */
    struct queue_counts counts; /* queue_get */
};

struct model {
    struct queue_policy policy;
    bool no_auto_create;
    uint64_t capacity, key_ttl_ms, keys_max;
    int64_t stall_ms, jump_ms;
    bool suspect;
    bool stepped;
    struct now last;
    int64_t skipped_ms;
    struct model_queue queues[MODEL_QUEUES];
    struct model_job jobs[MODEL_JOBS];
    uint32_t job_count;
    struct model_group groups[MODEL_GROUPS];
    uint32_t group_count;
    struct model_key keys[MODEL_KEYS];
    uint32_t key_count;
    int64_t key_latest; /* expiries never go back */
    struct model_word words[MODEL_WORDS];
    uint32_t word_count;
    struct model_bulk bulks[MODEL_BULKS];
    uint32_t bulk_count;
    uint64_t entered;
    uint32_t epoch; /* boots */
    struct now now;
    struct model_reply *reply; /* of the op at work */
    /* Retention has to remove one of several jobs that ended in the same millisecond: any will do,
     * so the engine is asked which it took. */
    bool (*is_gone)(void *ctx, uint64_t seq);
    void *is_gone_ctx;
};

void model_init(struct model *m, const struct queue_policy *policy);
/* The time of the next ops. */
void model_time(struct model *m, struct now now);
/* Every op but OP_TICK, OP_LIST and OP_QUEUE_LIST. OP_BULK has no reply yet: returns false. */
bool model_op(struct model *m, const struct op *op, struct model_reply *ret);
/* After each op of a batch: notes which queues keep more finished jobs than they should … */
void model_mark(struct model *m);
/* … for after the batch: those are pruned at once, also when a later op let them keep more. */
void model_trim(struct model *m);
/* Everything that time brings, and all bulk actions; their replies are appended. */
uint32_t model_tick(struct model *m, struct model_reply *ret, uint32_t room);
void model_boot(struct model *m, struct now now);

struct model_job *model_find(struct model *m, uint64_t seq);
