/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/help.h"

#include <string.h>

#include "api/api.h"
#include "api/beanstalk/beanstalk.h"
#include "api/problems/problem_table.h"
#include "api/v1/v1.h"
#include "cli/policy_page.h"
#include "cli/reference.h"
#include "config/config.h"

void help_list(FILE *out)
{
    fputs("Holdfast, a durable job queue in one binary.\n"
          "\n"
          "Usage: holdfast COMMAND [OPTION]... [ARGUMENT]...\n",
          out);
    for (const struct command_group *g = command_groups(); g->title; g++) {
        fprintf(out, "\n%s:\n", g->title);
        for (size_t i = 0; i < *g->count; i++) {
            char left[128];
            int width = snprintf(left, sizeof(left), "%s %s", g->rows[i].name, g->rows[i].args);
            /* The text of an option that does not fit into its column begins on the next line. */
            if (width > 28)
                fprintf(out, "  %s\n  %28s %s\n", left, "", g->rows[i].summary);
            else
                fprintf(out, "  %-28s %s\n", left, g->rows[i].summary);
        }
    }
    fputs(
        "\n`holdfast help COMMAND` explains a command, and `holdfast help config` the settings.\n",
        out);
}

enum { HELP_COLUMN = 36 }; /* where the texts of options begin */

static void option_print(const struct option *o, FILE *out)
{
    char name[OPTION_NAME_MAX];
    char left[OPTION_NAME_MAX + 64];
    char indent[HELP_COLUMN + 1];
    char letter[] = {'-', o->letter, ',', ' ', '\0'};
    const char *before = o->kind == OPTION_SWITCH ? "[=" : o->argument ? " " : "";
    snprintf(left, sizeof(left), "%s--%s%s%s%s", o->letter ? letter : "    ", option_name(o, name),
             before, o->argument ? o->argument : "", o->kind == OPTION_SWITCH ? "]" : "");
    snprintf(indent, sizeof(indent), "%*s", HELP_COLUMN, "");
    fprintf(out, "  %-*s", HELP_COLUMN - 2, left);
    if (strlen(left) > HELP_COLUMN - 3) /* no room: the text begins on the next line */
        fprintf(out, "\n%s", indent);
    help_wrap(out, indent, o->doc);
}

void help_print(const struct command *cmd, FILE *out)
{
    command_synopsis(cmd, out);
    fprintf(out, ": %s\n\n%s", cmd->summary, cmd->detail);
    if (cmd->option_count > 0)
        fputs("\nOptions:\n", out);
    for (size_t i = 0; i < cmd->option_count; i++)
        option_print(&cmd->options[i], out);
}

const struct option help_options[1] = {
    {"markdown", 0, NULL, "print the reference page of a topic (all except routes)", OPTION_FLAG},
};

/* ---- topics ---- */

static int help_commands(bool markdown)
{
    if (markdown)
        reference_commands(stdout);
    else
        help_list(stdout);
    return EXIT_DONE;
}

static int printed(int err)
{
    if (err < 0)
        fprintf(stderr, "holdfast: %s\n", err_text(err));
    return err < 0 ? EXIT_FAILED : EXIT_DONE;
}

static int help_config(bool markdown)
{
    return printed(markdown ? config_markdown(stdout) : config_help(stdout));
}

static int help_policy(bool markdown)
{
    return printed(markdown ? policy_markdown(stdout) : policy_help(stdout));
}

static int help_events(bool markdown)
{
    (void)markdown;
    reference_events(stdout);
    return EXIT_DONE;
}

static int help_metrics(bool markdown)
{
    (void)markdown;
    reference_metrics(stdout);
    return EXIT_DONE;
}

static int help_problems(bool markdown)
{
    problems_print(stdout, markdown);
    return EXIT_DONE;
}

static int help_reasons(bool markdown)
{
    (void)markdown;
    reference_reasons(stdout);
    return EXIT_DONE;
}

static int help_routes(bool markdown)
{
    (void)markdown;
    size_t count;
    const struct http_route *routes = native_routes(&count);
    api_routes_print(stdout, routes, count);
    for (size_t i = 0; api_at(i); i++) {
        printf("\n%s: %s\n\n", api_at(i)->name, api_at(i)->doc);
        api_routes_print(stdout, api_at(i)->routes, api_at(i)->route_count);
    }
    puts("\nbeanstalk: beanstalkd's protocol on its own port (beanstalk.listen)\n");
    beanstalk_commands_print(stdout);
    return EXIT_DONE;
}

static const struct help_topic {
    const char *name;
    int (*print)(bool markdown);
} topics[] = {
    {"commands", help_commands}, {"config", help_config}, {"events", help_events},
    {"metrics", help_metrics},   {"policy", help_policy}, {"problems", help_problems},
    {"reasons", help_reasons},   {"routes", help_routes},
};

int help_command(const struct command *cmd, const struct arguments *args)
{
    (void)cmd;
    if (args->word_count == 0) {
        help_list(stdout);
        return EXIT_DONE;
    }
    for (size_t i = 0; i < sizeof topics / sizeof *topics; i++) {
        if (strcmp(args->words[0], topics[i].name) == 0)
            return topics[i].print(arguments_has(args, "markdown"));
    }
    const struct command *topic = command_find(args->words[0]);
    if (!topic)
        return command_unknown(args->words[0]);
    help_print(topic, stdout);
    return EXIT_DONE;
}
