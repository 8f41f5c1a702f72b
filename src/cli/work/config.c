/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/work/config.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

#include "base/suggest.h"
#include "cli/work/options.h"
#include "config/table.h"
#include "config/units.h"

#define PATH_SHOWN 160
#define WORDS_MAX 1000 /* of one worker */

struct config_reader {
    const char *path;
    const struct arguments *args;
    struct arena *arena;
    struct err_note *note;
    yaml_document_t document;
};

/* The worker that is being read. */
struct config_words {
    struct work_entry entry;
    char **queues, **command;
    size_t queue_count, command_count;
};

static int wrong(struct config_reader *r, const yaml_node_t *node, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static int wrong(struct config_reader *r, const yaml_node_t *node, const char *format, ...)
{
    char text[256];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    return err_note_set(r->note, -ERR_INVALID, "%.*s:%zu: %s", PATH_SHOWN, r->path,
                        node->start_mark.line + 1, text);
}

static yaml_node_t *node_of(struct config_reader *r, int index)
{
    return yaml_document_get_node(&r->document, index);
}

static struct span scalar_of(const yaml_node_t *node)
{
    return span_of(node->data.scalar.value, node->data.scalar.length);
}

static int word_add(struct config_reader *r, const yaml_node_t *node, char **list, size_t *count,
                    struct span before)
{
    struct span text = node->type == YAML_SCALAR_NODE ? scalar_of(node) : span_of(NULL, 0);
    if (node->type != YAML_SCALAR_NODE)
        return wrong(r, node, "a text is expected here, not a list or a map");
    if (text.len > 0 && memchr(text.at, '\0', text.len))
        return wrong(r, node, "the text has a NUL character");
    if (*count == WORDS_MAX)
        return wrong(r, node, "there are more than %d words", WORDS_MAX);
    char *word = arena_alloc(r->arena, before.len + text.len + 1);
    if (!word)
        return -ERR_NOMEM;
    memcpy(word, before.at, before.len);
    if (text.len > 0)
        memcpy(word + before.len, text.at, text.len);
    word[before.len + text.len] = '\0';
    list[(*count)++] = word;
    return 0;
}

/* A text, or each text of a list. */
static int words_add(struct config_reader *r, const yaml_node_t *node, char **list, size_t *count,
                     struct span before)
{
    int rc = 0;
    if (node->type != YAML_SEQUENCE_NODE)
        return word_add(r, node, list, count, before);
    for (yaml_node_item_t *at = node->data.sequence.items.start;
         rc == 0 && at < node->data.sequence.items.top; at++)
        rc = word_add(r, node_of(r, *at), list, count, before);
    return rc;
}

/* ---- one setting ---- */

static bool name_same(const char *name, struct span typed)
{
    size_t i = 0;
    for (; i < typed.len && name[i]; i++) {
        char c = typed.at[i] == '-' ? '_' : typed.at[i];
        if (c != name[i])
            return false;
    }
    return i == typed.len && name[i] == '\0';
}

static const struct option *option_of(struct span typed)
{
    for (size_t i = 0; i < WORK_OPTION_COUNT; i++) {
        if (name_same(work_options[i].name, typed) && strcmp(work_options[i].name, "config") != 0)
            return &work_options[i];
    }
    return NULL;
}

static int unknown(struct config_reader *r, const yaml_node_t *key)
{
    const char *names[WORK_OPTION_COUNT + 2] = {"queues", "command"};
    char shown[QUOTED_MAX];
    size_t count = 2;
    for (size_t i = 0; i < WORK_OPTION_COUNT; i++) {
        if (strcmp(work_options[i].name, "config") != 0)
            names[count++] = work_options[i].name;
    }
    char *typed = arena_text(r->arena, scalar_of(key));
    const char *near = typed ? suggest_nearest(typed, names, count) : NULL;
    quoted(scalar_of(key), shown);
    if (near)
        return wrong(r, key, "%s is not a setting of a worker; did you mean '%s'?", shown, near);
    return wrong(r, key, "%s is not a setting of a worker; `holdfast help work` lists the options",
                 shown);
}

static void flag_drop(struct config_words *w, const struct option *o)
{
    int count = 0;
    for (int i = 0; i < w->entry.argc; i++) {
        const char *word = w->entry.argv[i];
        if (strncmp(word, "--", 2) != 0 || strcmp(word + 2, o->name) != 0)
            w->entry.argv[count++] = w->entry.argv[i];
    }
    w->entry.argc = count;
}

static int flag_add(struct config_reader *r, struct config_words *w, const struct option *o,
                    const yaml_node_t *value)
{
    struct span text = value->type == YAML_SCALAR_NODE ? scalar_of(value) : span_of(NULL, 0);
    size_t count = (size_t)w->entry.argc;
    if (span_equal(text, SPAN_LITERAL("false"))) {
        flag_drop(w, o); /* one beside --config */
        return 0;
    }
    if (!span_equal(text, SPAN_LITERAL("true")))
        return wrong(r, value, "%s must be true or false", o->name);
    char *word = arena_alloc(r->arena, strlen(o->name) + 3);
    if (!word)
        return -ERR_NOMEM;
    snprintf(word, strlen(o->name) + 3, "--%s", o->name);
    w->entry.argv[count] = word;
    w->entry.argc++;
    return 0;
}

static int option_add(struct config_reader *r, struct config_words *w, const struct option *o,
                      const yaml_node_t *value)
{
    char before[OPTION_NAME_MAX + 4];
    size_t count = (size_t)w->entry.argc;
    if (count >= WORDS_MAX)
        return wrong(r, value, "there are more than %d words", WORDS_MAX);
    if (o->kind == OPTION_FLAG)
        return flag_add(r, w, o, value);
    snprintf(before, sizeof before, "--%s=", o->name);
    if (o->kind != OPTION_LIST && value->type == YAML_SEQUENCE_NODE)
        return wrong(r, value, "%s has one value, not a list", o->name);
    int rc = words_add(r, value, w->entry.argv, &count, span_text(before));
    w->entry.argc = (int)count;
    return rc;
}

static int setting_read(struct config_reader *r, struct config_words *w, const yaml_node_t *key,
                        const yaml_node_t *value)
{
    if (key->type != YAML_SCALAR_NODE)
        return wrong(r, key, "the name of a setting must be a word");
    if (span_equal(scalar_of(key), SPAN_LITERAL("queues")))
        return words_add(r, value, w->queues, &w->queue_count, SPAN_LITERAL(""));
    if (span_equal(scalar_of(key), SPAN_LITERAL("command"))) {
        if (value->type != YAML_SEQUENCE_NODE)
            return wrong(r, value, "command must be a list: [./send-mail, --fast]");
        return words_add(r, value, w->command, &w->command_count, SPAN_LITERAL(""));
    }
    const struct option *o = option_of(scalar_of(key));
    return o ? option_add(r, w, o, value) : unknown(r, key);
}

/* ---- one worker ---- */

/* --server and the like, as one word. */
static int endpoint_add(struct config_reader *r, struct config_words *w, const char *name)
{
    const char *value = r->args ? arguments_text(r->args, name, NULL) : NULL;
    if (!value)
        return 0;
    size_t room = strlen(name) + strlen(value) + sizeof "--=";
    char *word = arena_alloc(r->arena, room);
    if (!word)
        return -ERR_NOMEM;
    snprintf(word, room, "--%s=%s", name, value);
    w->entry.argv[w->entry.argc++] = word;
    return 0;
}

/* Options besides --config come first, so that those of the worker take precedence. */
static int shared_add(struct config_reader *r, struct config_words *w)
{
    w->entry.argv[w->entry.argc++] = (char *)"work";
    if (r->args && arguments_has(r->args, "json"))
        w->entry.argv[w->entry.argc++] = (char *)"--json";
    int rc = 0;
    for (size_t i = 0; i < CLIENT_ENDPOINT_OPTION_COUNT && rc == 0; i++)
        rc = endpoint_add(r, w, client_endpoint_options[i].name);
    return rc;
}

/* Checked like a command line, with the same messages. */
static int entry_check(struct config_reader *r, const struct work_entry *e, const yaml_node_t *node)
{
    struct arguments args;
    struct work_plan plan;
    struct err_note note;
    int rc = options_parse(work_options, WORK_OPTION_COUNT, e->argc, e->argv, &args, &note);
    if (rc == 0) {
        rc = work_plan_build(&args, r->arena, &plan, &note);
        arguments_done(&args);
    }
    return rc < 0 ? wrong(r, node, "%.200s", note.text) : 0;
}

static int key_check(struct config_reader *r, const yaml_node_t *map, const yaml_node_pair_t *pair)
{
    const yaml_node_t *key = node_of(r, pair->key);
    char shown[QUOTED_MAX];
    for (const yaml_node_pair_t *at = map->data.mapping.pairs.start;
         key->type == YAML_SCALAR_NODE && at < pair; at++) {
        const yaml_node_t *before = node_of(r, at->key);
        if (before->type == YAML_SCALAR_NODE && span_equal(scalar_of(before), scalar_of(key)))
            return wrong(r, key, "%s is set twice; the other one is in line %zu",
                         quoted(scalar_of(key), shown), before->start_mark.line + 1);
    }
    return 0;
}

static int worker_read(struct config_reader *r, const yaml_node_t *node, struct work_entry *ret)
{
    struct config_words w = {.queue_count = 0};
    int rc = 0;
    if (node->type != YAML_MAPPING_NODE)
        return wrong(r, node, "a worker must be a map with queues, and command or url");
    w.entry.argv = arena_array(r->arena, 3 * WORDS_MAX + 8, sizeof *w.entry.argv);
    w.queues = arena_array(r->arena, WORDS_MAX, sizeof *w.queues);
    w.command = arena_array(r->arena, WORDS_MAX, sizeof *w.command);
    if (!w.entry.argv || !w.queues || !w.command || shared_add(r, &w) < 0)
        return -ERR_NOMEM;
    for (yaml_node_pair_t *at = node->data.mapping.pairs.start;
         rc == 0 && at < node->data.mapping.pairs.top; at++) {
        rc = key_check(r, node, at);
        if (rc == 0)
            rc = setting_read(r, &w, node_of(r, at->key), node_of(r, at->value));
    }
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < w.queue_count; i++) {
        if (w.queues[i][0] == '-')
            return wrong(r, node, "the name of a queue must not begin with `-`");
        w.entry.argv[w.entry.argc++] = w.queues[i];
    }
    if (w.command_count > 0)
        w.entry.argv[w.entry.argc++] = (char *)"--";
    for (size_t i = 0; i < w.command_count; i++)
        w.entry.argv[w.entry.argc++] = w.command[i];
    *ret = w.entry;
    return entry_check(r, &w.entry, node);
}

