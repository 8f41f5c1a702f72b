/* SPDX-License-Identifier: Apache-2.0 */
/* The notification connection receives on a channel which queues have ready jobs, and which running
 * jobs are to be cancelled; stores announce them there (unit/store.c). The slow poll finds what a
 * lost message announced. */
#include "backend/redis/impl.h"

void rd_notify_opened_cb(void *ctx)
{
    struct rd_store *s = ctx;
    struct rargs a;
    char channel[REDIS_PREFIX_BYTES + 8];
    snprintf(channel, sizeof channel, "%swake", s->url.prefix);
    redis_args_init(&a);
    redis_conn_listen(s->listener);
    if (s->url.password[0]) {
        redis_args_text(&a, "AUTH");
        if (s->url.user[0])
            redis_args_text(&a, s->url.user);
        redis_args_text(&a, s->url.password);
        redis_conn_send(s->listener, &a, NULL, NULL);
    }
    redis_args_text(&a, "SUBSCRIBE");
    redis_args_text(&a, channel);
    redis_conn_send(s->listener, &a, NULL, NULL);
    redis_args_done(&a);
    /* Messages that were sent meanwhile are lost. */
    shared_watches_wake(&s->sh, (struct span){NULL, 0});
}

void rd_notify_lost_cb(void *ctx, const char *why)
{
    (void)why; /* the write connection logs it */
    rd_timer_set(ctx);
}

/* Messages contain the epoch of the sender, so that a node ignores its own. */
void rd_notify_received_cb(void *ctx, const redisReply *r)
{
    struct rd_store *s = ctx;
    struct span kind = reply_span(reply_at(r, 0)), text = reply_span(reply_at(r, 2));
    if (r->type == REDIS_REPLY_ERROR) {
        log_event(s->sh.config.log, LOG_WARN, "redis_subscribe_failed", LOG_TEXT("text", r->str));
        return;
    }
    const char *space = text.len ? memchr(text.at, ' ', text.len) : NULL;
    if (!span_equal(kind, SPAN_LITERAL("message")) || !space ||
        strtoul(text.at, NULL, 10) == s->sh.facts.epoch)
        return;
    size_t len = text.len - (size_t)(space + 1 - text.at), sign = strlen(REDIS_SIGN_CANCEL);
    if (len > sign && memcmp(space + 1, REDIS_SIGN_CANCEL, sign) == 0) {
        shared_events_cancel(&s->sh, space + 1 + sign); /* hiredis ends each text with a NUL */
        shared_events_call(&s->sh);
        return;
    }
    /* A job there may be due before anything that this node knows. */
    s->sh.tick_wanted = true;
    s->contended = true;
    shared_watches_wake(&s->sh, span_of(space + 1, len));
    rd_pipeline_later(s);
}
