/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/man.h"

#include <string.h>

#include "base/utf8.h"
#include "config/config.h"
#include "server/version.h"

/* ---- roff ---- */

static uint32_t code_point(const unsigned char *p, size_t n)
{
    uint32_t code = n == 1 ? p[0] : p[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++)
        code = code << 6 | (p[i] & 0x3f);
    return code;
}

/* Prints one character literally. Hyphens stay ASCII, so that copied commands work. */
static void char_print(FILE *out, const char *at, size_t n)
{
    if (n > 1)
        fprintf(out, "\\[u%04X]", code_point((const unsigned char *)at, n));
    else if (*at == '\\')
        fputs("\\e", out);
    else if (*at == '-')
        fputs("\\-", out);
    else if (*at == '`')
        fputs("\\(ga", out);
    else if (*at == '\'')
        fputs("\\(aq", out);
    else
        fputc(*at, out);
}

static void text_print(FILE *out, struct span text)
{
    /* A dot or quote that begins a line would be a request. */
    if (text.len > 0 && (text.at[0] == '.' || text.at[0] == '\''))
        fputs("\\&", out);
    for (size_t at = 0, n; at < text.len; at += n) {
        n = utf8_sequence(span_of(text.at + at, text.len - at));
        n = n ? n : 1;
        char_print(out, text.at + at, n);
    }
}

static void line_print(FILE *out, const char *text)
{
    text_print(out, span_text(text));
    fputc('\n', out);
}

/* Prints complete lines: an empty line ends a paragraph, indented lines stay unchanged. */
static void lines_print(FILE *out, const char *text)
{
    bool as_is = false;
    while (*text) {
        size_t len = strcspn(text, "\n");
        bool indented = text[0] == ' ';
        if (indented != as_is)
            fputs(indented ? ".nf\n" : ".fi\n", out);
        as_is = indented;
        if (len == 0)
            fputs(".PP\n", out);
        else
            text_print(out, span_of(text, len));
        if (len > 0)
            fputc('\n', out);
        text += len + (text[len] == '\n');
    }
    if (as_is)
        fputs(".fi\n", out);
}

/* ---- commands ---- */

static void option_roff(FILE *out, const struct option *o)
{
    char name[OPTION_NAME_MAX];
    fputs(".TP\n", out);
    if (o->letter)
        fprintf(out, "\\fB\\-%c\\fR, ", o->letter);
    fputs("\\fB\\-\\-", out);
    text_print(out, span_text(option_name(o, name)));
    fputs("\\fR", out);
    if (o->argument) {
        fputs(o->kind == OPTION_SWITCH ? "[=\\fI" : " \\fI", out);
        text_print(out, span_text(o->argument));
        fputs(o->kind == OPTION_SWITCH ? "\\fR]" : "\\fR", out);
    }
    fputc('\n', out);
    line_print(out, o->doc);
}

static void command_roff(FILE *out, const struct command *cmd)
{
    fputs(".SS holdfast ", out);
    text_print(out, span_text(cmd->name));
    fputs(cmd->option_count ? " [OPTION]... " : " ", out);
    line_print(out, cmd->args);
    lines_print(out, cmd->detail);
    /* The options for settings have their own section. */
    bool settings = cmd->options == config_flags;
    size_t count = settings ? CONFIG_FLAGS - CONFIG_KEYS : cmd->option_count;
    for (size_t i = 0; i < count; i++)
        option_roff(out, &cmd->options[i]);
    if (settings) {
        fputs(".TP\n", out);
        line_print(out, "--KEY VALUE");
        line_print(out, "any of the SETTINGS; limits.body_bytes is --limits-body-bytes");
    }
}

static void commands_roff(FILE *out)
{
    const struct command *cmd;
    fputs(".SH COMMANDS\n", out);
    for (size_t i = 0; (cmd = command_at(i)); i++)
        command_roff(out, cmd);
}

/* ---- settings ---- */

static void row_roff(void *ctx, const struct config_row *row)
{
    FILE *out = ctx;
    fputs(".TP\n\\fB", out);
    text_print(out, span_text(row->key));
    fputs("\\fR: \\fI", out);
    text_print(out, span_text(row->word));
    fputs("\\fR", out);
    text_print(out, span_text(row->range));
    fputc('\n', out);
    text_print(out, span_text(row->doc));
    if (row->def) {
        fputs(" (default ", out);
        text_print(out, span_text(row->def));
        fputs(row->reloadable ? "; SIGHUP applies changes)" : ")", out);
    }
    fputc('\n', out);
}

