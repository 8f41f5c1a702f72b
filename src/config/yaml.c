/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration file: YAML events of libyaml, read strictly. A file is one document, a map
 * of keys and of sections (maps one level deep); anchors, aliases and tags are refused, so that
 * the value of a key is always written at the key. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>
#include <yaml.h>

#include "config/table.h"

struct reader {
    struct config *c;
    const char *name;
    struct err_note *note;
    yaml_parser_t parser;
    yaml_event_t event;                 /* the current one, deleted by the next */
    struct arena scratch;               /* keys and items, until the end */
    uint32_t section_line[CONFIG_KEYS]; /* by first row: where it was seen, 0 = not yet */
};

enum { NAME_SHOWN = 160, SUBJECT_MAX = 320 };

static uint32_t line_of(yaml_mark_t mark)
{
    return (uint32_t)mark.line + 1;
}

static int no_memory(struct reader *r)
{
    return err_note_set(r->note, -ERR_NOMEM, "no memory to read %.*s", NAME_SHOWN, r->name);
}

/* Reports an error at the current event. */
static int wrong(struct reader *r, const char *what)
{
    return err_note_set(r->note, -ERR_INVALID, "%.*s:%" PRIu32 ": %s", NAME_SHOWN, r->name,
                        line_of(r->event.start_mark), what);
}

/* ---- events ---- */

static int syntax_error(struct reader *r)
{
    const yaml_parser_t *p = &r->parser;
    if (p->error == YAML_MEMORY_ERROR)
        return no_memory(r);
    /* For invalid bytes libyaml returns an offset instead of a position. */
    if (p->error == YAML_READER_ERROR)
        return err_note_set(r->note, -ERR_SYNTAX, "%.*s: %s at byte %zu; it must be UTF-8 text",
                            NAME_SHOWN, r->name, p->problem ? p->problem : "unreadable",
                            p->problem_offset);
    return err_note_set(r->note, -ERR_SYNTAX, "%.*s:%" PRIu32 ": not valid YAML: %s%s%s",
                        NAME_SHOWN, r->name, line_of(p->problem_mark),
                        p->problem ? p->problem : "unreadable", p->context ? " " : "",
                        p->context ? p->context : "");
}

/* Anchor and tag of an event; all three kinds begin with the same two members, but the union has
 * no common type for them. */
static bool has_anchor_or_tag(const yaml_event_t *e)
{
    if (e->type == YAML_SCALAR_EVENT)
        return e->data.scalar.anchor || e->data.scalar.tag;
    if (e->type == YAML_SEQUENCE_START_EVENT)
        return e->data.sequence_start.anchor || e->data.sequence_start.tag;
    if (e->type == YAML_MAPPING_START_EVENT)
        return e->data.mapping_start.anchor || e->data.mapping_start.tag;
    return false;
}

static int next(struct reader *r)
{
    yaml_event_delete(&r->event);
    if (!yaml_parser_parse(&r->parser, &r->event))
        return syntax_error(r);
    if (r->event.type == YAML_ALIAS_EVENT || has_anchor_or_tag(&r->event))
        return wrong(r, "anchors (&), aliases (*) and tags (!) are not allowed; write the value "
                        "where it belongs");
    return 0;
}

/* The text of the current scalar, copied. */
static int scalar(struct reader *r, struct span *ret)
{
    struct span text = span_of(r->event.data.scalar.value, r->event.data.scalar.length);
    char *copy = arena_text(&r->scratch, text);
    if (!copy)
        return no_memory(r);
    *ret = span_of(copy, text.len);
    return 0;
}

