/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/alerts/notice_text.h"

#include <stdio.h>

#include "base/digest/hmac.h"
#include "broker/event_json.h"

int notice_json(const struct notice_view *v, const struct job_view *job, struct buf *out)
{
    struct event_view event;
    struct json_writer w;
    event_of_notice(&event, v, job);
    json_writer_init(&w, out);
    json_write_object(&w);
    event_members_write(&w, &event);
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
