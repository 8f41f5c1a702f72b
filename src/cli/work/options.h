/* SPDX-License-Identifier: Apache-2.0 */
/* The options of `holdfast work`, and the plan that they describe. A new option is a row of
 * work_options and a member of struct work_plan; work_plan_build checks it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>

#include "base/containers/arena.h"
#include "cli/client/http/endpoint.h"
#include "cli/work/targets/outcome.h"
#include "config/options.h"
#include "core/queues/policy.h"

enum { WORK_OPTION_COUNT = 21 };
extern const struct option work_options[WORK_OPTION_COUNT];

/* What one runner does. Texts are from the command line, or in the arena of work_plan_build. */
struct work_plan {
    struct client_endpoint to;
    const char *const *queues;
    size_t queue_count;
    char *const *command;   /* NULL-terminated; NULL with a URL */
    const char *url;        /* NULL with a command */
    const char *name;       /* of the worker */
    const char *breaker;    /* NULL = none */
    unsigned concurrency;   /* jobs at once */
    struct rate_limit rate; /* count 0 = no limit */
    int64_t poll_ms;        /* how long a claim waits for a job */
    int64_t lease_ms;
    int64_t timeout_ms;      /* of one job; 0 = none */
    int64_t kill_after_ms;   /* from SIGTERM to SIGKILL */
    int64_t stop_timeout_ms; /* from the first signal until the commands are terminated */
    int64_t max_age_ms;      /* age up to which a job is released while its target is busy */
    bool drain;              /* stop mode drain: until no job is ready */
    bool until_empty;
    bool once;
    bool json; /* log lines */
    struct exit_map exits;
    struct rlimit files; /* limit of open files, for the commands */
};

/* Reads the options; the arguments before `--` are queues, those after it are the command.
 * -ERR_INVALID with a sentence, -ERR_NOMEM. */
MUST_CHECK int work_plan_build(const struct arguments *args, struct arena *arena,
                               struct work_plan *ret, struct err_note *note);
