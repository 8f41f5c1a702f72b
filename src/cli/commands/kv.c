/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast kv: the keys of the key-value store. A key is a text, which is its only part, or a JSON
 * array of parts. */
#include <inttypes.h>
#include <string.h>

#include "cli/client/answer.h"
#include "cli/client/client_commands.h"
#include "cli/client/input.h"
#include "cli/client/list.h"
#include "cli/client/session.h"
#include "cli/client/terminal/show.h"
#include "cli/client/terminal/text.h"

#define VALUE_WIDTH 200 /* of a value in the list */

/* ---- what is asked ----------------------------------------------------------------------------
 */

/* CLIENT_USAGE after a message: the argument begins like JSON but is not JSON. */
static int key_check(const char *word)
{
    const char *error = NULL;
    size_t at = 0;
    if (*word != '[' || json_check(span_text(word), &error, &at) == 0)
        return CLIENT_DONE;
    return client_complain(CLIENT_USAGE,
                           "the key begins with '[' and is not JSON (%s, at byte %zu); a key is a "
                           "text, or an array like '[\"user\",7]'",
                           error, at);
}

/* Writes the key of the command, which was checked. */
static void key_write(struct client_session *s)
{
    struct span word = span_text(s->args->words[1]);
    if (word.len > 0 && word.at[0] == '[') {
        json_write_raw(&s->writer, word);
        return;
    }
    json_write_array(&s->writer);
    json_write_text(&s->writer, word);
    json_write_array_end(&s->writer);
}

/* Writes the version that the key must have, if --version is given; 0: the key must not exist. */
static void check_write(struct client_session *s)
{
    int64_t version = arguments_number(s->args, "version", -1);
    if (version < 0)
        return;
    json_write_key(&s->writer, "checks");
    json_write_array(&s->writer);
    json_write_object(&s->writer);
    json_write_key(&s->writer, "key");
    key_write(s);
    json_write_key(&s->writer, "version");
    if (version > 0)
        json_write_int(&s->writer, version);
    else
        json_write_null(&s->writer);
    json_write_object_end(&s->writer);
    json_write_array_end(&s->writer);
}

/* ---- get --------------------------------------------------------------------------------------
 */

/* Prints the value alone: JSON and text unchanged, bytes in base 64. */
static int value_show(struct client_session *s, struct span view)
{
    struct span value = {NULL, 0};
    struct buf line;
    if (client_answer_find(view, "value", &value)) {
        buf_init(&line);
        int rc = client_text_json(&line, value, false);
        if (rc == 0)
            client_print_text(stdout, buf_span(&line), CLIENT_TEXT_WHOLE);
        buf_done(&line);
        fputc('\n', stdout);
        return rc == 0 ? CLIENT_DONE : client_no_memory();
    }
    value = client_answer_text(view, "value_text", &s->arena);
    if (value.len == 0)
        value = client_answer_text(view, "value_base64", &s->arena);
    bool none = value.len == 0 && !client_answer_find(view, "value_text", &value);
    client_print_text(stdout, none ? SPAN_LITERAL("null") : value, CLIENT_TEXT_WHOLE);
    fputc('\n', stdout);
    return CLIENT_DONE;
}

static int kv_get(struct client_session *s)
{
    struct client_items items;
    struct span view, version;
    client_body_begin(s);
    json_write_key(&s->writer, "keys");
    json_write_array(&s->writer);
    key_write(s);
    json_write_array_end(&s->writer);
    int status = client_body_post(s, "/v1/kv/get");
    if (status != CLIENT_DONE)
        return status;
    client_items_of(&items, client_answer(s), "keys");
    bool there = client_items_next(&items, &view) && client_answer_find(view, "version", &version);
    if (s->json)
        status = client_print_json(s);
    else if (there)
        status = value_show(s, view);
    else
        client_complain(CLIENT_REFUSED, "there is no such key");
    return there ? status : CLIENT_REFUSED;
}

/* ---- set and delete ---------------------------------------------------------------------------
 */

static int commit_ask(struct client_session *s)
{
    int status = client_body_post(s, "/v1/kv/commit");
    return status == CLIENT_DONE ? client_print_answer(s) : status;
}

