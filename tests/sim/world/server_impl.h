/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the server: server.c serves, server_disk.c makes durable, applies, recovers. */
#pragma once

#include "sim/world/disk_journal.h"
#include "sim/world/world.h"

/* ---- server.c ---- */
struct now server_now(const struct world *w);
struct engine *engine_of(struct world *w);
void drop_process(struct world *w); /* its memory; the disk stays */
void server_go_on(struct world *w); /* after a commit: timers and turns */

/* ---- server_disk.c ---- */

/* Something is wrong that is the journal's fault, if there is one. */
void blame_disk(struct world *w, const char *what, const struct err_note *note);
/* Begins to write what waits, unless something is being written. */
void start_commit(struct world *w);
/* Tells the commit gate what the store has. */
void server_applied(struct world *w);
/* Frames past the first `before` have become durable. */
void became_durable(struct world *w, size_t before);
/* Fills the new engine from store and journal. False: the process died in the middle (and will
 * start again), or something is wrong. */
bool server_recover(struct world *w);
/* What the end of the process leaves on the disk. */
void server_disk_crash(struct world *w);

/* ---- views.c ---- */

/* Checks what the history does not keep of a reply. */
void views_look(struct world *w, const struct reply *r);
