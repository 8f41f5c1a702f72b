/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the table of settings: effective values, help, the reference page. */
#include <inttypes.h>
#include <stdio.h>

#include "config/table.h"

/* The section of a key, empty at the top level; and the rest of the key. */
static struct span section_of(const struct config_key *k)
{
    const char *dot = strchr(k->key, '.');
    return dot ? span_of(k->key, (size_t)(dot - k->key)) : span_of("", 0);
}

static const char *word_of(const struct config_key *k)
{
    const char *dot = strchr(k->key, '.');
    return dot ? dot + 1 : k->key;
}

/* Rows of one section stand together in the table. */
static bool begins_section(size_t i)
{
    return i == 0 || !span_equal(section_of(&config_keys[i]), section_of(&config_keys[i - 1]));
}

/* ---- effective values ---- */

/* Skips aliases, and rows of the back-off that is not in use. */
static bool is_printed(const struct config *c, const struct config_key *k)
{
    bool list = c->queue_defaults.backoff.kind == BACKOFF_LIST;
    if (k->flags & CONFIG_ALIAS)
        return false;
    return k->kind == CONFIG_STEPS ? list : !(k->flags & CONFIG_BACKOFF) || !list;
}

static void source_print(const struct config *c, size_t i, FILE *out)
{
    static const char *const names[] = {
        [CONFIG_DEFAULT] = "default",
        [CONFIG_FILE] = "file",
        [CONFIG_ENV] = "environment",
        [CONFIG_FLAG] = "flag",
    };
    fprintf(out, " # %s", names[c->source[i]]);
    if (c->source[i] == CONFIG_FILE)
        fprintf(out, ", line %" PRIu32, c->line[i]);
    fputc('\n', out);
}

int config_print(const struct config *c, FILE *out)
{
    struct buf value;
    int err = 0;
    buf_init(&value);
    for (size_t i = 0; err == 0 && i < CONFIG_KEYS; i++) {
        const struct config_key *k = &config_keys[i];
        struct span section = section_of(k);
        if (section.len > 0 && begins_section(i))
            fprintf(out, "%.*s:\n", (int)section.len, section.at);
        if (!is_printed(c, k))
            continue;
        buf_clear(&value);
        err = buf_printf(&value, "%s%s: ", section.len > 0 ? "  " : "", word_of(k));
        if (err == 0)
            err = config_value(c, k, false, &value);
        if (err == 0)
            fprintf(out, "%-44.*s", (int)value.len, value.data);
        if (err == 0)
            source_print(c, i, out);
    }
    buf_done(&value);
    return err;
}

/* ---- rows ---- */

/* A default as users read it: a text without its quotes, unless it is empty. */
static int default_text(const struct config *defaults, const struct config_key *k, struct buf *out)
{
    bool text = k->kind == CONFIG_TEXT || k->kind == CONFIG_DIR;
    buf_clear(out);
    int err = config_value(defaults, k, true, out);
    if (err == 0 && text && out->len > 2) {
        memmove(out->data, out->data + 1, out->len - 2);
        out->len -= 2;
    }
    return err ? err : buf_append(out, "", 1);
}

#define RANGE_MAX (2 * UNITS_TEXT_MAX + 16)

static const char *range_text(const struct config_key *k, char out[RANGE_MAX])
{
    char least[UNITS_TEXT_MAX];
    char most[UNITS_TEXT_MAX];
    enum unit_kind unit = UNIT_NONE;
    out[0] = '\0';
    if (!config_unit(k, &unit) || k->min == -INT64_MAX)
        return out;
    units_text(k->min, unit, least);
    if (k->max == INT64_MAX)
        snprintf(out, RANGE_MAX, ", %s or more", least);
    else
        snprintf(out, RANGE_MAX, ", %s to %s", least, units_text(k->max, unit, most));
    return out;
}

int config_describe(config_row_fn fn, void *ctx)
{
    struct config defaults;
    struct buf def;
    char range[RANGE_MAX];
    int err = config_load(&(struct config_sources){.file = NULL}, &defaults, NULL);
    if (err < 0)
        return err;
    buf_init(&def);
    for (size_t i = 0; i < CONFIG_KEYS; i++) {
        const struct config_key *k = &config_keys[i];
        if ((err = default_text(&defaults, k, &def)) < 0)
            break;
        fn(ctx, &(struct config_row){.key = k->key,
                                     .word = k->word,
                                     .range = range_text(k, range),
                                     .def = k->flags & CONFIG_ALIAS ? NULL : def.data,
                                     .doc = k->doc,
                                     .reloadable = k->flags & CONFIG_RELOAD,
                                     .begins_section = begins_section(i)});
    }
    buf_done(&def);
    config_done(&defaults);
    return err;
}

