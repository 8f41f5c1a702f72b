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

struct loop_wake {
    uv_poll_t poll; /* its data is the owner's */
    int fd;
    bool open;
    atomic_bool pending; /* told, not heard yet: telling again costs nothing */
    void (*fn)(void *ctx);
    void *ctx;
};

/* fn is called on the loop's thread after loop_wake_send, once for many calls. -ERR_IO: no
 * descriptor. */
MUST_CHECK int loop_wake_open(struct loop_wake *w, uv_loop_t *loop, void (*fn)(void *ctx),
                              void *ctx);
/* From any thread. */
void loop_wake_send(struct loop_wake *w);
/* No one listens any more; closed is called with the poll's handle. Sending still does no harm
 * until… */
void loop_wake_close(struct loop_wake *w, uv_close_cb closed);
/* …here. One that is all zero, or did not open, is allowed. */
void loop_wake_done(struct loop_wake *w);
