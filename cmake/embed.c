/* SPDX-License-Identifier: Apache-2.0 */
/* embed ENUM PREFIX ARRAY HEADER SOURCE FILE…: turns .sql and .lua files into C strings at build
 * time. HEADER gets `enum ENUM` with one member PREFIX_NAME for each text, and SOURCE the array
 * ARRAY with the texts.
 *
 * A .lua file is one text, named after the file. A .sql file is a sequence of sections:
 *
 *     -- name: queue_put             a statement, until the next section
 *     -- part: now(given)            a piece of SQL for other statements
 *     -- macro: job_columns          the same, and a macro JOB_COLUMNS for C in HEADER
 *
 * A .sql file without sections is one text, named after the file. Comments are dropped; in SQL,
 * white space is collapsed and the last semicolon of a statement is removed, so that the layout of
 * a file costs nothing when the statement is sent.
 *
 * Both languages use names instead of numbers:
 *
 *     ${ready}                       a constant of the C code (embed_names.c), here STATE_READY
 *     ${job.state(row)}              in Lua, a field of a Redis value (row_fields.h)
 *     ${job.state.bytes(row)}        the same as bytes instead of a number
 *     ${now($3)}, ${a(x; y)}         in SQL, a part, with its arguments
 *     ${job_texts}                   a list of names of the C code (embed_names.c)
 *     ${each(${sums}; sum(%))}       in SQL, the pattern for each name of a list, joined by commas
 *                                    or by a third argument; #11 is 11 for the first name, 12 for
 *                                    the second, and so on
 *
 * Why names are replaced here, and not in the database: a lookup table or an SQL function would
 * cost time in every statement, and the planner matches partial indexes (WHERE state = 2) only with
 * literals. A name that is not known is an error of the build. */
#include "embed.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECTIONS_MAX 512
#define NAME_MAX_BYTES 64
#define PARAMETERS_MAX 4
#define DEPTH_MAX 16

struct section {
    char name[NAME_MAX_BYTES];
    char parameters[PARAMETERS_MAX][NAME_MAX_BYTES];
    size_t parameter_count;
    char *text;
    const char *file;
    bool part, macro, sql; /* macro: of parts */
};

/* What stands for the parameters of a part while it is expanded. */
struct scope {
    const struct section *of;
    char *arguments[PARAMETERS_MAX];
    int depth;
};

struct text {
    char *at;
    size_t len, room;
};

static struct section sections[SECTIONS_MAX];
static size_t section_count;

__attribute__((noreturn)) static void fail(const char *file, const char *what, const char *name)
{
    fprintf(stderr, "embed: %s: %s: %s\n", file, what, name);
    exit(1);
}

static void add(struct text *t, const char *bytes, size_t len)
{
    if (t->len + len + 1 > t->room) {
        t->room = 2 * (t->len + len + 1);
        t->at = realloc(t->at, t->room);
        if (!t->at)
            fail("embed", "out of memory", "");
    }
    memcpy(t->at + t->len, bytes, len);
    t->len += len;
    t->at[t->len] = '\0';
}

static char *copy(const char *bytes, size_t len)
{
    struct text t = {0};
    add(&t, bytes, len);
    return t.at;
}

static char *trimmed(const char *from, const char *to)
{
    while (from < to && isspace((unsigned char)*from))
        from++;
    while (to > from && isspace((unsigned char)to[-1]))
        to--;
    return copy(from, (size_t)(to - from));
}

/* --- reading --- */

static char *read_all(const char *path)
{
    struct text t = {0};
    char block[4096];
    FILE *f = fopen(path, "rb");
    if (!f)
        fail(path, "cannot be read", "");
    for (size_t n; (n = fread(block, 1, sizeof block, f)) > 0;)
        add(&t, block, n);
    fclose(f);
    if (!t.at)
        fail(path, "is empty", "");
    return t.at;
}

static struct section *new_section(const char *file, bool part, bool sql)
{
    if (section_count == SECTIONS_MAX)
        fail(file, "too many sections", "");
    struct section *s = &sections[section_count++];
    *s = (struct section){.file = file, .part = part, .sql = sql};
    return s;
}

static void set_name(char to[NAME_MAX_BYTES], const char *file, const char *from, const char *end)
{
    char *name = trimmed(from, end);
    if (!*name || strlen(name) >= NAME_MAX_BYTES)
        fail(file, "not a name", name);
    memcpy(to, name, strlen(name) + 1);
    free(name);
}

