/* SPDX-License-Identifier: Apache-2.0 */
/* The file of --config: a list of workers, each with the options of the command line.
 *
 *   workers:
 *     - queues: [mail]
 *       command: [./send-mail, --fast]
 *       concurrency: 4
 *     - queues: invoices
 *       url: http://127.0.0.1:9000/hook
 */
#pragma once

#include "base/containers/arena.h"
#include "config/options.h"

struct work_entry {
    char **argv; /* as on the command line; argv[0] is the name of the command */
    int argc;
};

struct work_entries {
    struct work_entry *list;
    size_t count;
};

/* Reads the file and checks every worker in it. `args` may have --server and --json, which apply
 * to all workers without their own. All memory is in the arena. -ERR_INVALID with a sentence
 * that names the line, -ERR_IO, -ERR_NOMEM. */
MUST_CHECK int work_config_read(const char *path, const struct arguments *args, struct arena *arena,
                                struct work_entries *ret, struct err_note *note);
/* The same from a text; `path` is for messages. */
MUST_CHECK int work_config_parse(const char *path, struct span text, const struct arguments *args,
                                 struct arena *arena, struct work_entries *ret,
                                 struct err_note *note);
