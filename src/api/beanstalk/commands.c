/* SPDX-License-Identifier: Apache-2.0 */
/* The table of commands: the arguments, the function and the counter of each command. */
#include "api/beanstalk/impl.h"

/* NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): rows read in this order */
static const struct {
    const char *args;
    void (*run)(struct conn *c, struct order *k, const struct bs_command *cmd);
    const char *doc;
} commands[BS_VERB_COUNT] = {
    [BS_PUT] = {"PRI DELAY TTR BYTES", bs_put, "puts a job into the tube in use"},
    [BS_RESERVE] = {"", bs_reserve, "waits for a job of the watched tubes"},
    [BS_RESERVE_TIMEOUT] = {"SECONDS", bs_reserve, "waits for a job at most this many seconds"},
    [BS_RESERVE_JOB] = {"ID", bs_reserve_job, "reserves this job, unless it is reserved"},
    [BS_DELETE] = {"ID", bs_delete,
                   "deletes a job that this connection has reserved, or that is not reserved"},
    [BS_RELEASE] = {"ID PRI DELAY", bs_release, "releases a reserved job"},
    [BS_BURY] = {"ID PRI", bs_bury, "buries a reserved job: it is dead until it is kicked"},
    [BS_TOUCH] = {"ID", bs_touch, "restarts the time to run of a reserved job"},
    [BS_USE] = {"TUBE", bs_use, "selects the tube for later puts"},
    [BS_WATCH] = {"TUBE", bs_watch, "adds a tube to those that reserves take jobs from"},
    [BS_IGNORE] = {"TUBE", bs_ignore, "removes a tube from those that reserves take jobs from"},
    [BS_PEEK] = {"ID", bs_peek, "shows a job"},
    [BS_PEEK_READY] = {"", bs_peek_state, "shows the next ready job of the tube in use"},
    [BS_PEEK_DELAYED] = {"", bs_peek_state, "shows the delayed job that is due next"},
    [BS_PEEK_BURIED] = {"", bs_peek_state, "shows the job that was buried first"},
    [BS_KICK] = {"BOUND", bs_kick, "makes buried jobs ready, or else delayed ones"},
    [BS_KICK_JOB] = {"ID", bs_kick_job, "makes this buried or delayed job ready"},
    [BS_STATS] = {"", bs_stats, "statistics of the server"},
    [BS_STATS_JOB] = {"ID", bs_stats_job, "statistics of a job"},
    [BS_STATS_TUBE] = {"TUBE", bs_stats_tube, "statistics of a tube"},
    [BS_LIST_TUBES] = {"", bs_list_tubes, "lists all tubes"},
    [BS_LIST_TUBE_USED] = {"", bs_list_tube_used, "shows the tube in use"},
    [BS_LIST_TUBES_WATCHED] = {"", bs_list_tubes_watched,
                               "lists the tubes that reserves take jobs from"},
    [BS_PAUSE_TUBE] = {"TUBE SECONDS", bs_pause_tube,
                       "pauses a tube for this many seconds: reserves get no jobs of it"},
    [BS_QUIT] = {"", bs_quit, "closes the connection"},
};

void bs_command_run(struct conn *c, struct order *k, const struct bs_command *cmd)
{
    c->api->commands[cmd->verb]++;
    commands[cmd->verb].run(c, k, cmd);
}

void beanstalk_commands_print(FILE *out)
{
    fputs("| command | what it does |\n| --- | --- |\n", out);
    for (unsigned w = 0; w < BS_VERB_COUNT; w++)
        fprintf(out, "| `%s%s%s` | %s |\n", bs_verb_name((enum bs_verb)w),
                commands[w].args[0] ? " " : "", commands[w].args, commands[w].doc);
}
