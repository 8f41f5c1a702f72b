/* SPDX-License-Identifier: Apache-2.0 */
/* GET /v1/kv/watch: changes of keys as they become durable, each with the current value of the
 * key. A change that was followed by another one may be left out. A gap means that changes may
 * have been lost and that the client must list the keys again. */
#include <inttypes.h>
#include <stdio.h>

#include "api/json_members.h"
#include "api/v1/v1_impl.h"
#include "core/kvkey.h"
#include "core/limits.h"

#define NUMBER_TEXT_BYTES 24
#define KINDS (UINT64_C(1) << EVENT_KV_SET | UINT64_C(1) << EVENT_KV_DELETED)

static bool event_cb(void *ctx, const struct broker_event *e)
{
    struct stream *s = ctx;
    struct json_writer w;
    char id[NUMBER_TEXT_BYTES];
    struct kv_view gone = {.key = e->event.key};
    const struct kv_view *v = e->kv ? e->kv : &gone;
    bool there = v->found;
    snprintf(id, sizeof id, "%" PRIu64, e->event.id);
    stream_frame_begin(s, there ? "set" : "deleted", id, &w);
    json_write_object(&w);
    if (there) {
        write_kv(&w, v);
    } else {
        json_write_key(&w, "key");
        kvkey_write(&w, e->event.key);
        write_uint(&w, "version", e->event.version);
    }
    json_write_object_end(&w);
    return stream_frame_send(s, &w);
}

static bool gap_cb(void *ctx, uint64_t oldest)
{
    struct stream *s = ctx;
    struct json_writer w;
    char id[NUMBER_TEXT_BYTES];
    snprintf(id, sizeof id, "%" PRIu64, oldest);
    stream_frame_begin(s, "gap", NULL, &w);
    json_write_object(&w);
    write_text(&w, "oldest", id);
    json_write_object_end(&w);
    return stream_frame_send(s, &w);
}

struct watch_in {
    struct span prefix;
    int64_t after;
};

static const struct field rows[] = {
    {"prefix", FIELD_KV_KEY, offsetof(struct watch_in, prefix), 0, 0, NULL, 0},
    {"after", FIELD_INT, offsetof(struct watch_in, after), 0, INT64_MAX, NULL, 0},
};

static const struct field last_id_row[] = {
    {"Last-Event-ID", FIELD_INT, 0, 0, INT64_MAX, NULL, 0},
};

void kv_watch_handle(void *ctx, struct http_exchange *x)
{
    struct native *n = ctx;
    struct watch_in in = {0};
    struct problem p;
    struct field_reader r = reader_of(n->broker, x, FIELDS(rows), &in, &p);
    struct span last = http_request_header(http_request(x), "last-event-id");
    int err = fields_read_query(&r, http_request(x)->query);
    bool resume = err == 0 && (fields_has(&r, "after") || last.len > 0);
    if (err == 0 && last.len > 0) { /* a client that reconnects automatically sends it */
        struct field_reader header = r;
        header.table = FIELDS(last_id_row);
        header.into = &in.after;
        err = fields_read_one(&header, 0, last);
    }
    if (err < 0) {
        problem_answer(x, &p);
        return;
    }
    stream_listen(&n->streams, x,
                  (struct broker_listener_config){.kinds = KINDS,
                                                  .prefix = in.prefix,
                                                  .values = true,
                                                  .resume = resume,
                                                  .after = (uint64_t)in.after,
                                                  .event = event_cb,
                                                  .gap = gap_cb});
}
