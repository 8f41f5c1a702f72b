/* SPDX-License-Identifier: Apache-2.0 */
/* The fields of Redis values at fixed offsets, each defined once.
 *
 * C code reads and writes a field by its name, ROW_GET(row, job, state) and ROW_PUT; Lua code
 * writes ${job.state(row)}, which the generator (cmake/embed.c) replaces with byte(row, 7) when the
 * program is built. Numbers are written with the most significant byte first, so that they sort as
 * bytes. The fixed fields are followed by varints, which only C reads.
 *
 * The order of the rows is the order of the bytes. A field that is added, moved or resized changes
 * the format: raise ROW_VERSION (row.h), by which a row is read, and REDIS_FORMAT
 * (connection/handshake.h), by which a server refuses keys of another version when it starts. */
#pragma once

#include <endian.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define SMALL_PAYLOAD_BYTES 4096 /* a payload up to this size is returned together with a claim */

/* Properties of a job; the field `has` of a job. */
enum row_bit {
    ROW_EXPIRES = 1,
    ROW_SMALL = 2, /* its payload has at most SMALL_PAYLOAD_BYTES */
    ROW_PAYLOAD = 4,
    ROW_RESULT = 8,
    ROW_ERROR = 16,
    ROW_ATTEMPTS = 32, /* attempts that ended, progress or a log: the keys a:SEQ, w:SEQ */
    ROW_BOUND = 64,    /* it runs on a lease that ends with a connection */
    ROW_ITEM = 128,    /* it is held by the job of a trigger, without a time limit */
};

/* F(row, field, bytes, kind) */

/* A job: the hash `row`, by sequence. */
#define JOB_FIELDS(F)                                                                              \
    F(job, version, 1, FIELD_BYTE)                                                                 \
    F(job, revision, 4, FIELD_NUMBER)      /* raised by every change */                            \
    F(job, has, 1, FIELD_BYTE)             /* bits, enum row_bit */                                \
    F(job, state, 1, FIELD_BYTE)           /* enum job_state */                                    \
    F(job, queue, 4, FIELD_NUMBER)         /* number of the queue */                               \
    F(job, order, 8, FIELD_BYTES)          /* sorts ready jobs: the highest priority is first */   \
    F(job, expires_at, 8, FIELD_NUMBER)    /* ms; 0 = it does not expire */                        \
    F(job, since, 8, FIELD_NUMBER)         /* ms: when it came into this state */                  \
    F(job, token_epoch, 4, FIELD_NUMBER)   /* of the newest lease … */                           \
    F(job, token_counter, 8, FIELD_NUMBER) /* … and its second part */                           \
    F(job, nonce, 8, FIELD_BYTES)          /* names the claim that got it; 0 = none */             \
    F(job, generation, 4, FIELD_BYTES)     /* of the queue; a purge raises that one */             \
    F(job, unique_bytes, 2, FIELD_NUMBER)  /* length of the unique key, which follows */

/* A queue: the hash `queues`, by number. */
#define QUEUE_FIELDS(F)                                                                            \
    F(queue, version, 1, FIELD_BYTE)                                                               \
    F(queue, revision, 4, FIELD_NUMBER)                                                            \
    F(queue, generation, 4, FIELD_BYTES)    /* waiting jobs of another one are purged */           \
    F(queue, paused_until, 8, FIELD_NUMBER) /* ms */                                               \
    F(queue, unique_scope, 1, FIELD_BYTE)   /* enum unique_scope */                                \
    F(queue, keep_done, 8, FIELD_NUMBER)    /* done jobs that are kept, and cancelled ones … */  \
    F(queue, keep_done_ms, 8, FIELD_NUMBER) /* … and for how long */                             \
    F(queue, keep_dead, 8, FIELD_NUMBER)                                                           \
    F(queue, keep_dead_ms, 8, FIELD_NUMBER)

/* A member of the sorted set of ready jobs. */
#define READY_FIELDS(F)                                                                            \
    F(ready, order, 8, FIELD_BYTES) /* as in the job */                                            \
    F(ready, seq, 8, FIELD_BYTES)

