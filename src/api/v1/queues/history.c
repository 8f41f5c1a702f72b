/* SPDX-License-Identifier: Apache-2.0 */
/* Counters of a queue by the hour, and pages of a ranked queue's jobs from any offset. */
#include "api/json_members.h"
#include "api/v1/jobs/job_view.h"
#include "api/v1/v1_impl.h"
#include "core/limits.h"

#define HOUR_MS INT64_C(3600000)
#define PAGE_LIMIT 50

/* ---- GET /v1/queues/{queue}/history ---- */

void counters_write(struct json_writer *w, const struct counters *t)
{
    static const char *const names[COUNTER_COUNT] = {
        [COUNTER_ENQUEUED] = "enqueued",
        [COUNTER_CLAIMED] = "claimed",
        [COUNTER_ACKED] = "acked",
        [COUNTER_FAILED_APP] = "failed_app",
        [COUNTER_FAILED_BUSINESS] = "failed_business",
        [COUNTER_CRASHED] = "crashed",
        [COUNTER_RELEASED] = "released",
        [COUNTER_DIED] = "died",
        [COUNTER_CANCELLED] = "cancelled",
        [COUNTER_WAITED_MS] = "waited_ms",
        [COUNTER_DONE_MS] = "done_ms",
        [COUNTER_FAILED_MS] = "failed_ms",
        [COUNTER_DIED_MS] = "died_ms",
    };
    for (int i = 0; i < COUNTER_COUNT; i++)
        write_uint(w, names[i], t->of[i]);
}

struct history_in {
    struct wall_time from, to;
};

static const struct field history_rows[] = {
    {"from", FIELD_TIME, offsetof(struct history_in, from), 0, 0, NULL, 0},
    {"to", FIELD_TIME, offsetof(struct history_in, to), 0, 0, NULL, 0},
};

static void history_read(struct call *c, const struct reply *r)
{
    struct json_writer w;
    answer_object_begin(c->x, &w);
    write_span(&w, "queue", c->op.history.queue);
    write_array(&w, "hours");
    for (uint32_t i = 0; i < r->hour_count; i++) {
        json_write_object(&w);
        write_time(&w, "hour", (struct wall_time){r->hours[i].hour * HOUR_MS});
        counters_write(&w, &r->hours[i].counters);
        json_write_object_end(&w);
    }
    json_write_array_end(&w);
    call_write_partial(c, &w);
    answer_object_end(c->x, &w, 200);
}

/* Whole hours, from the one that contains `from` to the one that contains `to`. Hours older than
 * 30 days may still be stored if nothing has happened since; they are not shown. */
void queue_history_handle(void *ctx, struct http_exchange *x)
{
    struct span queue;
    struct problem p;
    struct wall_time now = broker_now(broker_of(ctx)).wall;
    uint32_t hour = (uint32_t)(now.ms / HOUR_MS);
    uint32_t oldest = hour >= HISTORY_HOURS ? hour - HISTORY_HOURS + 1 : 0;
    struct history_in in = {.to = {(hour + 1) * HOUR_MS}};
    struct field_reader r = reader_of(broker_of(ctx), x, FIELDS(history_rows), &in, &p);
    if (!path_queue(x, &queue))
        return;
    if (!query_read(&r, x))
        return;
    struct call *c = call_new(broker_of(ctx), ctx, x, OP_HISTORY, history_read);
    if (!c)
        return;
    uint32_t from = (uint32_t)(in.from.ms / HOUR_MS);
    c->op.history = (struct op_history){.queue = queue,
                                        .from = from > oldest ? from : oldest,
                                        .to = (uint32_t)((in.to.ms + HOUR_MS - 1) / HOUR_MS)};
    call_submit(c);
}

/* ---- GET /v1/queues/{queue}/jobs ---- */

struct page_in {
    uint64_t states;
    struct span unique;
    int64_t offset, limit;
    bool payload;
};

#define AT(member) offsetof(struct page_in, member)
static const struct field page_rows[] = {
    {"state", FIELD_ENUM_SET, AT(states), STATE_SCHEDULED, 0, native_states, 0},
    {"unique", FIELD_TEXT, AT(unique), FILTER_MIN, LIMIT_KEY_BYTES, NULL, 0},
    {"offset", FIELD_INT, AT(offset), 0, INT64_MAX, NULL, 0},
    {"limit", FIELD_INT, AT(limit), 1, LIMIT_BATCH, NULL, 0},
    {"payload", FIELD_BOOL, AT(payload), 0, 0, NULL, 0},
};

static void page_read(struct call *c, const struct reply *r)
{
    struct json_writer w;
    struct wall_time now = broker_now(c->broker).wall;
    unsigned flags = *(const bool *)c->more ? VIEW_PAYLOAD : 0;
    answer_object_begin(c->x, &w);
    write_array(&w, "jobs");
    for (uint32_t i = 0; i < r->job_count; i++)
        job_view_write(&w, &r->jobs[i], now, flags);
    json_write_array_end(&w);
    write_uint(&w, "offset", c->op.page.offset);
    write_uint(&w, "total", r->job_total);
    call_write_partial(c, &w);
    answer_object_end(c->x, &w, 200);
}

void queue_page_handle(void *ctx, struct http_exchange *x)
{
    struct span queue;
    struct problem p;
    struct page_in in = {.limit = PAGE_LIMIT};
    struct field_reader r = reader_of(broker_of(ctx), x, FIELDS(page_rows), &in, &p);
    if (!path_queue(x, &queue))
        return;
    if (!query_read(&r, x))
        return;
    struct call *c = call_new(broker_of(ctx), ctx, x, OP_PAGE, page_read);
    bool *payload = c ? arena_copy(c->arena, &in.payload, sizeof in.payload) : NULL;
    if (!payload) {
        if (c)
            answer_error(x, -ERR_NOMEM);
        return;
    }
    http_alone(x);
    c->more = payload;
    c->op.page = (struct op_page){.queue = queue,
                                  .states = (unsigned)in.states,
                                  .unique = in.unique,
                                  .offset = (uint64_t)in.offset,
                                  .limit = (uint32_t)in.limit,
                                  .want_body = true};
    call_submit(c);
}
