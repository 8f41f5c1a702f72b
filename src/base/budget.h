/* SPDX-License-Identifier: Apache-2.0 */
/* One memory budget for everything that connections hold, whatever protocol they speak.
 *
 * Each connection has an account. Its owner charges the account when a buffer grows and gives the
 * bytes back when the buffer shrinks or is freed; the budget only counts.
 *
 * The first BUDGET_OWN_BYTES of each account are its own share. They are never refused, so that
 * health checks, acks, claims and a drain work whatever others hold; the limits of the number of
 * connections bound their sum. What accounts hold beyond that may fill the budget but for its last
 * eighth, which is left for the own shares. If very many connections have used up more than that,
 * the others may still hold half of the budget beyond their own shares.
 *
 * A charge that does not fit sheds other connections first: those that hold the most and have made
 * the least progress. Candidates are the accounts that hold more than their own share and whose
 * owner says that it waits (budget_waits): for its client, which has sent half of a body or does
 * not read a reply, or for a job, which may never come. They are kept in lists by the magnitude of
 * what they hold, and a charge looks only at the first account of each list. Of these the one with
 * the largest product of bytes held and time without progress is shed, if it has made no progress
 * for BUDGET_IDLE_MS or holds at least four times as much as the account that asks. So small
 * requests are never kept out by large ones, and of two large uploads that both make progress
 * neither displaces the other.
 *
 * Each list is in the order of the last progress, but for this: the work of a call is bounded, so
 * an account whose last progress was a while ago takes its place after a look at a few others. What
 * is ensured is that if any account of a list has made no progress for twice BUDGET_IDLE_MS, the
 * first one has made none for BUDGET_IDLE_MS and can be shed.
 *
 * Progress means that a 64th of what the account holds was moved since the last progress: a client
 * that sends a byte now and then makes none.
 *
 * Not thread-safe: everything happens on the loop thread. Times are loop time in milliseconds. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/containers/link.h"
#include "base/err.h"

#define BUDGET_OWN_BYTES ((uint64_t)8 << 10)
#define BUDGET_IDLE_MS 1000
#define BUDGET_CLASSES 64
#define BUDGET_NO_LIMIT UINT64_MAX

/* What memory is held for; the word is a label of the metrics. */
#define BUDGET_KIND_TABLE(X)                                                                       \
    X(CONNECTIONS, "connections") /* sockets and requests without their bodies */                  \
    X(BODIES, "bodies")           /* of requests */                                                \
    X(REPLIES, "replies")         /* not read by their clients yet */                              \
    X(STREAMS, "streams")         /* event streams and their listeners */                          \
    X(TLS, "tls")                 /* sessions and their buffers */
enum budget_kind {
#define BUDGET_ENUM(name, word) BUDGET_##name,
    BUDGET_KIND_TABLE(BUDGET_ENUM)
#undef BUDGET_ENUM
        BUDGET_KINDS,
};
const char *budget_kind_name(enum budget_kind kind);

/* Why a connection was shed. */
#define BUDGET_SHED_TABLE(X)                                                                       \
    X(BODY, "body")     /* its request was not complete: answered 503 or OUT_OF_MEMORY */          \
    X(REPLY, "reply")   /* its client did not read its replies: closed */                          \
    X(STREAM, "stream") /* its client did not read its stream: closed */                           \
    X(WAIT, "wait")     /* it waited for a job: answered 503, or closed */                         \
    X(IDLE, "idle")     /* its TLS session did nothing: closed */
enum budget_shed {
#define BUDGET_ENUM(name, word) BUDGET_SHED_##name,
    BUDGET_SHED_TABLE(BUDGET_ENUM)
#undef BUDGET_ENUM
        BUDGET_SHED_REASONS,
};
const char *budget_shed_name(enum budget_shed reason);

struct budget_figures {
    uint64_t total; /* BUDGET_NO_LIMIT = none */
    uint64_t held, by_kind[BUDGET_KINDS];
    uint64_t peak;                      /* of held */
    uint64_t shed[BUDGET_SHED_REASONS]; /* connections */
    uint64_t refused;                   /* charges that did not fit */
};

struct budget {
    struct budget_figures figures;
    uint64_t large_limit;                /* for accounts that hold more than their own share */
    uint64_t shared;                     /* held by all accounts beyond their own shares */
    struct link waiting[BUDGET_CLASSES]; /* accounts that wait for their client, by magnitude */
    uint64_t classes;                    /* bit n: waiting[n] may have members */
    uint64_t now_ms;                     /* as told last, for calls that are not told */
    bool shedding;                       /* a connection is being shed: no other one is */
};

/* Ends the request or the connection, gives back what it can before it returns, and says why. */
typedef enum budget_shed (*budget_shed_fn)(void *ctx);

struct budget_account {
    struct budget *budget;
    struct link link;     /* in one of the lists while it waits */
    uint64_t held;        /* bytes of all kinds */
    uint64_t moved;       /* bytes since the last progress */
    uint64_t progress_ms; /* the last progress */
    budget_shed_fn shed;
    void *ctx;
    bool waits;
};

/* total: BUDGET_NO_LIMIT counts and refuses nothing. */
void budget_init(struct budget *b, uint64_t total);

/* The account must stay where it is until it is closed. shed may be NULL when it never waits. */
void budget_open(struct budget_account *a, struct budget *b, budget_shed_fn shed, void *ctx,
                 uint64_t now_ms);
/* Whatever it still holds must have been given back or moved: that is checked. */
void budget_close(struct budget_account *a);

/* Charges, after shedding others if need be; false: it does not fit, and nothing was charged. That
 * never happens while the account holds no more than its own share. May
 * call the shed functions of other accounts, never that of this one, before it returns. */
MUST_CHECK bool budget_take(struct budget_account *a, enum budget_kind kind, uint64_t bytes,
                            uint64_t now_ms);
/* Charges in any case: for what is there already and cannot be refused. */
void budget_add(struct budget_account *a, enum budget_kind kind, uint64_t bytes);
void budget_give(struct budget_account *a, enum budget_kind kind, uint64_t bytes);
/* The bytes now belong to another account of the same budget. */
void budget_move(struct budget_account *from, struct budget_account *to, uint64_t bytes);

/* Whether the owner waits for its client or for a job, and may therefore be shed. For an account
 * that holds no more than its own share this need not be told. */
void budget_waits(struct budget_account *a, bool waits);
/* The client has sent or received this many bytes. */
void budget_progress(struct budget_account *a, uint64_t bytes, uint64_t now_ms);

/* The default for a machine: an eighth of its memory, at least `least`, at most 2 GiB. */
uint64_t budget_default(uint64_t machine_bytes, uint64_t least);