/* What a queue with limits at the claim uses: the field `use` of the hash `q:N:l`. */
#define USE_FIELDS(F)                                                                              \
    F(use, full_us, 8, FIELD_NUMBER) /* of its bucket */                                           \
    F(use, round, 8, FIELD_NUMBER)

/* The place of a group among those of its queue: a member of `q:N:p`, where the group follows, and
 * a value of the hash `q:N:k`, by group, where its state follows (lua/limits.lua). */
#define PLACE_FIELDS(F)                                                                            \
    F(place, order, 8, FIELD_BYTES) /* of its first job, by claim_priority */                      \
    F(place, round, 8, FIELD_NUMBER)                                                               \
    F(place, seq, 8, FIELD_BYTES)

/* The name of a job wherever it is a member or a field: its sequence. */
#define SEQ_FIELDS(F) F(seq, number, 8, FIELD_NUMBER)

/* An idempotency key: the hash `idem`, by the key's hash. */
#define IDEM_FIELDS(F)                                                                             \
    F(idem, fingerprint, 8, FIELD_NUMBER) /* of the request */                                     \
    F(idem, seq, 8, FIELD_BYTES)          /* the job it created */                                 \
    F(idem, id_hi, 8, FIELD_NUMBER)                                                                \
    F(idem, expires_at, 8, FIELD_NUMBER) /* ms */

/* An attempt that ended: the list `a:SEQ`. */
#define ATTEMPT_FIELDS(F)                                                                          \
    F(attempt, started_at, 8, FIELD_NUMBER)                                                        \
    F(attempt, ended_at, 8, FIELD_NUMBER)                                                          \
    F(attempt, number, 4, FIELD_NUMBER)

/* An attempt that failed: the list `wrong`. The rest identifies the attempt. */
#define WRONG_FIELDS(F) F(wrong, seq, 8, FIELD_BYTES)

/* A schedule: the hash `sched`, by number. */
#define SCHEDULE_FIELDS(F)                                                                         \
    F(schedule, version, 1, FIELD_BYTE)                                                            \
    F(schedule, revision, 4, FIELD_NUMBER)                                                         \
    F(schedule, last_seq, 8, FIELD_BYTES) /* the last job that it enqueued */

/* A notice: the hash `notice`, by number. The name of its alert follows. */
#define NOTICE_FIELDS(F)                                                                           \
    F(notice, version, 1, FIELD_BYTE)                                                              \
    F(notice, revision, 4, FIELD_NUMBER)                                                           \
    F(notice, due, 8, FIELD_NUMBER) /* ms */                                                       \
    F(notice, alert_bytes, 1, FIELD_BYTE)

/* The properties of a key of the key-value store: the hash `kvm`, by key. */
#define KV_FIELDS(F)                                                                               \
    F(kv, version, 8, FIELD_NUMBER)                                                                \
    F(kv, expires_at, 8, FIELD_NUMBER) /* ms; 0 = it does not expire */                            \
    F(kv, kind, 1, FIELD_BYTE)                                                                     \
    F(kv, value_bytes, 4, FIELD_NUMBER)

/* What a job depends on: the hash `dep`, by sequence. */
#define DEPENDENT_FIELDS(F)                                                                        \
    F(dependent, rule, 1, FIELD_BYTE) /* enum dependency_rule */                                   \
    F(dependent, open, 1, FIELD_BYTE) /* more parents may be added */                              \
    F(dependent, total, 4, FIELD_NUMBER)                                                           \
    F(dependent, done, 4, FIELD_NUMBER)                                                            \
    F(dependent, dead, 4, FIELD_NUMBER)                                                            \
    F(dependent, cancelled, 4, FIELD_NUMBER)                                                       \
    F(dependent, removed, 4, FIELD_NUMBER)

/* S(row, span, first field, last field): consecutive fields that are read together as bytes. */
#define ROW_SPANS(S)                                                                               \
    S(job, token, token_epoch, token_counter)                                                      \
    S(job, checked, version, revision) /* what a store compares */                                 \
    S(attempt, identity, started_at, number)

