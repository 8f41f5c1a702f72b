/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/alerts/curl_loop.h"

#include <stdbool.h>

#include "base/check.h"
#include "base/mem.h"

struct watched_socket {
    struct curl_loop *owner;
    uv_poll_t poll;
    curl_socket_t fd;
};

static void results_take(struct curl_loop *l)
{
    int left;
    CURLMsg *message;
    while ((message = curl_multi_info_read(l->multi, &left)) != NULL) {
        void *call = NULL;
        CURLcode code = message->data.result;
        if (message->msg == CURLMSG_DONE &&
            curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &call) == CURLE_OK)
            l->done(call, code);
    }
}

static void handle_closed(struct curl_loop *l)
{
    if (--l->handles == 0 && l->closed)
        l->closed(l);
}

static void socket_closed_cb(uv_handle_t *handle)
{
    struct watched_socket *s = handle->data;
    struct curl_loop *l = s->owner;
    mem_free(s);
    handle_closed(l);
}

static void poll_cb(uv_poll_t *poll, int status, int events)
{
    struct watched_socket *s = poll->data;
    struct curl_loop *l = s->owner;
    int flags = status < 0 ? CURL_CSELECT_ERR : 0, running;
    if (events & UV_READABLE)
        flags |= CURL_CSELECT_IN;
    if (events & UV_WRITABLE)
        flags |= CURL_CSELECT_OUT;
    curl_multi_socket_action(l->multi, s->fd, flags, &running);
    results_take(l);
}

static struct watched_socket *socket_watch(struct curl_loop *l, curl_socket_t fd)
{
    struct watched_socket *s = mem_zalloc(sizeof *s);
    if (!s || uv_poll_init_socket(l->loop, &s->poll, fd) != 0) {
        mem_free(s);
        return NULL;
    }
    s->owner = l;
    s->fd = fd;
    s->poll.data = s;
    l->handles++;
    curl_multi_assign(l->multi, fd, s);
    return s;
}

/* Always 0: any other value would end every present and future call. */
static int socket_cb(CURL *curl, curl_socket_t fd, int what, void *ctx, void *of_socket)
{
    struct curl_loop *l = ctx;
    struct watched_socket *s = of_socket;
    char *call = NULL;
    if (what == CURL_POLL_REMOVE) {
        if (s) {
            curl_multi_assign(l->multi, fd, NULL);
            uv_close((uv_handle_t *)&s->poll, socket_closed_cb);
        }
        return 0;
    }
    if (!s)
        s = socket_watch(l, fd);
    int events = (what & CURL_POLL_IN ? UV_READABLE : 0) | (what & CURL_POLL_OUT ? UV_WRITABLE : 0);
    bool watched = s && uv_poll_start(&s->poll, events, poll_cb) == 0;
    if (!watched && l->unwatched && curl_easy_getinfo(curl, CURLINFO_PRIVATE, &call) == CURLE_OK &&
        call)
        l->unwatched(call);
    return 0;
}

static void timer_cb(uv_timer_t *timer)
{
    struct curl_loop *l = timer->data;
    int running;
    curl_multi_socket_action(l->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    results_take(l);
}

/* Must not call back into libcurl, so "now" is the next iteration of the loop. */
static int time_cb(CURLM *multi, long ms, void *ctx)
{
    struct curl_loop *l = ctx;
    (void)multi;
    if (ms < 0)
        uv_timer_stop(&l->timer);
    else
        uv_timer_start(&l->timer, timer_cb, (uint64_t)ms, 0);
    return 0;
}

static bool multi_set(struct curl_loop *l)
{
    return curl_multi_setopt(l->multi, CURLMOPT_SOCKETFUNCTION, socket_cb) == CURLM_OK &&
           curl_multi_setopt(l->multi, CURLMOPT_SOCKETDATA, l) == CURLM_OK &&
           curl_multi_setopt(l->multi, CURLMOPT_TIMERFUNCTION, time_cb) == CURLM_OK &&
           curl_multi_setopt(l->multi, CURLMOPT_TIMERDATA, l) == CURLM_OK;
}

int curl_loop_open(struct curl_loop *l, uv_loop_t *loop)
{
    l->multi = curl_multi_init();
    if (!l->multi || !multi_set(l)) {
        curl_multi_cleanup(l->multi);
        return -ERR_NOMEM;
    }
    l->loop = loop;
    CHECK(uv_timer_init(loop, &l->timer) == 0);
    l->timer.data = l;
    l->handles = 1;
    return 0;
}

static void timer_closed_cb(uv_handle_t *handle)
{
    handle_closed(handle->data);
}

void curl_loop_close(struct curl_loop *l, void (*closed)(struct curl_loop *l))
{
    l->closed = closed;
    curl_multi_cleanup(l->multi); /* closes its remaining sockets */
    uv_close((uv_handle_t *)&l->timer, timer_closed_cb);
}