static int kv_set(struct client_session *s)
{
    static const struct client_field fields[] = {
        {"expires_in", "expires_in_ms", CLIENT_FIELD_NUMBER},
        {"expires_at", "expires_at", CLIENT_FIELD_TEXT},
    };
    client_body_begin(s);
    check_write(s);
    json_write_key(&s->writer, "sets");
    json_write_array(&s->writer);
    json_write_object(&s->writer);
    json_write_key(&s->writer, "key");
    key_write(s);
    int status = client_body_json(s, "value", s->args->words[2], "the value",
                                  "; text is written in quotes ('\"text\"')");
    if (status == CLIENT_DONE)
        status = client_body_fields(s, fields, CLIENT_COUNT(fields));
    if (status != CLIENT_DONE)
        return status;
    json_write_object_end(&s->writer);
    json_write_array_end(&s->writer);
    return commit_ask(s);
}

static int kv_delete(struct client_session *s)
{
    client_body_begin(s);
    check_write(s);
    json_write_key(&s->writer, "deletes");
    json_write_array(&s->writer);
    key_write(s);
    json_write_array_end(&s->writer);
    return commit_ask(s);
}

/* ---- list -------------------------------------------------------------------------------------
 */

static const struct client_column list_columns[] = {
    {"KEY", false, 60}, {"VERSION", true, 0}, {"EXPIRES", false, 0}, {"VALUE", false, VALUE_WIDTH}};

static void list_row(struct client_table *t, struct span view, struct arena *arena)
{
    struct span key = {NULL, 0}, value = {NULL, 0};
    struct span expires = client_answer_text(view, "expires_at", arena);
    (void)client_answer_find(view, "key", &key);
    client_table_add(t, key);
    client_table_addf(t, "%" PRId64, client_answer_int(view, "version", 0));
    client_table_add(t, expires.len > 0 ? expires : SPAN_LITERAL("-"));
    if (!client_answer_find(view, "value", &value))
        value = client_answer_text(view, "value_text", arena);
    if (value.len == 0)
        value = client_answer_text(view, "value_base64", arena);
    client_table_add(t, value);
}

static int kv_list(struct client_session *s)
{
    static const struct client_list keys = {"/v1/kv", "keys", list_columns,
                                            CLIENT_COUNT(list_columns), list_row};
    return client_list_print(s, &keys, s->args->word_count > 1 ? s->args->words[1] : NULL);
}

/* ---- the command ------------------------------------------------------------------------------
 */

static const struct action {
    const char *word;
    const char *usage;
    size_t words_min, words_max; /* including the name of the action */
    bool checks, sets;           /* takes --version; --expires-in and --expires-at */
    int (*fn)(struct client_session *s);
} actions[] = {
    {"get", "get KEY", 2, 2, false, false, kv_get},
    {"set", "set KEY VALUE", 3, 3, true, true, kv_set},
    {"delete", "delete KEY", 2, 2, true, false, kv_delete},
    {"list", "list [PREFIX]", 1, 2, false, false, kv_list},
};

static int action_run(struct client_session *s, const struct action *a)
{
    bool expires = arguments_has(s->args, "expires_in") || arguments_has(s->args, "expires_at");
    size_t count = (size_t)s->args->word_count;
    if (count < a->words_min || count > a->words_max)
        return client_complain(CLIENT_USAGE, "it must be `kv %s`", a->usage);
    if (arguments_has(s->args, "version") && !a->checks)
        return client_complain(CLIENT_USAGE,
                               "--version can only be used with `kv set` and `kv delete`");
    if (expires && !a->sets)
        return client_complain(CLIENT_USAGE,
                               "--expires-in and --expires-at can only be used with `kv set`");
    int status = count > 1 ? key_check(s->args->words[1]) : CLIENT_DONE;
    return status == CLIENT_DONE ? a->fn(s) : status;
}

static int kv(struct client_session *s)
{
    for (size_t i = 0; i < CLIENT_COUNT(actions); i++)
        if (strcmp(actions[i].word, s->args->words[0]) == 0)
            return action_run(s, &actions[i]);
    return client_complain(CLIENT_USAGE,
                           "'%s' is not an action on keys; it must be get, set, delete or list",
                           s->args->words[0]);
}

int client_kv(const struct command *cmd, const struct arguments *args)
{
    return client_run(cmd, args, kv);
}