/* ---- the file ---- */

static int workers_read(struct config_reader *r, const yaml_node_t *list, struct work_entries *ret)
{
    int rc = 0;
    if (list->type != YAML_SEQUENCE_NODE ||
        list->data.sequence.items.start == list->data.sequence.items.top)
        return wrong(r, list, "workers must be a list with at least one worker");
    size_t count = (size_t)(list->data.sequence.items.top - list->data.sequence.items.start);
    ret->list = arena_array(r->arena, count, sizeof *ret->list);
    if (!ret->list)
        return -ERR_NOMEM;
    for (ret->count = 0; rc == 0 && ret->count < count; ret->count++)
        rc = worker_read(r, node_of(r, list->data.sequence.items.start[ret->count]),
                         &ret->list[ret->count]);
    return rc;
}

static int root_read(struct config_reader *r, struct work_entries *ret)
{
    yaml_node_t *root = yaml_document_get_root_node(&r->document);
    const yaml_node_pair_t *pair =
        root && root->type == YAML_MAPPING_NODE ? root->data.mapping.pairs.start : NULL;
    if (!pair || root->data.mapping.pairs.top - pair != 1 ||
        node_of(r, pair->key)->type != YAML_SCALAR_NODE ||
        !span_equal(scalar_of(node_of(r, pair->key)), SPAN_LITERAL("workers")))
        return err_note_set(
            r->note, -ERR_INVALID,
            "%.*s must have one member, workers: a list of workers (docs/worker.md)", PATH_SHOWN,
            r->path);
    return workers_read(r, node_of(r, pair->value), ret);
}