static bool is_null(const yaml_event_t *e)
{
    if (e->type != YAML_SCALAR_EVENT || e->data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
        return false;
    struct span text = span_of(e->data.scalar.value, e->data.scalar.length);
    return text.len == 0 || span_equal(text, SPAN_LITERAL("~")) ||
           span_equal(text, SPAN_LITERAL("null"));
}

/* ---- values ---- */

struct value {
    const struct config_key *key;
    char subject[SUBJECT_MAX];
    uint32_t line;
    struct span items[CONFIG_ITEMS_MAX];
    size_t count;
};

static int refuse_shape(struct reader *r, const struct value *v, const char *shape)
{
    struct buf expected;
    buf_init(&expected);
    int err = config_expected(v->key, &expected);
    if (err == 0)
        err = err_note_set(r->note, -ERR_INVALID, "%s %s; it must be %.*s", v->subject, shape,
                           (int)expected.len, expected.data);
    buf_done(&expected);
    return err;
}

static int item_add(struct reader *r, struct value *v)
{
    if (r->event.type != YAML_SCALAR_EVENT)
        return refuse_shape(r, v, "contains a list or a map");
    if (is_null(&r->event))
        return refuse_shape(r, v, "contains an item without a value");
    if (v->count == CONFIG_ITEMS_MAX)
        return refuse_shape(r, v, "has too many items");
    return scalar(r, &v->items[v->count++]);
}

/* The scalars up to the event that ends the list or map. */
static int items_read(struct reader *r, struct value *v, yaml_event_type_t end)
{
    int err;
    while ((err = next(r)) == 0 && r->event.type != end) {
        if ((err = item_add(r, v)) < 0)
            return err;
    }
    return err;
}

static int scalar_read(struct reader *r, struct value *v)
{
    if (is_null(&r->event)) {
        if (!config_unlimited(v->key))
            return refuse_shape(r, v, "has no value");
        v->items[v->count++] = span_text(config_unlimited(v->key));
        return 0;
    }
    return scalar(r, &v->items[v->count++]);
}

static int shape_read(struct reader *r, struct value *v)
{
    bool map = v->key->kind == CONFIG_LABELS;
    if (r->event.type == YAML_SCALAR_EVENT)
        return scalar_read(r, v);
    if (r->event.type == YAML_SEQUENCE_START_EVENT) {
        if (map || !config_takes_list(v->key))
            return refuse_shape(r, v, "is a list");
        return items_read(r, v, YAML_SEQUENCE_END_EVENT);
    }
    return map ? items_read(r, v, YAML_MAPPING_END_EVENT) : refuse_shape(r, v, "is a map");
}

/* The current event is the key. */
static int value_read(struct reader *r, const struct config_key *key)
{
    struct value v = {.key = key, .line = line_of(r->event.start_mark)};
    snprintf(v.subject, sizeof v.subject, "%.*s:%" PRIu32 ": %s", NAME_SHOWN, r->name, v.line,
             key->key);
    int err = next(r);
    if (err == 0)
        err = shape_read(r, &v);
    if (err < 0)
        return err;
    struct config_given given = {.source = CONFIG_FILE,
                                 .line = v.line,
                                 .subject = v.subject,
                                 .items = v.items,
                                 .count = v.count};
    return config_set(r->c, key, &given, r->note);
}

/* ---- maps ---- */

static int unknown(struct reader *r, struct span key)
{
    char shown[QUOTED_MAX];
    char text[QUOTED_MAX + 160];
    char near[CONFIG_NAME_MAX];
    quoted(key, shown);
    if (config_key_near(key, near))
        snprintf(text, sizeof text, "%s is not a setting; did you mean '%s'?", shown, near);
    else
        snprintf(text, sizeof text, "%s is not a setting; `holdfast help config` lists them",
                 shown);
    return wrong(r, text);
}

static int map_read(struct reader *r, struct span section);

/* The current event is the name of the section. */
static int section_read(struct reader *r, const struct config_key *first, struct span name)
{
    char text[QUOTED_MAX + 80];
    char shown[QUOTED_MAX];
    uint32_t *seen = &r->section_line[config_key_index(first)];
    quoted(name, shown);
    if (*seen) {
        snprintf(text, sizeof text, "%s is set twice; the other one is in line %" PRIu32, shown,
                 *seen);
        return wrong(r, text);
    }
    *seen = line_of(r->event.start_mark);
    int err = next(r);
    if (err < 0 || is_null(&r->event)) /* every line of the section is commented out */
        return err;
    if (r->event.type == YAML_MAPPING_START_EVENT)
        return map_read(r, name);
    snprintf(text, sizeof text, "%s is a section; it must be a map of settings", shown);
    return wrong(r, text);
}

static int entry_read(struct reader *r, struct span section)
{
    struct span key;
    if (r->event.type != YAML_SCALAR_EVENT)
        return wrong(r, "the name of a setting must be a word");
    int err = scalar(r, &key);
    if (err < 0)
        return err;
    if (section.len > 0) {
        size_t len = section.len + 1 + key.len;
        char *full = arena_alloc(&r->scratch, len);
        if (!full)
            return no_memory(r);
        memcpy(full, section.at, section.len);
        full[section.len] = '.';
        memcpy(full + section.len + 1, key.at, key.len);
        key = span_of(full, len);
    }
    if (section.len == 0 && span_equal(key, SPAN_LITERAL("QUEUE_SETTINGS")))
        key =
            SPAN_LITERAL("queue_settings"); /* the name that other programs of the same kind use */
    const struct config_key *row = config_key_find(key);
    const struct config_key *first = section.len == 0 ? config_section(key) : NULL;
    if (row)
        return value_read(r, row);
    return first ? section_read(r, first, key) : unknown(r, key);
}

static int map_read(struct reader *r, struct span section)
{
    int err;
    while ((err = next(r)) == 0 && r->event.type != YAML_MAPPING_END_EVENT) {
        if ((err = entry_read(r, section)) < 0)
            return err;
    }
    return err;
}

/* ---- the file ---- */

static int document_read(struct reader *r)
{
    int err = next(r);
    if (err == 0 && r->event.type == YAML_MAPPING_START_EVENT)
        err = map_read(r, span_of("", 0));
    else if (err == 0 && !is_null(&r->event))
        err = wrong(r, "the file must be a map of settings, such as listen: 127.0.0.1:8000");
    return err ? err : next(r); /* the end of the document */
}

static int stream_read(struct reader *r)
{
    int err = next(r); /* the start of the stream */
    if (err == 0)
        err = next(r);
    if (err < 0 || r->event.type == YAML_STREAM_END_EVENT)
        return err;
    if ((err = document_read(r)) < 0 || (err = next(r)) < 0)
        return err;
    if (r->event.type != YAML_STREAM_END_EVENT)
        return wrong(r, "a second document begins here; the file must contain one");
    return 0;
}

int config_yaml(struct config *c, const char *name, struct span text, struct err_note *note)
{
    struct reader r = {.c = c, .name = name, .note = note};
    if (text.len > CONFIG_FILE_BYTES_MAX)
        return err_note_set(note, -ERR_TOO_BIG, "%.*s is larger than 1 MiB", NAME_SHOWN, name);
    if (!yaml_parser_initialize(&r.parser))
        return no_memory(&r);
    arena_init(&r.scratch);
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)(text.len ? text.at : ""),
                                 text.len);
    int err = stream_read(&r);
    yaml_event_delete(&r.event);
    yaml_parser_delete(&r.parser);
    arena_done(&r.scratch);
    return err;
}

static int file_error(const char *path, int error, struct err_note *note)
{
    int code = error == ENOENT ? -ERR_NOT_FOUND : -ERR_IO;
    return err_note_set(note, code, "cannot read the configuration %.*s: %s", NAME_SHOWN, path,
                        strerror(error));
}

static int read_all(int fd, const char *path, struct buf *ret, struct err_note *note)
{
    ssize_t n;
    if (buf_reserve(ret, CONFIG_FILE_BYTES_MAX + 1) < 0)
        return err_note_set(note, -ERR_NOMEM, "no memory to read %.*s", NAME_SHOWN, path);
    do {
        n = read(fd, ret->data + ret->len, CONFIG_FILE_BYTES_MAX + 1 - ret->len);
        if (n < 0 && errno != EINTR)
            return file_error(path, errno, note);
        ret->len += n > 0 ? (size_t)n : 0;
    } while (n != 0 && ret->len <= CONFIG_FILE_BYTES_MAX);
    return 0;
}

int config_file_read(const char *path, struct buf *ret, struct err_note *note)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return file_error(path, errno, note);
    int err = read_all(fd, path, ret, note);
    close(fd);
    return err;
}
