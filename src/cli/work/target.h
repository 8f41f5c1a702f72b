/* SPDX-License-Identifier: Apache-2.0 */
/* What a target, a command or an HTTP address, tells about a job that it works on. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"
#include "cli/work/outcome.h"

struct target_end {
    struct verdict verdict;
    struct span output; /* its first WORK_RESULT_BYTES_MAX bytes */
    uint64_t output_bytes;
    const char *error;      /* a sentence; NULL = the end of standard error says it */
    int64_t retry_after_ms; /* 0 = not said */
    bool rate_limited;
    bool abandoned; /* processes were left that SIGKILL does not end */
};

/* Who is told. The spans are valid during the call. `ended` comes once, last, and never before the
 * start function has returned; the target is freed behind it. */
struct target_owner {
    void (*errors)(void *ctx, struct span bytes);  /* of standard error */
    void (*progress)(void *ctx, struct span line); /* without its line break */
    void (*ended)(void *ctx, const struct target_end *end);
    void *ctx;
};
