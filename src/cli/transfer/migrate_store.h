/* SPDX-License-Identifier: Apache-2.0 */
/* The two stores of a migration, asked one question after the other.
 *
 * A store is opened as a server would open it, but time stands still in it: in the source it is
 * 1970, so that nothing is due there, expires or is pruned; in the target it is the moment at which
 * the migration began. Answers outlive the call that brought them. */
#pragma once

#include "backend/backend.h"
#include "base/containers/arena.h"
#include "cli/client/client.h"

struct migrate_store {
    const char *role; /* "source", "target": for messages */
    const char *url;
    uv_loop_t *loop;
    struct clock_manual clock;
    unsigned needs;          /* enum backend_cap: what it must be able to do */
    struct backend *backend; /* NULL = not open */
};

/* Opens, with the time that stands still in it; now: what time it is. Refuses a store that lacks
 * what it needs, and one that other nodes use. CLIENT_DONE, or another status, and why is said. */
int migrate_open(struct migrate_store *s, struct wall_time at, struct wall_time now);
void migrate_close(struct migrate_store *s); /* when it is open; turns the loop until it is done */

/* One operation: its answer, to be given back with mem_free, also when it is a refusal. NULL: no
 * memory, or the store is closing; said. */
struct reply *migrate_ask(struct migrate_store *s, struct op op);
/* The same, and anything but OUT_OK is said and gives NULL, with the status to end with. */
struct reply *migrate_need(struct migrate_store *s, struct op op, const char *what,
                           int *ret_status);
/* Many at once, in order; answers[i] is that of ops[i]. CLIENT_DONE, or no memory: none is there
 * then. */
int migrate_ask_all(struct migrate_store *s, const struct op *ops, size_t count,
                    struct reply **answers);
void migrate_answers_free(struct reply **answers, size_t count);

/* Says what came instead of OUT_OK, and with which status that ends. */
int migrate_refused(const struct migrate_store *s, const char *what, const struct reply *reply);

/* A page of jobs by rising sequence. */
struct job_page {
    struct reply *list;
    struct reply **more;   /* of each job its attempts */
    struct job_view *jobs; /* both put together */
    uint32_t count;
    uint64_t next; /* where the next page begins; 0 = this was the last */
};
enum page_with { PAGE_BARE, PAGE_WHOLE /* bodies and attempts */ };
/* CLIENT_DONE, or said. The page is to be given back. */
int job_page_read(struct migrate_store *s, uint64_t after, enum page_with with,
                  struct job_page *ret);
void job_page_free(struct job_page *p);
