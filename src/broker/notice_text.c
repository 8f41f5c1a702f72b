/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/notice_text.h"

#include <stdio.h>

#include "base/digest/base64.h"
#include "base/digest/hmac.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "core/id.h"

static void put_text(struct json_writer *w, const char *key, struct span value)
{
    json_write_key(w, key);
    json_write_text(w, value);
}

static void put_id(struct json_writer *w, const char *key, uint64_t hi, uint64_t seq)
{
    char id[ID_ULID_BYTES];
    id_ulid(id_make(hi, seq), id);
    put_text(w, key, span_text(id));
}

static void put_uint(struct json_writer *w, const char *key, uint64_t value)
{
    json_write_key(w, key);
    json_write_uint(w, value);
}

static void put_base64(struct json_writer *w, struct span bytes)
{
    size_t len = base64_len(bytes.len);
    char *text = mem_alloc(len);
    if (!text) {
        if (w->error == 0)
            w->error = -ERR_NOMEM;
        return;
    }
    base64_encode(bytes, text);
    put_text(w, "payload_base64", span_of(text, len));
    mem_free(text);
}

/* JSON as it stands, a text as a text, other bytes as base64. */
static void put_payload(struct json_writer *w, const struct job_view *job)
{
    if (!job->has_body || (job->damage & DAMAGE_PAYLOAD) || job->payload.len > NOTICE_PAYLOAD_MAX) {
        json_write_key(w, "payload_omitted");
        json_write_bool(w, true);
    } else if (job->job.payload_kind == PAYLOAD_JSON) {
        json_write_key(w, "payload");
        json_write_raw(w, job->payload);
    } else if (job->payload.len && utf8_valid(job->payload) &&
               !memchr(job->payload.at, '\0', job->payload.len)) {
        put_text(w, "payload_text", job->payload);
    } else if (job->payload.len) {
        put_base64(w, job->payload);
    }
}

static void put_job(struct json_writer *w, const struct notice_view *v, const struct job_view *job)
{
    const struct rec_notice_new *n = &v->notice;
    json_write_key(w, "job");
    json_write_object(w);
    put_id(w, "id", n->job_hi, n->job_seq);
    put_uint(w, "seq", n->job_seq);
    put_text(w, "reason", span_text(reason_name(n->reason)));
    put_uint(w, "attempts", n->attempts);
    if (n->text.len)
        put_text(w, "error", n->text);
    if (job && job->extra.correlation.len)
        put_text(w, "correlation_id", job->extra.correlation);
    if (job && v->with_payload)
        put_payload(w, job);
    json_write_object_end(w);
}

int notice_json(const struct notice_view *v, const struct job_view *job, struct buf *out)
{
    const struct rec_notice_new *n = &v->notice;
    struct json_writer w;
    char at[WALL_TEXT_BYTES];
    wall_text(n->at, at);
    json_writer_init(&w, out);
    json_write_object(&w);
    put_id(&w, "id", n->id_hi, n->number);
    put_text(&w, "at", span_text(at));
    put_text(&w, "kind", span_text(alert_on_name(n->on)));
    put_text(&w, "alert", n->alert);
    if (n->edge != EDGE_NONE)
        put_text(&w, "edge", span_text(notice_edge_name(n->edge)));
    if (n->queue.len)
        put_text(&w, "queue", n->queue);
    if (n->subject.len)
        put_text(&w, "schedule", n->subject);
    if (n->edge != EDGE_NONE) {
        put_uint(&w, "value", n->value);
        put_uint(&w, "limit", n->mark);
    }
    if (n->job_seq)
        put_job(&w, v, job);
    else if (n->text.len)
        put_text(&w, "error", n->text);
    json_write_object_end(&w);
    return json_writer_finish(&w);
}

int notice_sign(struct span secret, const char *timestamp, struct span body,
                char out[NOTICE_SIGNATURE_BYTES])
{
    char hex[HMAC_HEX_BYTES];
    struct span parts[] = {span_text(timestamp), SPAN_LITERAL("."), body};
    int err = hmac_sha256_hex(secret, parts, 3, hex);
    if (!err)
        snprintf(out, NOTICE_SIGNATURE_BYTES, "v1=%s", hex);
    return err;
}
