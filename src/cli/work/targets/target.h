/* SPDX-License-Identifier: Apache-2.0 */
/* src/cli/work/targets has what a job is passed to: a command with its processes, or an HTTP
 * address. It may use the rest of cli/work, core and base.
 *
 * What a target, a command or an HTTP address, reports about its job. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"
#include "cli/work/targets/outcome.h"

struct target_end {
    struct verdict verdict;
    struct span output; /* its first WORK_RESULT_BYTES_MAX bytes */
    uint64_t output_bytes;
    const char *error;      /* a sentence; NULL = the end of standard error is the error */
    int64_t retry_after_ms; /* 0 = not given */
    bool rate_limited;
    bool handoff;   /* the output is a hand-off, which contains the result */
    bool no_reply;  /* of an HTTP target; `error` has the reason */
    bool by_itself; /* it ended before it was terminated */
    bool abandoned; /* some processes survived SIGKILL */
};

/* The owner's callbacks. The spans are valid during the call. `ended` is called once, last, and
 * never before the start function has returned; then the target is freed. */
struct target_owner {
    void (*errors)(void *ctx, struct span bytes);  /* of standard error */
    void (*progress)(void *ctx, struct span line); /* without its line break */
    void (*ended)(void *ctx, const struct target_end *end);
    void *ctx;
};
