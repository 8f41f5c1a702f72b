/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/policy_page.h"

#include <inttypes.h>

#include "api/v1/queues/policy_fields.h"
#include "config/options.h"

/* ---- one row ---- */

static int words_text(const struct policy_field *f, struct buf *out)
{
    int err = 0, count = policy_word_count(f->value);
    for (int i = 0; err == 0 && i < count; i++) {
        struct span word = policy_word(f->value, (size_t)i);
        err = buf_printf(out, "%s`%.*s`",
                         i == 0           ? ""
                         : i + 1 == count ? " or "
                                          : ", ",
                         (int)word.len, word.at);
    }
    return err;
}

static int range_text(const struct policy_field *f, const char *unit, struct buf *out)
{
    if (policy_unlimited(f))
        return buf_printf(out, "%s, %" PRId64 " or more; null: no limit", unit, f->min);
    return buf_printf(out, "%s, %" PRId64 " to %" PRId64, unit, f->min, f->max);
}

/* The JSON type of its value. */
static int value_text(const struct policy_field *f, struct buf *out)
{
    switch ((enum policy_kind)f->kind) {
    case POLICY_MS:
        return range_text(f, "milliseconds", out);
    case POLICY_BYTES:
        return range_text(f, "bytes", out);
    case POLICY_NUMBER:
        return range_text(f, "number", out);
    case POLICY_BOOL:
        return buf_append_text(out, "`true` or `false`");
    case POLICY_WORD:
        return words_text(f, out);
    case POLICY_PRIORITY:
        return buf_append_text(out, "number or label");
    case POLICY_BACKOFF:
        return buf_append_text(out, "object, see below");
    case POLICY_RATE:
        return buf_append_text(out, "object, see below; null: no limit");
    }
    return 0;
}

/* Its default as JSON, without the name. */
static int default_text(const struct policy_field *f, struct buf *out)
{
    struct queue_policy standard;
    struct json_writer w;
    struct buf json;
    buf_init(&json);
    json_writer_init(&w, &json);
    policy_default(&standard);
    json_write_object(&w);
    policy_member_write(&w, f, &standard);
    json_write_object_end(&w);
    int err = json_writer_finish(&w);
    size_t name = strlen(f->name) + sizeof "{\"\":" - 1;
    if (err == 0)
        err = buf_append(out, json.data + name, json.len - name - 1);
    buf_done(&json);
    return err;
}

/* Prints the row as `format`: name, value, default and meaning. */
static int row_print(FILE *out, const struct policy_field *f, bool markdown)
{
    static const char indent[] = "      ";
    struct buf value, def;
    buf_init(&value);
    buf_init(&def);
    int err = value_text(f, &value);
    if (err == 0)
        err = default_text(f, &def);
    if (err == 0 && markdown)
        fprintf(out, "| `%s` | %.*s | `%.*s` | %s |\n", f->name, (int)value.len, value.data,
                (int)def.len, def.data, f->doc);
    else if (err == 0) {
        fprintf(out, "  %s: %.*s  (default %.*s)\n%s", f->name, (int)value.len, value.data,
                (int)def.len, def.data, indent);
        help_wrap(out, indent, f->doc);
    }
    buf_done(&value);
    buf_done(&def);
    return err;
}

static int rows_print(FILE *out, bool markdown)
{
    int err = 0;
    for (size_t i = 0; err == 0 && i < POLICY_FIELDS; i++)
        err = row_print(out, &policy_fields[i], markdown);
    return err;
}

/* ---- the two pages ---- */

int policy_help(FILE *out)
{
    fputs(
        "Settings of a queue, as members of PUT and PATCH /v1/queues/{queue}. Each is also an\n"
        "option of `holdfast queues create` and `set` (--lease-ms 30s) and, for queues that are\n"
        "created later, a setting of the server (queue_defaults.lease_ms: 30s). There, times and\n"
        "sizes take units, and a word stands for null (`holdfast help queues`).\n\n",
        out);
    return rows_print(out, false);
}

int policy_markdown(FILE *out)
{
    fputs(
        "# Queue settings\n"
        "\n"
        "<!-- Made by `holdfast help policy --markdown`; edit src/core/policy_table.h instead. "
        "-->\n"
        "\n"
        "The policy of a queue says what it promises its jobs. Each member can be set in three "
        "places:\n"
        "\n"
        "    curl -X PATCH --json '{\"lease_ms\": 60000, \"capacity\": null}' "
        "localhost:8000/v1/queues/mail\n"
        "    holdfast queues set mail --lease-ms 1m --capacity none\n"
        "    queue_defaults: {lease_ms: 1m, capacity: none}       # settings of the server\n"
        "\n"
        "`PUT` (and `queues create`) sets the members that are not named to their defaults; "
        "`PATCH`\n"
        "(`queues set`) leaves them as they are. `queue_defaults` are the defaults of queues that "
        "are\n"
        "created from then on; existing queues keep their values. On the command line and in the\n"
        "settings, times and sizes take units, and a word stands for null: `none` for "
        "`capacity` and\n"
        "`enqueue_rate`, `all` for the members that say how much is kept.\n"
        "\n"
        "| member | value | default | meaning |\n"
        "| --- | --- | --- | --- |\n",
        out);
    int err = rows_print(out, true);
    fputs("\n"
          "## Back-off\n"
          "\n"
          "`backoff` is one of two objects. Members that are left out have their defaults.\n"
          "\n"
          "    {\"type\": \"exponential\", \"base_ms\": 1000, \"max_ms\": 3600000, "
          "\"jitter_percent\": 10}\n"
          "    {\"type\": \"list\", \"steps_ms\": [1000, 30000, 300000]}\n"
          "\n"
          "`\"backoff_ms\": [1000, 30000, 300000]` is a short form of the second. The options are\n"
          "`--backoff-base-ms`, `--backoff-max-ms` and `--backoff-jitter-percent`, or "
          "`--backoff-ms\n"
          "1s,30s,5m`; the settings have the same names with `_`.\n"
          "\n"
          "## Rates\n"
          "\n"
          "    {\"per\": \"group\", \"count\": 10, \"window_ms\": 1000}\n"
          "\n"
          "`count` jobs are accepted at once, and one more every `window_ms / count`. The largest "
          "`count` is\n"
          "1000000, the longest window a day.\n"
          "\n"
          "As an option or a setting this is `10/1s/group`. What it is counted by may be left out; "
          "it is\n"
          "then the whole queue: `10/1s`. A unit alone is one of it: `100/m`. An enqueue beyond "
          "the rate\n"
          "gets 429 `rate_limited`, and `Retry-After` says when the next job is accepted.\n",
          out);
    return err;
}
