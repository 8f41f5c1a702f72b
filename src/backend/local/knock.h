/* SPDX-License-Identifier: Apache-2.0 */
/* How the threads wake the loop: an eventfd that it polls.
 *
 * Not uv_async_t: woken while the sender is still inside uv_async_send, its receiver spins, and
 * then yields the processor. When both threads share one, that is the rule. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <uv.h>

#include "base/err.h"

struct knock {
    uv_poll_t poll; /* its data is the owner's */
    int fd;
    bool open;
    atomic_bool pending; /* told, not heard yet: telling again costs nothing */
    void (*fn)(void *ctx);
    void *ctx;
};

/* fn is called on the loop's thread after knocks, once for many. -ERR_IO: no descriptor. */
MUST_CHECK int knock_open(struct knock *k, uv_loop_t *loop, void (*fn)(void *ctx), void *ctx);
/* From any thread. */
void knock_send(struct knock *k);
/* Nobody listens any more; closed is called with the poll's handle. Knocks still do no harm until…
 */
void knock_close(struct knock *k, uv_close_cb closed);
/* …here. One that is all zero, or did not open, is allowed. */
void knock_done(struct knock *k);
