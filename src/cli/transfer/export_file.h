/* SPDX-License-Identifier: Apache-2.0 */
/* The file an export becomes: NDJSON, on standard output or under its own name.
 *
 *   {"holdfast":"export","version":1,"created_at":…,"source":…,"made_by":…,"secrets":false}
 *   {"queue":{…}}         one line a queue
 *   {"kv":{…}}            one line a key of the key-value store: jobs may look for it
 *   {"job":{…}}           one line a job
 *   {"schedule":{…}}      one line a schedule, behind the jobs: it fires from when it is there
 *   {"alert":{…}}         one line an alert rule, without its secret
 *   {"end":{"queues":n,"jobs":n,"schedules":n,"keys":n,"alerts":n,"damaged":n,"skipped":n}}
 *
 * Queues and jobs are taken as the API shows them and written in the words of the format, so that a
 * server's answer and a store that is read directly give the same lines. A file is written as
 * NAME.part and gets its name when it is whole; without the last line it is not. */
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
    uint64_t damaged; /* jobs and keys that the server could not read as they were written */
    bool progress;    /* standard error is a terminal */
};

/* name NULL = standard output. force: a file of that name may be there already. -ERR_INVALID with a
 * sentence when it is, -ERR_IO, -ERR_NOMEM; there is nothing to give back then. */
MUST_CHECK int export_open(struct export_file *f, const char *name, bool force,
                           struct err_note *note);
/* The first line. source: where the jobs come from. */
MUST_CHECK int export_begin(struct export_file *f, const char *source, struct wall_time now,
                            struct err_note *note);
/* A queue, a job, as GET shows them; valid JSON. */
MUST_CHECK int export_queue(struct export_file *f, struct span view, struct err_note *note);
MUST_CHECK int export_job(struct export_file *f, struct span view, struct err_note *note);
MUST_CHECK int export_schedule(struct export_file *f, struct span view, struct err_note *note);
MUST_CHECK int export_key(struct export_file *f, struct span view, struct err_note *note);
MUST_CHECK int export_alert(struct export_file *f, struct span view, struct err_note *note);
/* The last line; skipped: jobs known to be missing. Syncs the file and gives it its name. */
MUST_CHECK int export_end(struct export_file *f, uint64_t skipped, struct err_note *note);
/* Gives everything back; what is not whole is removed. */
void export_close(struct export_file *f);
