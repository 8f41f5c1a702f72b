/* SPDX-License-Identifier: Apache-2.0 */
/* libcurl's multi interface on a loop of libuv: libcurl says which sockets to watch and when to
 * call it again; libuv does both. It is part of the struct of its owner, whose calls are handles
 * with the call as CURLOPT_PRIVATE. */
#pragma once

#include <curl/curl.h>
#include <uv.h>

#include "base/err.h"

struct curl_loop {
    uv_loop_t *loop;
    CURLM *multi;
    uv_timer_t timer;
    size_t handles; /* open uv handles: the timer, and one for each socket */
    /* The call has ended. May add and remove handles. */
    void (*done)(void *call, CURLcode code);
    /* There was no memory to watch the socket of the call; it must not call libcurl. NULL: the call
     * ends at its time limit. */
    void (*unwatched)(void *call);
    void (*closed)(struct curl_loop *l); /* set by curl_loop_close */
};

/* done and unwatched are set. -ERR_NOMEM. */
MUST_CHECK int curl_loop_open(struct curl_loop *l, uv_loop_t *loop);
/* All handles have been removed. Calls `closed` when libuv no longer uses l. */
void curl_loop_close(struct curl_loop *l, void (*closed)(struct curl_loop *l));
