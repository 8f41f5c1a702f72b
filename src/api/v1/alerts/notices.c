/* SPDX-License-Identifier: Apache-2.0 */
/* The outbox of notices: read, deliver again, discard. */
#include "api/json_members.h"
#include "api/v1/v1_impl.h"
#include "broker/event_json.h"
#include "core/limits.h"

#define LIST_LIMIT 100

static void write_notice(struct json_writer *w, const struct notice_view *v)
{
    struct event_view event;
    event_of_notice(&event, v, NULL);
    event.error = (struct span){NULL, 0}; /* the member `error` is that of the delivery */
    json_write_object(w);
    event_members_write(w, &event);
    write_text(w, "state", notice_state_name(v->tried.state));
    write_uint(w, "attempts", v->tried.tries);
    if (v->tried.state == NOTICE_PENDING)
        write_time(w, "next_at", v->tried.due);
    if (v->tried.status)
        write_uint(w, "status", v->tried.status);
    write_span_if(w, "error", v->tried.error);
    write_span(w, "url", v->url);
    json_write_object_end(w);
}

static struct call *notice_call(struct native *n, struct http_exchange *x, enum op_kind kind,
                                call_fn done)
{
    struct job_ref id;
    struct call *c =
        query_none(n->broker, x) && path_job(x, &id) ? call_new(n->broker, n, x, kind, done) : NULL;
    if (c)
        c->op.notice.id = id;
    return c;
}

static void notice_got(struct call *c, const struct reply *r)
{
    struct json_writer w;
    answer_begin(c->x, &w);
    write_notice(&w, &r->notices[0]);
    answer_end(c->x, &w, 200);
}

void notice_get_handle(void *ctx, struct http_exchange *x)
{
    call_submit(notice_call(ctx, x, OP_NOTICE_LIST, notice_got));
}

/* The notice may have been delivered by now, so only its new state is shown. */
static void notice_again(struct call *c, const struct reply *r)
{
    struct json_writer w;
    (void)r;
    answer_object_begin(c->x, &w);
    write_span(&w, "id", http_request(c->x)->params[0]);
    write_text(&w, "state", notice_state_name(NOTICE_PENDING));
    answer_object_end(c->x, &w, 200);
}

void notice_redeliver_handle(void *ctx, struct http_exchange *x)
{
    call_submit(body_none(broker_of(ctx), x) ? notice_call(ctx, x, OP_NOTICE_AGAIN, notice_again)
                                             : NULL);
}

static void notice_discarded(struct call *c, const struct reply *r)
{
    struct json_writer w;
    (void)r;
    answer_object_begin(c->x, &w);
    write_span(&w, "id", http_request(c->x)->params[0]);
    write_bool(&w, "discarded", true);
    answer_object_end(c->x, &w, 200);
}

void notice_delete_handle(void *ctx, struct http_exchange *x)
{
    call_submit(body_none(broker_of(ctx), x)
                    ? notice_call(ctx, x, OP_NOTICE_DISCARD, notice_discarded)
                    : NULL);
}

/* ---- lists ---- */

struct list_in {
    struct job_ref cursor;
    int64_t limit;
};

static const struct field list_rows[] = {
    {"cursor", FIELD_JOB, offsetof(struct list_in, cursor), 0, 0, NULL, 0},
    {"limit", FIELD_INT, offsetof(struct list_in, limit), 1, LIMIT_BATCH, NULL, 0},
};

static void notices_listed(struct call *c, const struct reply *r)
{
    struct json_writer w;
    answer_object_begin(c->x, &w);
    write_array(&w, "notices");
    for (uint32_t i = 0; i < r->notice_count; i++)
        write_notice(&w, &r->notices[i]);
    json_write_array_end(&w);
    char cursor[ID_ULID_BYTES] = "";
    if (r->notice_cursor) {
        const struct rec_notice_new *last = &r->notices[r->notice_count - 1].notice;
        id_ulid(id_make(last->id_hi, last->number), cursor);
    }
    write_next_cursor(&w, span_text(cursor));
    call_write_partial(c, &w);
    answer_object_end(c->x, &w, 200);
}

void notice_list_handle(void *ctx, struct http_exchange *x)
{
    struct list_in in = {.limit = LIST_LIMIT};
    struct problem p;
    struct field_reader r = reader_of(broker_of(ctx), x, FIELDS(list_rows), &in, &p);
    if (!query_read(&r, x))
        return;
    struct call *c = call_new(broker_of(ctx), ctx, x, OP_NOTICE_LIST, notices_listed);
    if (!c)
        return;
    http_alone(x);
    c->op.notice = (struct op_notice){.after = in.cursor.seq, .limit = (uint32_t)in.limit};
    call_submit(c);
}