/* "now(given; other)" */
static void read_heading(struct section *s, const char *from, const char *end)
{
    const char *open = memchr(from, '(', (size_t)(end - from));
    set_name(s->name, s->file, from, open ? open : end);
    for (const char *at = open ? open + 1 : end; at < end && *at != ')';) {
        size_t len = strcspn(at, ";)");
        if (s->parameter_count == PARAMETERS_MAX)
            fail(s->file, "too many parameters", s->name);
        set_name(s->parameters[s->parameter_count++], s->file, at, at + len);
        at += len + (at[len] == ';');
    }
}

/* Drops comments and collapses white space, but leaves what is quoted. */
static char *squeezed(const char *at)
{
    struct text t = {0};
    bool space = false;
    char quote = '\0';
    add(&t, "", 0);
    for (; *at; at++) {
        if (!quote && at[0] == '-' && at[1] == '-') {
            at += strcspn(at, "\n") - 1;
            continue;
        }
        if (!quote && isspace((unsigned char)*at)) {
            space = t.len > 0;
            continue;
        }
        if (space && !strchr("),;", *at))
            add(&t, " ", 1);
        space = false;
        if (*at == '\'' || *at == '"')
            quote = quote == *at ? '\0' : quote ? quote : *at;
        add(&t, at, 1);
    }
    if (t.len && t.at[t.len - 1] == ';')
        t.at[--t.len] = '\0';
    return t.at;
}

static const char *heading_of(const char *line, bool *ret_part, bool *ret_macro)
{
    static const char name[] = "-- name:", part[] = "-- part:", macro[] = "-- macro:";
    *ret_macro = strncmp(line, macro, sizeof macro - 1) == 0;
    *ret_part = *ret_macro || strncmp(line, part, sizeof part - 1) == 0;
    if (*ret_macro)
        return line + sizeof macro - 1;
    return *ret_part || strncmp(line, name, sizeof name - 1) == 0 ? line + sizeof name - 1 : NULL;
}

static void end_section(struct section *s, struct text *body)
{
    if (s)
        s->text = squeezed(body->at ? body->at : "");
    if (s && !*s->text)
        fail(s->file, "has no text", s->name);
    body->len = 0;
}

static void read_sections(const char *file, const char *all)
{
    struct section *s = NULL;
    struct text body = {0};
    for (const char *line = all; *line;) {
        size_t len = strcspn(line, "\n");
        bool part, macro;
        const char *heading = heading_of(line, &part, &macro);
        if (heading) {
            end_section(s, &body);
            s = new_section(file, part, true);
            s->macro = macro;
            read_heading(s, heading, line + len);
        } else if (s) {
            add(&body, line, len);
            add(&body, "\n", 1);
        }
        line += len + (line[len] == '\n');
    }
    end_section(s, &body);
    free(body.at);
}

/* Drops lines that are comments, but not the lines themselves: errors name their numbers. */
static char *without_comments(const char *all)
{
    struct text t = {0};
    for (const char *line = all; *line;) {
        size_t len = strcspn(line, "\n"), indent = strspn(line, " ");
        if (strncmp(line + indent, "--", 2) != 0)
            add(&t, line, len);
        add(&t, "\n", 1);
        line += len + (line[len] == '\n');
    }
    return t.at;
}

static void read_file(const char *path)
{
    const char *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    const char *dot = strrchr(base, '.');
    bool sql = dot && strcmp(dot, ".sql") == 0;
    if (!sql && !(dot && strcmp(dot, ".lua") == 0))
        fail(path, "is neither .sql nor .lua", base);
    char *all = read_all(path);
    if (sql &&
        (strstr(all, "\n-- name:") || strstr(all, "\n-- part:") || strstr(all, "\n-- macro:"))) {
        read_sections(path, all);
    } else {
        struct section *s = new_section(path, false, sql);
        set_name(s->name, path, base, dot);
        s->text = sql ? squeezed(all) : without_comments(all);
    }
    free(all);
}

/* --- names --- */

static void expand(struct text *to, const char *from, const struct scope *scope);

static const char *argument_of(const struct scope *scope, const char *name)
{
    for (size_t i = 0; scope->of && i < scope->of->parameter_count; i++)
        if (strcmp(scope->of->parameters[i], name) == 0)
            return scope->arguments[i];
    return NULL;
}

static const struct section *part_of(const char *name)
{
    for (size_t i = 0; i < section_count; i++)
        if (sections[i].part && strcmp(sections[i].name, name) == 0)
            return &sections[i];
    return NULL;
}

static bool add_list(struct text *to, const char *name)
{
    const struct embed_list *l = embed_lists;
    while (l->name && strcmp(l->name, name) != 0)
        l++;
    if (l->name)
        add(to, l->text, strlen(l->text));
    return l->name != NULL;
}

