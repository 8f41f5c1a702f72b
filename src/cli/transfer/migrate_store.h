/* SPDX-License-Identifier: Apache-2.0 */
/* The two stores of a migration, with one operation at a time.
 *
 * A store is opened as a server would open it, but its clock is stopped: in the source it is
 * 1970, so that nothing is due, expires or is pruned; in the target it is the time at which the
 * migration began. Replies outlive the call that returned them. */
#pragma once

#include "backend/backend.h"
#include "base/containers/arena.h"
#include "cli/client/client.h"

struct migrate_store {
    const char *role; /* "source", "target": for messages */
    const char *url;
    uv_loop_t *loop;
    struct clock_manual clock;
    unsigned needs;          /* enum backend_cap: required capabilities */
    struct backend *backend; /* NULL = not open */
};

/* Opens the store with its clock stopped at `now`. Refuses a store that lacks a capability, and
 * one that other nodes use. CLIENT_DONE, or another status after a message. */
int migrate_open(struct migrate_store *s, struct wall_time at, struct wall_time now);
void migrate_close(struct migrate_store *s); /* if it is open; runs the loop until it is closed */

/* Submits one operation and returns its reply, also for a refusal; free it with mem_free. NULL:
 * no memory, or the store is closing; a message was printed. */
struct reply *migrate_ask(struct migrate_store *s, struct op op);
/* The same; for an outcome other than OUT_OK it prints a message, sets the exit status and
 * returns NULL. */
struct reply *migrate_need(struct migrate_store *s, struct op op, const char *what,
                           int *ret_status);
/* Submits many operations at once; answers[i] is the reply to ops[i]. CLIENT_DONE, or no memory:
 * then there are no replies. */
int migrate_ask_all(struct migrate_store *s, const struct op *ops, size_t count,
                    struct reply **answers);
void migrate_answers_free(struct reply **answers, size_t count);

/* Prints the outcome and returns the exit status. */
int migrate_refused(const struct migrate_store *s, const char *what, const struct reply *reply);

/* A page of jobs by rising sequence. */
struct job_page {
    struct reply *list;
    struct reply **more;   /* the attempts of each job */
    struct job_view *jobs; /* both combined */
    uint32_t count;
    uint64_t next; /* where the next page begins; 0 = this was the last */
};
enum page_with {
    PAGE_BARE,
    PAGE_WHOLE,  /* bodies, attempts, and what a job depends on */
    PAGE_BLOCKED /* the same without bodies, of blocked jobs only */
};
/* CLIENT_DONE, or another status after a message. The page must be freed. */
int job_page_read(struct migrate_store *s, uint64_t after, enum page_with with,
                  struct job_page *ret);
void job_page_free(struct job_page *p);