#define ROW_LAYOUTS(F, S)                                                                          \
    JOB_FIELDS(F)                                                                                  \
    QUEUE_FIELDS(F)                                                                                \
    READY_FIELDS(F)                                                                                \
    USE_FIELDS(F)                                                                                  \
    PLACE_FIELDS(F)                                                                                \
    SEQ_FIELDS(F)                                                                                  \
    IDEM_FIELDS(F)                                                                                 \
    ATTEMPT_FIELDS(F)                                                                              \
    WRONG_FIELDS(F)                                                                                \
    SCHEDULE_FIELDS(F) NOTICE_FIELDS(F) KV_FIELDS(F) DEPENDENT_FIELDS(F) ROW_SPANS(S)

/* One struct of bytes for each, so that offsetof gives the offset of a field. */
#define ROW_MEMBER(row, name, bytes, kind) char name[bytes];
struct job_layout {
    JOB_FIELDS(ROW_MEMBER)
};
struct queue_layout {
    QUEUE_FIELDS(ROW_MEMBER)
};
struct ready_layout {
    READY_FIELDS(ROW_MEMBER)
};
struct use_layout {
    USE_FIELDS(ROW_MEMBER)
};
struct place_layout {
    PLACE_FIELDS(ROW_MEMBER)
};
struct seq_layout {
    SEQ_FIELDS(ROW_MEMBER)
};
struct idem_layout {
    IDEM_FIELDS(ROW_MEMBER)
};
struct attempt_layout {
    ATTEMPT_FIELDS(ROW_MEMBER)
};
struct wrong_layout {
    WRONG_FIELDS(ROW_MEMBER)
};
struct schedule_layout {
    SCHEDULE_FIELDS(ROW_MEMBER)
};
struct notice_layout {
    NOTICE_FIELDS(ROW_MEMBER)
};
struct kv_layout {
    KV_FIELDS(ROW_MEMBER)
};

struct dependent_layout {
    DEPENDENT_FIELDS(ROW_MEMBER)
};

#define ROW_AT(row, field) offsetof(struct row##_layout, field)
#define ROW_BYTES(row, field) sizeof(((struct row##_layout *)0)->field)
#define ROW_END(row, field) (ROW_AT(row, field) + ROW_BYTES(row, field))
#define ROW_HEAD(row) sizeof(struct row##_layout) /* all fixed places */

static inline uint64_t row_field_get(const char *at, size_t bytes)
{
    uint16_t two;
    uint32_t four;
    uint64_t eight;
    switch (bytes) {
    case 1:
        return (uint8_t)*at;
    case sizeof two:
        memcpy(&two, at, sizeof two);
        return be16toh(two);
    case sizeof four:
        memcpy(&four, at, sizeof four);
        return be32toh(four);
    default:
        memcpy(&eight, at, sizeof eight);
        return be64toh(eight);
    }
}

static inline void row_field_put(char *at, size_t bytes, uint64_t v)
{
    uint16_t two = htobe16((uint16_t)v);
    uint32_t four = htobe32((uint32_t)v);
    uint64_t eight = htobe64(v);
    switch (bytes) {
    case 1:
        *at = (char)(uint8_t)v;
        break;
    case sizeof two:
        memcpy(at, &two, sizeof two);
        break;
    case sizeof four:
        memcpy(at, &four, sizeof four);
        break;
    default:
        memcpy(at, &eight, sizeof eight);
    }
}

/* A field of at most eight bytes, as a number. `from` is the first byte of the row. */
#define ROW_GET(from, row, field)                                                                  \
    row_field_get((const char *)(from) + ROW_AT(row, field), ROW_BYTES(row, field))
#define ROW_PUT(from, row, field, v)                                                               \
    row_field_put((char *)(from) + ROW_AT(row, field), ROW_BYTES(row, field), (uint64_t)(v))
/* A field as bytes. */
#define ROW_SPAN(from, row, field)                                                                 \
    span_of((const char *)(from) + ROW_AT(row, field), ROW_BYTES(row, field))