static bool add_constant(struct text *to, const char *name)
{
    char digits[32];
    const struct embed_constant *c = embed_constants;
    while (c->name && strcmp(c->name, name) != 0)
        c++;
    if (!c->name)
        return false;
    snprintf(digits, sizeof digits, "%lld", c->value);
    add(to, digits, strlen(digits));
    return true;
}

/* Positions of Lua begin with 1 and include the last one. */
static bool add_field(struct text *to, const char *name, const char *row)
{
    char base[NAME_MAX_BYTES], code[256];
    size_t len = strlen(name), tail = strlen(".bytes");
    bool bytes = len > tail && strcmp(name + len - tail, ".bytes") == 0;
    const struct embed_field *f = embed_fields;
    snprintf(base, sizeof base, "%.*s", (int)(bytes ? len - tail : len), name);
    while (f->name && strcmp(f->name, base) != 0)
        f++;
    if (!f->name)
        return false;
    size_t first = f->at + 1, last = f->at + f->bytes;
    if (bytes || f->kind == FIELD_BYTES)
        snprintf(code, sizeof code, "sub(%s, %zu, %zu)", row, first, last);
    else if (f->kind == FIELD_BYTE)
        snprintf(code, sizeof code, "byte(%s, %zu)", row, first);
    else
        snprintf(code, sizeof code, "(struct.unpack('>I%zu', %s, %zu))", f->bytes, row, first);
    add(to, code, strlen(code));
    return true;
}

/* The arguments of a call, divided by semicolons outside parentheses. */
static size_t divide(const char *from, const char *end, char *ret[PARAMETERS_MAX], const char *file)
{
    size_t count = 0;
    int depth = 0;
    const char *start = from;
    for (const char *at = from; at <= end; at++) {
        depth += at < end && *at == '(';
        depth -= at < end && *at == ')';
        if (at < end && (*at != ';' || depth > 0))
            continue;
        if (count == PARAMETERS_MAX)
            fail(file, "too many arguments", from);
        ret[count++] = trimmed(start, at);
        start = at + 1;
    }
    return count;
}

/* Calls the part with arguments that are expanded where the call stands. */
static void add_part(struct text *to, const struct section *part, char *arguments[], size_t count,
                     const struct scope *scope)
{
    struct scope inner = {.of = part, .depth = scope->depth + 1};
    if (count != part->parameter_count || inner.depth > DEPTH_MAX)
        fail(part->file, "called with the wrong arguments", part->name);
    for (size_t i = 0; i < count; i++) {
        struct text t = {0};
        add(&t, "", 0);
        expand(&t, arguments[i], scope);
        inner.arguments[i] = t.at;
    }
    expand(to, part->text, &inner);
    for (size_t i = 0; i < count; i++)
        free(inner.arguments[i]);
}

/* One copy of a pattern: the name in place of '%', and in place of "#11" the number 11 + index. */
static void add_pattern(struct text *to, const char *pattern, const char *name, long index)
{
    for (const char *p = pattern; *p;) {
        if (*p == '%') {
            add(to, name, strlen(name));
            p++;
        } else if (*p == '#' && isdigit((unsigned char)p[1])) {
            char digits[32], *end;
            snprintf(digits, sizeof digits, "%ld", strtol(p + 1, &end, 10) + index);
            add(to, digits, strlen(digits));
            p = end;
        } else {
            add(to, p++, 1);
        }
    }
}

/* The pattern (arguments[1]) for each name of a list (arguments[0]). */
static void add_each(struct text *to, char *arguments[], size_t count, const struct scope *scope)
{
    struct text list = {0}, pattern = {0};
    expand(&list, arguments[0], scope);
    expand(&pattern, arguments[1], scope);
    long index = 0;
    for (char *name = strtok(list.at, ", \n"); name; name = strtok(NULL, ", \n")) {
        add_pattern(to, pattern.at, name, index++);
        if (name + strlen(name) == list.at + list.len)
            break;
        add(to, count > 2 ? " " : ",", 1);
        add(to, count > 2 ? arguments[2] : "", count > 2 ? strlen(arguments[2]) : 0);
        add(to, " ", 1);
    }
    free(list.at);
    free(pattern.at);
}

/* from: behind "${"; end: its "}". */
static void replace(struct text *to, const char *from, const char *end, const struct scope *scope,
                    const char *file)
{
    char name[NAME_MAX_BYTES], *arguments[PARAMETERS_MAX];
    const char *open = memchr(from, '(', (size_t)(end - from));
    size_t count = open ? divide(open + 1, end - 1, arguments, file) : 0;
    set_name(name, file, from, open ? open : end);
    const char *argument = open ? NULL : argument_of(scope, name);
    const struct section *part = part_of(name);
    if (argument)
        add(to, argument, strlen(argument));
    else if (strcmp(name, "each") == 0 && count >= 2)
        add_each(to, arguments, count, scope);
    else if (part)
        add_part(to, part, arguments, count, scope);
    else if (!(open ? count == 1 && add_field(to, name, arguments[0])
                    : add_constant(to, name) || add_list(to, name)))
        fail(file, "unknown name", name);
    for (size_t i = 0; i < count; i++)
        free(arguments[i]);
}

