/* SPDX-License-Identifier: Apache-2.0 */
/* The watches for jobs that become ready, by the hash of the queue's name. */
#pragma once

#include "backend/backend.h"
#include "base/containers/map.h"

struct watches {
    struct map128 by_name;         /* → one of the watches of this name */
    struct backend_watch *first;   /* all of them */
    struct backend_watch *removed; /* to be freed when no signal is being sent */
    unsigned signalling;           /* depth of watches_signal: nothing is freed meanwhile */
};

void watches_init(struct watches *w);

MUST_CHECK int watches_add(struct watches *w, struct hash128 name, backend_signal_fn fn, void *ctx,
                           struct backend_watch **ret);
/* No signal after it returns; may be called from inside a signal. */
void watches_remove(struct watches *w, struct backend_watch *one);
/* Calls the watches of this name; watches of other names cost nothing. */
void watches_signal(struct watches *w, struct hash128 name);
void watches_done(struct watches *w); /* frees the watches that were not removed */