static const char settings_intro[] =
    "The server reads each setting from a YAML file (--config, or HOLDFAST_CONFIG in the\n"
    "environment), from the environment and from flags. A flag takes precedence over the\n"
    "environment, and the environment over the file. The key limits.body_bytes is\n"
    "HOLDFAST_LIMITS_BODY_BYTES in the environment and --limits-body-bytes as a flag. Sizes can\n"
    "have units (64MiB, 2GB), and so can times (500ms, 30s, 5m, 24h, 7d); plain numbers are bytes\n"
    "and milliseconds.\n";

/* ---- the rest ---- */

static const struct {
    const char *section;
    struct {
        const char *what;
        const char *text;
    } items[6];
} endings[] = {
    {"SIGNALS",
     {{"SIGTERM, SIGINT", "stop listening, finish the requests that are being processed, make "
                          "everything durable, and exit with status 0"},
      {"SIGHUP",
       "read the settings again and apply those that can be changed while the server runs"}}},
    {"EXIT STATUS",
     {{"0", "success"},
      {"1", "the command failed"},
      {"2", "the command line or the settings were invalid, or something that they name does not "
            "exist"},
      {"3 and more", "depends on the command"}}},
    {"ENVIRONMENT",
     {{"HOLDFAST_CONFIG", "the configuration file if --config is not given"},
      {"HOLDFAST_SERVER", "the server that client commands connect to"},
      {"HOLDFAST_CACERT, HOLDFAST_CLIENT_CERT, HOLDFAST_CLIENT_KEY",
       "files for https:// if --cacert, --client-cert and --client-key are not given"},
      {"HOLDFAST_...", "every key of SETTINGS in capitals, with _ instead of the dot"},
      {"NOTIFY_SOCKET, WATCHDOG_USEC", "set by systemd for services of Type=notify"}}},
    {"FILES",
     {{"./holdfast-data/holdfast.db", "the embedded store; the directory is the setting data"},
      {"/etc/default/holdfast", "environment of the systemd service; optional"},
      {"/var/lib/holdfast", "data directory of the systemd service"}}},
};

static void endings_roff(FILE *out)
{
    for (size_t s = 0; s < sizeof endings / sizeof endings[0]; s++) {
        fprintf(out, ".SH %s\n", endings[s].section);
        for (size_t i = 0; i < 6 && endings[s].items[i].what; i++) {
            fputs(".TP\n\\fB", out);
            text_print(out, span_text(endings[s].items[i].what));
            fputs("\\fR\n", out);
            line_print(out, endings[s].items[i].text);
        }
    }
}

/* Writes the page as roff. -ERR_NOMEM. */
static int man_print(FILE *out)
{
    fprintf(out, ".\\\" Generated by `holdfast man` from the tables of the program.\n");
    fprintf(out, ".TH HOLDFAST 1 \"\" \"holdfast %s\" \"Holdfast\"\n", version_number());
    /* Names of keys and options must not be broken. */
    fputs(".nh\n.ad l\n"
          ".SH NAME\nholdfast \\- a durable job queue in one binary\n"
          ".SH SYNOPSIS\n\\fBholdfast\\fR \\fICOMMAND\\fR [\\fIOPTION\\fR]... "
          "[\\fIARGUMENT\\fR]...\n"
          ".SH DESCRIPTION\n",
          out);
    lines_print(out,
                "Holdfast is a durable job queue: it stores jobs in queues and hands them out\n"
                "over HTTP. A success reply means that the change is on stable storage. The\n"
                "program contains the server, a client for its API, and tools for\n"
                "administrators, one command each.\n");
    commands_roff(out);
    fputs(".SH SETTINGS\n", out);
    lines_print(out, settings_intro);
    int err = config_describe(row_roff, out);
    endings_roff(out);
    return err;
}

int man_command(const struct command *cmd, const struct arguments *args)
{
    (void)cmd;
    (void)args;
    int err = man_print(stdout);
    if (err < 0)
        fprintf(stderr, "holdfast: %s\n", err_text(err));
    return err < 0 ? EXIT_FAILED : EXIT_DONE;
}
