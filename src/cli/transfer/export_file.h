/* SPDX-License-Identifier: Apache-2.0 */
/* src/cli/transfer moves jobs between servers, files and stores: export, import, migrate, restore.
 * It may use everything, including backends and the offline readers of stores.
 *
 * The file of an export: NDJSON, on standard output or in a file.
 *
 *   {"holdfast":"export","version":1,"created_at":…,"source":…,"made_by":…,"secrets":false}
 *   {"queue":{…}}         one line per queue
 *   {"kv":{…}}            one line per key of the key-value store, before the jobs that may read it
 *   {"job":{…}}           one line per job
 *   {"schedule":{…}}      one line per schedule, after the jobs, because it fires once it exists
 *   {"alert":{…}}         one line per alert rule, without its secret
 *   {"end":{"queues":n,"jobs":n,"schedules":n,"keys":n,"alerts":n,"damaged":n,"skipped":n}}
 *
 * Queues and jobs are written from the views of the API, so that the export of a server and of a
 * store that is read directly have the same lines. A file is written as NAME.part and renamed when
 * it is complete; without the last line it is not complete. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/containers/arena.h"
#include "base/err.h"
#include "base/span.h"
#include "base/system/clock.h"

#define EXPORT_VERSION 1

struct export_file {
    FILE *out;
    char *name, *part; /* NULL = standard output */
    bool force;
    struct buf line;
    struct arena arena; /* of the line that is being written */
    uint64_t queues, jobs, schedules, keys, alerts;
    uint64_t damaged; /* jobs and keys that the server could not read */
    bool progress;    /* standard error is a terminal */
};

/* name NULL = standard output. force: a file with this name may exist. -ERR_INVALID with a
 * sentence if it exists, -ERR_IO, -ERR_NOMEM; then nothing has to be freed. */
MUST_CHECK int export_open(struct export_file *f, const char *name, bool force,
                           struct err_note *note);
/* Writes the first line. source: where the jobs come from. */
MUST_CHECK int export_begin(struct export_file *f, const char *source, struct wall_time now,
                            struct err_note *note);
/* Write a queue, a job …, in the form of GET; valid JSON. */
MUST_CHECK int export_queue(struct export_file *f, struct span view, struct err_note *note);
MUST_CHECK int export_job(struct export_file *f, struct span view, struct err_note *note);
MUST_CHECK int export_schedule(struct export_file *f, struct span view, struct err_note *note);
MUST_CHECK int export_key(struct export_file *f, struct span view, struct err_note *note);
MUST_CHECK int export_alert(struct export_file *f, struct span view, struct err_note *note);
/* Writes the last line; skipped: jobs known to be missing. Syncs the file and renames it. */
MUST_CHECK int export_end(struct export_file *f, uint64_t skipped, struct err_note *note);
/* Frees everything; an incomplete file is removed. */
void export_close(struct export_file *f);