static const char *end_of_name(const char *at, const char *file)
{
    int depth = 1;
    for (; *at; at++) {
        depth += at[0] == '$' && at[1] == '{';
        depth -= *at == '}';
        if (depth == 0)
            return at;
    }
    fail(file, "a name has no end", at);
}

static const char *file_of(const struct scope *scope)
{
    return scope->of ? scope->of->file : "embed";
}

static void expand(struct text *to, const char *from, const struct scope *scope)
{
    while (*from) {
        if (from[0] == '$' && from[1] == '{') {
            const char *end = end_of_name(from + 2, file_of(scope));
            replace(to, from + 2, end, scope, file_of(scope));
            from = end + 1;
        } else {
            add(to, from++, 1);
        }
    }
}

/* --- writing --- */

static void upper(const char *name, char out[NAME_MAX_BYTES])
{
    size_t n = 0;
    for (; name[n] && n < NAME_MAX_BYTES - 1; n++)
        out[n] = (char)toupper((unsigned char)name[n]);
    out[n] = '\0';
}

static void write_literal(FILE *f, const char *text)
{
    size_t column = 0;
    fputs("\n        \"", f);
    for (; *text; text++) {
        if (*text == '\n')
            fputs("\\n", f);
        else if (*text == '"' || *text == '\\')
            fprintf(f, "\\%c", *text);
        else
            fputc(*text, f);
        if ((++column > 80 && *text == ' ') || (*text == '\n' && text[1])) {
            fputs("\"\n        \"", f);
            column = 0;
        }
    }
    fputs("\",\n", f);
}

static char *expanded(const struct section *s)
{
    struct text t = {0};
    struct scope scope = {.of = s};
    expand(&t, s->text, &scope);
    return t.at;
}

static void write_macros(FILE *f)
{
    for (size_t i = 0; i < section_count; i++) {
        char name[NAME_MAX_BYTES];
        if (!sections[i].macro)
            continue;
        char *text = expanded(&sections[i]);
        upper(sections[i].name, name);
        fprintf(f, "\n#define %s \"%s\"\n", name, text);
        free(text);
    }
}

static void write_header(const char *path, const char *tag, const char *prefix, const char *array)
{
    FILE *f = fopen(path, "w");
    if (!f)
        fail(path, "cannot be written", "");
    fprintf(f, "/* Generated by cmake/embed.c. */\n#pragma once\n\nenum %s {\n", tag);
    for (size_t i = 0; i < section_count; i++) {
        char name[NAME_MAX_BYTES];
        if (sections[i].part)
            continue;
        upper(sections[i].name, name);
        fprintf(f, "    %s_%s,\n", prefix, name);
    }
    fprintf(f, "    %s_COUNT\n};\n\nextern const char *const %s[%s_COUNT];\n", prefix, array,
            prefix);
    write_macros(f);
    fclose(f);
}

static void write_source(const char *path, const char *header, const char *prefix,
                         const char *array)
{
    FILE *f = fopen(path, "w");
    if (!f)
        fail(path, "cannot be written", "");
    fprintf(f, "/* Generated by cmake/embed.c. */\n#include \"%s\"\n\n",
            strrchr(header, '/') ? strrchr(header, '/') + 1 : header);
    fprintf(f, "const char *const %s[%s_COUNT] = {\n", array, prefix);
    for (size_t i = 0; i < section_count; i++) {
        char name[NAME_MAX_BYTES];
        if (sections[i].part)
            continue;
        char *text = expanded(&sections[i]);
        upper(sections[i].name, name);
        fprintf(f, "    [%s_%s] =", prefix, name);
        write_literal(f, text);
        free(text);
    }
    fprintf(f, "};\n");
    fclose(f);
}

int main(int argc, char **argv)
{
    if (argc < 7)
        fail("usage", "embed ENUM PREFIX ARRAY HEADER SOURCE FILE…", "");
    for (int i = 6; i < argc; i++)
        read_file(argv[i]);
    write_header(argv[4], argv[1], argv[2], argv[3]);
    write_source(argv[5], argv[4], argv[2], argv[3]);
    for (size_t i = 0; i < section_count; i++)
        free(sections[i].text);
    return 0;
}
