/* SPDX-License-Identifier: Apache-2.0 */
/* Pages of lists that are in the order of a name: queues, schedules, alerts, breakers, workers.
 *
 * A page has up to `limit` items whose names follow `cursor`; `next_cursor` is the name of its last
 * item, or null when there are no more. */
#pragma once

#include "api/v1/v1_impl.h"

struct name_page {
    struct span cursor; /* empty = from the beginning */
    int64_t limit;
    struct span last; /* the last item that was taken */
    bool more;        /* items follow it */
};

#define NAME_PAGE_LIMIT 100 /* without `limit` */
/* The rows of `cursor` and `limit`, for a list with other parameters; `member` is the page. */
#define NAME_PAGE_ROWS(type, member)                                                               \
    {"cursor", FIELD_TEXT,      offsetof(type, member) + offsetof(struct name_page, cursor),       \
     0,        LIMIT_URL_BYTES, NULL,                                                              \
     0},                                                                                           \
    {                                                                                              \
        "limit", FIELD_INT, offsetof(type, member) + offsetof(struct name_page, limit), 1,         \
            LIMIT_BATCH, NULL, 0                                                                   \
    }

/* Reads `limit` and `cursor`, and no other parameter, from the query. The page is in the request's
 * arena; NULL after a problem was sent. */
struct name_page *name_page_read(struct broker *b, struct http_exchange *x);
/* A call that lists a page, which is in c->more; NULL after a problem was sent. */
struct call *name_page_call(void *ctx, struct http_exchange *x, enum op_kind kind, call_fn done);
/* For a list that is in memory as a whole, called for each item in the order of the names: whether
 * the item is in the page. */
bool name_page_takes(struct name_page *p, struct span name);
/* Writes `next_cursor` after the last item. */
void name_page_end(const struct name_page *p, struct json_writer *w);
