/* SPDX-License-Identifier: Apache-2.0 */
/* The checker: reads a history and says whether the server kept its promises. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "sim/checker/history.h"

enum check {
    CHECK_NONE,
    CHECK_C1,  /* no confirmed enqueue, progress, log line or step is lost */
    CHECK_C2,  /* nothing is invented, nothing happens twice, payloads are equal */
    CHECK_C3,  /* no lease after a confirmed ack (or cancel, remove, purge) */
    CHECK_C4,  /* never two live leases; a live lease is honoured */
    CHECK_C5,  /* an older token never succeeds; no token is issued twice */
    CHECK_C6,  /* attempts are counted; dead exactly once */
    CHECK_C7,  /* priority, then sequence; nothing ready is passed over */
    CHECK_C8,  /* a unique key is never live twice */
    CHECK_C9,  /* never before run_at */
    CHECK_C10, /* everything drains; counters equal a recount; capacity holds */
    CHECK_C11, /* a key is there exactly if the move is that it was written with */
    CHECK_C12, /* a time of a schedule makes one job at most; no firing is lost */
    CHECK_C13, /* a trigger's job holds its items while it lives, and alone */
    CHECK_C14, /* a notice is there exactly if what it tells of happened, until it is delivered */
    CHECK_C19, /* a job is done exactly if what it handed off is there */
    CHECK_C20, /* a job starts after those on which it depends have ended as declared, and once */
    CHECK_C21, /* no more jobs run, or start within a window, than the limits of a queue allow */
    CHECK_C22, /* groups take turns, and no job starts before one that is older for its priority */
    /* Not from the history, but from the machine around it: */
    CHECK_VERIFY,  /* engine_verify found something */
    CHECK_REPLAY,  /* recovered state differs from the state that lived */
    CHECK_MODEL,   /* the engine and the model disagree */
    CHECK_MEMORY,  /* an op refused for lack of memory changed something */
    CHECK_DRIVER,  /* a call failed that must not */
    CHECK_JOURNAL, /* the journal lost, changed, invented or refused something */
    CHECK_DIED,    /* the process died: an assertion, a sanitizer */
    CHECK_COUNT
};

const char *check_name(enum check c); /* "C1" … "verify" … */

struct violation {
    enum check check; /* CHECK_NONE: all is well */
    uint64_t seq;     /* the job concerned; 0 = none */
    size_t entry;     /* of the history */
    char text[240];
};

/* True when nothing is wrong; otherwise *ret says what was found first. */
bool checker_run(const struct history *h, struct violation *ret);
