/* SPDX-License-Identifier: Apache-2.0 */
/* Wakes the loop from other threads, through an eventfd that the loop polls.
 *
 * This is not uv_async_t: if its receiver wakes while the sender is still inside uv_async_send, it
 * spins and then yields the processor. This is the usual case when both threads share one
 * processor. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <uv.h>

#include "base/err.h"

struct loop_wake {
    uv_poll_t poll; /* its data is the owner's */
    int fd;
    bool open;
    atomic_bool pending; /* sent but not received yet: sending again costs nothing */
    void (*fn)(void *ctx);
    void *ctx;
};

/* fn is called on the loop's thread after loop_wake_send, once for many calls. -ERR_IO: no
 * descriptor. */
MUST_CHECK int loop_wake_open(struct loop_wake *w, uv_loop_t *loop, void (*fn)(void *ctx),
                              void *ctx);
/* From any thread. */
void loop_wake_send(struct loop_wake *w);
/* No further calls of fn; `closed` is called with the poll's handle. Sending is still allowed
 * until… */
void loop_wake_close(struct loop_wake *w, uv_close_cb closed);
/* …here. An object that is all zero, or did not open, is allowed. */
void loop_wake_done(struct loop_wake *w);
