/* SPDX-License-Identifier: Apache-2.0 */
/* A batch first reads which of its keys exist, and sets the others in one commit that checks
 * that they still do not exist. A commit that is refused is sent again in halves, down to the
 * line that is wrong. */
#include "cli/transfer/import_keys.h"

#include "base/mem.h"
#include "cli/client/answer.h"

#define BATCH_BYTES ((size_t)8 << 20)
#define TRIES 3 /* attempts of a batch whose keys are set concurrently */

int import_keys_init(struct import_keys *k)
{
    buf_init(&k->lines);
    k->list = mem_array(IMPORT_KEYS_BATCH, sizeof *k->list);
    return k->list ? 0 : -ERR_NOMEM;
}

void import_keys_done(struct import_keys *k)
{
    buf_done(&k->lines);
    mem_free(k->list);
}

static struct span line_of(const struct import_keys *k, size_t i)
{
    return span_of(k->lines.data + k->list[i].at, k->list[i].len);
}

static struct span key_of(const struct import_keys *k, size_t i)
{
    struct span key = {NULL, 0};
    (void)client_answer_find(line_of(k, i), "key", &key);
    return key;
}

/* Reads which of the keys exist. */
static int ask_there(struct import_keys *k, size_t first, size_t count)
{
    struct client_session *s = k->s;
    struct client_items items;
    struct span item, version;
    client_body_begin(s);
    json_write_key(&s->writer, "keys");
    json_write_array(&s->writer);
    for (size_t i = first; i < first + count; i++)
        json_write_raw(&s->writer, key_of(k, i));
    json_write_array_end(&s->writer);
    json_write_key(&s->writer, "values");
    json_write_bool(&s->writer, false);
    int status = client_body_post(s, "/v1/kv/get");
    if (status != CLIENT_DONE)
        return status;
    client_items_of(&items, client_answer(s), "keys");
    for (size_t i = first; i < first + count && client_items_next(&items, &item); i++)
        k->list[i].there = client_answer_find(item, "version", &version);
    return CLIENT_DONE;
}

/* Writes the members unchanged; JSON that was exported as a text because of its line breaks
 * becomes JSON again. */
static void write_set(struct client_session *s, struct span line)
{
    struct client_members members;
    struct span name, value;
    json_write_object(&s->writer);
    client_members_open(&members, line, &s->arena);
    while (client_members_next(&members, &name, &value)) {
        bool json = span_equal(name, SPAN_LITERAL("value_json"));
        json_write_key_span(&s->writer, json ? SPAN_LITERAL("value") : name);
        json_write_raw(&s->writer,
                       json ? client_answer_text(line, "value_json", &s->arena) : value);
    }
    json_write_object_end(&s->writer);
}

static int ask_commit(struct import_keys *k, size_t first, size_t count)
{
    struct client_session *s = k->s;
    client_body_begin(s);
    json_write_key(&s->writer, "checks");
    json_write_array(&s->writer);
    for (size_t i = first; i < first + count; i++) {
        if (k->list[i].there)
            continue;
        json_write_object(&s->writer);
        json_write_key(&s->writer, "key");
        json_write_raw(&s->writer, key_of(k, i));
        json_write_key(&s->writer, "version");
        json_write_null(&s->writer);
        json_write_object_end(&s->writer);
    }
    json_write_array_end(&s->writer);
    json_write_key(&s->writer, "sets");
    json_write_array(&s->writer);
    for (size_t i = first; i < first + count; i++)
        if (!k->list[i].there)
            write_set(s, line_of(k, i));
    json_write_array_end(&s->writer);
    return client_body_post(s, "/v1/kv/commit");
}

static size_t fresh_of(const struct import_keys *k, size_t first, size_t count)
{
    size_t fresh = 0;
    for (size_t i = first; i < first + count; i++)
        fresh += !k->list[i].there;
    return fresh;
}

/* One attempt: reads which keys exist, and sets the others. */
static int round_send(struct import_keys *k, size_t first, size_t count)
{
    int status = ask_there(k, first, count);
    size_t fresh = fresh_of(k, first, count);
    if (status == CLIENT_DONE && fresh > 0)
        status = ask_commit(k, first, count);
    if (status == CLIENT_DONE) {
        k->made += fresh;
        k->kept += count - fresh;
    }
    return status;
}

/* The message of the server; later messages may be different. */
static struct span refusal(struct import_keys *k, const char *member)
{
    struct span answer = client_answer(k->s);
    if (json_check_deep(answer, NULL, NULL) < 0)
        return SPAN_LITERAL("the server refused it");
    return client_answer_text(answer, member, &k->s->arena);
}

static bool is_code(struct import_keys *k, const char *code)
{
    return span_equal(refusal(k, "code"), span_text(code));
}

static int keys_send(struct import_keys *k, size_t first, size_t count)
{
    int status = CLIENT_REFUSED, tries = 0;
    do
        status = round_send(k, first, count);
    while (status == CLIENT_REFUSED && is_code(k, "version_mismatch") && ++tries < TRIES);
    if (status != CLIENT_REFUSED || is_code(k, "kv_full"))
        return status;
    if (count == 1) {
        k->refuse(k->ctx, k->list[first].number, refusal(k, "detail"));
        return CLIENT_DONE;
    }
    status = keys_send(k, first, count / 2);
    return status == CLIENT_DONE ? keys_send(k, first + count / 2, count - count / 2) : status;
}

int import_keys_flush(struct import_keys *k)
{
    int status = k->count > 0 ? keys_send(k, 0, k->count) : CLIENT_DONE;
    k->count = 0;
    buf_clear(&k->lines);
    arena_reset(&k->s->arena);
    return status;
}

int import_keys_add(struct import_keys *k, uint64_t number, struct span key)
{
    struct span path;
    bool full =
        k->count == IMPORT_KEYS_BATCH || (k->count > 0 && k->lines.len + key.len > BATCH_BYTES);
    k->seen++;
    if (!client_answer_find(key, "key", &path)) {
        k->refuse(k->ctx, number, SPAN_LITERAL("the key is missing"));
        return CLIENT_DONE;
    }
    if (client_answer_true(key, "damaged")) {
        k->refuse(k->ctx, number,
                  SPAN_LITERAL("the key was damaged where it was exported: its value could not be "
                               "read, so it is not imported; set it again from its source"));
        return CLIENT_DONE;
    }
    int status = full ? import_keys_flush(k) : CLIENT_DONE;
    if (status != CLIENT_DONE)
        return status;
    size_t at = k->lines.len;
    if (buf_append_span(&k->lines, key) < 0)
        return client_no_memory();
    k->list[k->count++] = (struct import_key){number, at, key.len, false};
    return CLIENT_DONE;
}
