/* SPDX-License-Identifier: Apache-2.0 */
/* Members that many answers have: times, ids, payloads. Each function writes name and value;
 * those that end in _if write nothing if there is nothing to show. */
#pragma once

#include "base/json/json.h"
#include "broker/broker.h"

void write_text(struct json_writer *w, const char *key, const char *value);
/* Begin the value; json_write_object_end and json_write_array_end end it. */
void write_object(struct json_writer *w, const char *key);
void write_array(struct json_writer *w, const char *key);
void write_span(struct json_writer *w, const char *key, struct span value);
void write_span_if(struct json_writer *w, const char *key, struct span value); /* not empty */
void write_uint(struct json_writer *w, const char *key, uint64_t value);
void write_int(struct json_writer *w, const char *key, int64_t value);
void write_bool(struct json_writer *w, const char *key, bool value);
void write_time(struct json_writer *w, const char *key, struct wall_time t); /* 0 = null */
void write_time_if(struct json_writer *w, const char *key, struct wall_time t);
void write_id(struct json_writer *w, const char *key, uint64_t id_hi, uint64_t seq);
/* "id" and "seq". */
void write_job_name(struct json_writer *w, uint64_t id_hi, uint64_t seq);
/* "next_cursor": the cursor of the page that follows; null when it is empty. */
void write_next_cursor(struct json_writer *w, struct span cursor);
/* JSON unchanged; bytes as PREFIX_text if they are UTF-8 without U+0000, else as PREFIX_base64;
 * null without a body. PREFIX is "payload" or "result". */
void write_bytes(struct json_writer *w, const char *prefix, uint8_t kind, struct span bytes);
/* The members of a key of the key-value store: key, version, value (if the view has it) and
 * expires_at. The version is null if the key does not exist. */
void write_kv(struct json_writer *w, const struct kv_view *v);
/* "keys_if_undelivered", when the list (encoded) is not empty. */
void write_kv_keys_if(struct json_writer *w, const char *key, struct span keys);
