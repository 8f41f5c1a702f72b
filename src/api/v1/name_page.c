/* SPDX-License-Identifier: Apache-2.0 */
#include "api/v1/name_page.h"

#include "api/json_members.h"
#include "core/limits.h"

struct page_in {
    struct name_page page;
};
static const struct field rows[] = {NAME_PAGE_ROWS(struct page_in, page)};

struct name_page *name_page_read(struct broker *b, struct http_exchange *x)
{
    struct problem p;
    struct name_page first = {.limit = NAME_PAGE_LIMIT};
    struct name_page *page = arena_copy(http_request(x)->arena, &first, sizeof first);
    if (!page) {
        answer_error(x, -ERR_NOMEM);
        return NULL;
    }
    struct field_reader r = reader_of(b, x, FIELDS(rows), page, &p);
    return query_read(&r, x) ? page : NULL;
}

struct call *name_page_call(void *ctx, struct http_exchange *x, enum op_kind kind, call_fn done)
{
    struct name_page *page = name_page_read(broker_of(ctx), x);
    struct call *c = page ? call_new(broker_of(ctx), ctx, x, kind, done) : NULL;
    if (!c)
        return NULL;
    http_alone(x);
    c->more = page;
    return c;
}

bool name_page_takes(struct name_page *p, struct span name)
{
    if (p->cursor.len > 0 && span_order(name, p->cursor) <= 0)
        return false;
    if (p->limit == 0) {
        p->more = true;
        return false;
    }
    p->limit--;
    p->last = name;
    return true;
}

void name_page_end(const struct name_page *p, struct json_writer *w)
{
    write_next_cursor(w, p->more ? p->last : (struct span){NULL, 0});
}
