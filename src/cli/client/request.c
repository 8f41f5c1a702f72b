/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/client/request.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/client/input.h"
#include "config/units.h"

/* ---- paths ------------------------------------------------------------------------------------
 */

void client_path_init(struct client_path *p)
{
    *p = (struct client_path){.error = 0};
    buf_init(&p->text);
}

void client_path_done(struct client_path *p)
{
    buf_done(&p->text);
}

void client_path_add(struct client_path *p, const char *text)
{
    if (p->error == 0)
        p->error = buf_append_text(&p->text, text);
}

static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '~' || c == '.';
}

static void encode(struct client_path *p, struct span text)
{
    for (size_t i = 0; i < text.len && p->error == 0; i++) {
        if (is_plain(text.at[i]))
            p->error = buf_append(&p->text, &text.at[i], 1);
        else
            p->error = buf_printf(&p->text, "%%%02X", (unsigned char)text.at[i]);
    }
}

void client_path_encode(struct client_path *p, const char *text)
{
    /* "." and ".." would change the path. */
    bool dots = strcmp(text, ".") == 0 || strcmp(text, "..") == 0;
    if (*text == '\0' && p->error == 0)
        p->error = -ERR_INVALID;
    else if (dots)
        client_path_add(p, text[1] ? "%2E%2E" : "%2E");
    else
        encode(p, span_text(text));
}

static void query_name(struct client_path *p, const char *name)
{
    client_path_add(p, p->query ? "&" : "?");
    client_path_add(p, name);
    client_path_add(p, "=");
    p->query = true;
}

void client_path_query(struct client_path *p, const char *name, const char *value)
{
    if (!value)
        return;
    query_name(p, name);
    encode(p, span_text(value));
}

const char *client_path_text(struct client_path *p)
{
    if (p->error < 0 || buf_reserve(&p->text, 1) < 0)
        return NULL;
    p->text.data[p->text.len] = '\0';
    return p->text.data;
}

/* ---- values of options ------------------------------------------------------------------------
 */

static int value_wrong(struct err_note *note, const struct client_field *f, const char *value,
                       const char *right)
{
    char shown[QUOTED_MAX];
    char name[OPTION_NAME_MAX];
    struct option named = {.name = f->option};
    return err_note_set(note, -ERR_INVALID, "--%s is %s; it must be %s", option_name(&named, name),
                        quoted(span_text(value), shown), right);
}

static void write_number_or_text(struct json_writer *w, const char *value)
{
    int64_t number;
    if (units_parse(span_text(value), UNIT_NONE, &number) == 0)
        json_write_int(w, number);
    else
        json_write_text(w, span_text(value));
}

static int write_list(struct json_writer *w, const struct client_field *f, const char *value,
                      struct err_note *note)
{
    /* The name of the option says the unit of plain numbers, or each has its unit. */
    enum unit_kind unit = strcmp(f->option, f->member) == 0 ? UNIT_MS : UNIT_DURATION;
    json_write_array(w);
    for (const char *at = value;;) {
        size_t len = strcspn(at, ",");
        int64_t ms;
        if (units_parse(span_of(at, len), unit, &ms) < 0)
            return value_wrong(note, f, value, "durations with commas between, such as 1s,30s,5m");
        json_write_int(w, ms);
        if (at[len] == '\0')
            break;
        at += len + 1;
    }
    json_write_array_end(w);
    return 0;
}

static int write_headers(struct json_writer *w, const struct client_field *f,
                         const struct arguments *args, struct err_note *note)
{
    const char *value;
    size_t at = 0;
    json_write_object(w);
    while ((value = arguments_next(args, f->option, &at))) {
        size_t len = strcspn(value, "=");
        if (len == 0 || value[len] == '\0')
            return value_wrong(note, f, value, "NAME=VALUE");
        json_write_key_span(w, span_of(value, len));
        json_write_text(w, span_text(value + len + 1));
    }
    json_write_object_end(w);
    return 0;
}

static void write_texts(struct json_writer *w, const struct client_field *f,
                        const struct arguments *args)
{
    const char *value;
    size_t at = 0;
    json_write_array(w);
    while ((value = arguments_next(args, f->option, &at)))
        json_write_text(w, span_text(value));
    json_write_array_end(w);
}

static int write_file(struct json_writer *w, const char *path, struct err_note *note)
{
    struct buf word, text;
    buf_init(&word);
    buf_init(&text);
    int rc = buf_printf(&word, "@%s", path);
    if (rc == 0)
        rc = buf_append(&word, "", 1);
    if (rc == 0)
        rc = client_input_read(word.data, &text, note);
    if (rc == 0)
        json_write_text(w, buf_span(&text));
    buf_done(&word);
    buf_done(&text);
    return rc;
}

static int value_write(const struct arguments *args, const struct client_field *f,
                       struct json_writer *w, struct err_note *note)
{
    const char *value = arguments_text(args, f->option, "");
    switch (f->kind) {
    case CLIENT_FIELD_TEXT:
        json_write_text(w, span_text(value));
        return 0;
    case CLIENT_FIELD_NUMBER:
        json_write_int(w, arguments_number(args, f->option, 0));
        return 0;
    case CLIENT_FIELD_NUMBER_OR_TEXT:
        write_number_or_text(w, value);
        return 0;
    case CLIENT_FIELD_MS_LIST:
        return write_list(w, f, value, note);
    case CLIENT_FIELD_YES_NO:
        json_write_bool(w, strcmp(value, "yes") == 0);
        return 0;
    case CLIENT_FIELD_FALSE:
    case CLIENT_FIELD_FLAG:
        json_write_bool(w, f->kind == CLIENT_FIELD_FLAG);
        return 0;
    case CLIENT_FIELD_HEADERS:
        return write_headers(w, f, args, note);
    case CLIENT_FIELD_TEXTS:
        write_texts(w, f, args);
        return 0;
    case CLIENT_FIELD_FILE:
        return write_file(w, value, note);
    }
    return -ERR_INVALID;
}

const struct client_field *client_fields_given(const struct arguments *args,
                                               const struct client_field *fields, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (arguments_has(args, fields[i].option))
            return &fields[i];
    }
    return NULL;
}

int client_fields_write(const struct arguments *args, const struct client_field *fields,
                        size_t count, struct json_writer *w, struct err_note *note)
{
    for (size_t i = 0; i < count; i++) {
        if (!arguments_has(args, fields[i].option))
            continue;
        json_write_key(w, fields[i].member);
        int rc = value_write(args, &fields[i], w, note);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* A JSON value as the text of a query parameter: no quotes, no brackets. */
static void query_value(struct client_path *p, const struct client_field *f,
                        const struct arguments *args, struct span json)
{
    query_name(p, f->member);
    if (json.at[0] == '"')
        encode(p, span_text(arguments_text(args, f->option, "")));
    else if (json.at[0] == '[')
        encode(p, span_of(json.at + 1, json.len - 2));
    else
        encode(p, json);
}

int client_fields_query(const struct arguments *args, const struct client_field *fields,
                        size_t count, struct client_path *p, struct err_note *note)
{
    struct buf json;
    int rc = 0;
    buf_init(&json);
    for (size_t i = 0; i < count && rc == 0; i++) {
        struct json_writer w;
        if (!arguments_has(args, fields[i].option))
            continue;
        buf_clear(&json);
        json_writer_init(&w, &json);
        rc = value_write(args, &fields[i], &w, note);
        if (rc == 0)
            rc = json_writer_finish(&w);
        if (rc == 0)
            query_value(p, &fields[i], args, buf_span(&json));
    }
    buf_done(&json);
    return rc;
}