/* ---- help ---- */

static void row_help(void *ctx, const struct config_row *row)
{
    FILE *out = ctx;
    const char *dot = strchr(row->key, '.');
    if (row->begins_section && dot)
        fprintf(out, "\n%.*s:\n", (int)(dot - row->key), row->key);
    else if (row->begins_section)
        fputc('\n', out);
    fprintf(out, "  %s: %s", dot ? dot + 1 : row->key, row->word);
    if (row->def)
        fprintf(out, "  (default %s%s)", row->def, row->reloadable ? "; reloadable" : "");
    fputs("\n      ", out);
    help_wrap(out, "      ", row->doc);
}

int config_help(FILE *out)
{
    fputs("Settings of `holdfast serve`: a YAML file (--config FILE or HOLDFAST_CONFIG), the\n"
          "environment and flags. A flag takes precedence over the environment, and the\n"
          "environment over the file. limits.body_bytes is HOLDFAST_LIMITS_BODY_BYTES in the\n"
          "environment and --limits-body-bytes as a flag; lists are separated by commas there.\n"
          "Sizes can have units (64MiB, 2GB), and so can times (500ms, 30s, 5m, 24h, 7d); plain\n"
          "numbers are bytes and milliseconds. SIGHUP applies the settings that are reloadable;\n"
          "the others need a restart.\n",
          out);
    return config_describe(row_help, out);
}

/* ---- the reference page ---- */

static void cell_print(FILE *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '|')
            fputc('\\', out);
        fputc(*text, out);
    }
}

static void row_markdown(void *ctx, const struct config_row *row)
{
    FILE *out = ctx;
    const char *dot = strchr(row->key, '.');
    if (row->begins_section)
        fprintf(out,
                "\n## %.*s\n\n| key | value | default | meaning |\n| --- | --- | --- | --- |\n",
                dot ? (int)(dot - row->key) : 7, dot ? row->key : "General");
    fprintf(out, "| `%s`%s | `", row->key, row->reloadable ? " ↻" : "");
    cell_print(out, row->word);
    fprintf(out, "`%s | %s%s%s | ", row->range, row->def ? "`" : "", row->def ? row->def : "",
            row->def ? "`" : "");
    cell_print(out, row->doc);
    fputs(" |\n", out);
}

int config_markdown(FILE *out)
{
    fputs(
        "# Settings\n"
        "\n"
        "<!-- Generated by `holdfast help config --markdown`; edit src/config/keys.h instead. -->\n"
        "\n"
        "`holdfast serve` reads each setting from a YAML file (`--config FILE`, or "
        "`HOLDFAST_CONFIG` in the\n"
        "environment), from the environment, and from flags. A flag takes precedence over the "
        "environment,\n"
        "the environment over the file, and the file over the default. `holdfast serve "
        "--print-config`\n"
        "prints the effective values and where each of them comes from.\n"
        "\n"
        "The key `limits.body_bytes` in the three sources:\n"
        "\n"
        "    limits:                                 # the file; `limits.body_bytes: 4MiB` works, "
        "too\n"
        "      body_bytes: 4MiB\n"
        "    HOLDFAST_LIMITS_BODY_BYTES=4MiB         # the environment\n"
        "    holdfast serve --limits-body-bytes 4MiB # a flag\n"
        "\n"
        "Lists are YAML lists in the file. In the environment and in flags, commas separate the "
        "items, and a\n"
        "flag can be repeated. Maps are written `label=number,…` there. Sizes can have units "
        "(`64MiB`,\n"
        "`2GB`), and so can times (`500ms`, `30s`, `5m`, `24h`, `7d`); plain numbers are bytes "
        "and\n"
        "milliseconds.\n"
        "\n"
        "The file has at most 1 MiB and contains one document, without anchors, aliases and tags. "
        "An unknown\n"
        "key, a key that occurs twice, and an unknown variable `HOLDFAST_…` are errors. Only the "
        "variables\n"
        "that Kubernetes sets for a service named holdfast (`HOLDFAST_PORT…`, "
        "`HOLDFAST_SERVICE_…`) are\n"
        "ignored.\n"
        "\n"
        "SIGHUP (`systemctl reload holdfast`) applies the settings marked ↻; the others need a "
        "restart.\n"
        "The settings `queue_defaults` apply to queues that are created afterwards; existing "
        "queues keep\n"
        "their policy. The variables `USE_REDIS_QUEUE`, `REDIS_URL` and "
        "`REDIS_HEALTH_CHECK_TIMEOUT` in the\n"
        "environment are the settings of `queue_settings` with these names.\n",
        out);
    return config_describe(row_markdown, out);
}