int work_config_parse(const char *path, struct span text, const struct arguments *args,
                      struct arena *arena, struct work_entries *ret, struct err_note *note)
{
    struct config_reader r = {.path = path, .args = args, .arena = arena, .note = note};
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser))
        return err_note_set(note, -ERR_NOMEM, "out of memory");
    yaml_parser_set_input_string(&parser, (const unsigned char *)(text.len ? text.at : ""),
                                 text.len);
    int rc;
    if (yaml_parser_load(&parser, &r.document)) {
        rc = root_read(&r, ret);
        yaml_document_delete(&r.document);
    } else {
        rc = err_note_set(note, -ERR_INVALID, "%.*s:%zu: not valid YAML: %s", PATH_SHOWN, path,
                          parser.problem_mark.line + 1,
                          parser.problem ? parser.problem : "unreadable");
    }
    yaml_parser_delete(&parser);
    if (rc == -ERR_NOMEM)
        (void)!err_note_set(note, rc, "out of memory");
    return rc;
}

int work_config_read(const char *path, const struct arguments *args, struct arena *arena,
                     struct work_entries *ret, struct err_note *note)
{
    struct buf text;
    buf_init(&text);
    int rc = config_file_read(path, &text, note);
    if (rc == 0)
        rc = work_config_parse(path, buf_span(&text), args, arena, ret, note);
    buf_done(&text);
    return rc;
}
