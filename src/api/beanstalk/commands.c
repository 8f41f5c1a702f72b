/* SPDX-License-Identifier: Apache-2.0 */
/* The table of commands: what each takes, which function does it, which figure counts it. */
#include "api/beanstalk/impl.h"

/* NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): rows read in this order */
static const struct {
    const char *args;
    void (*run)(struct conn *c, struct order *k, const struct bs_command *cmd);
    const char *doc;
} commands[BS_WORD_COUNT] = {
    [BS_PUT] = {"PRI DELAY TTR BYTES", bs_put, "puts a job into the tube in use"},
    [BS_RESERVE] = {"", bs_reserve, "waits for a job of the watched tubes"},
    [BS_RESERVE_TIMEOUT] = {"SECONDS", bs_reserve, "the same, for so long at most"},
    [BS_RESERVE_JOB] = {"ID", bs_reserve_job, "reserves this job, unless it is reserved"},
    [BS_DELETE] = {"ID", bs_delete, "ends a job: one's own, or one that is not reserved"},
    [BS_RELEASE] = {"ID PRI DELAY", bs_release, "hands a reserved job back"},
    [BS_BURY] = {"ID PRI", bs_bury, "puts a reserved job aside: it is dead until kicked"},
    [BS_TOUCH] = {"ID", bs_touch, "begins the time to run of a reserved job anew"},
    [BS_USE] = {"TUBE", bs_use, "puts go there from now on"},
    [BS_WATCH] = {"TUBE", bs_watch, "reserves look there, too"},
    [BS_IGNORE] = {"TUBE", bs_ignore, "reserves look there no more"},
    [BS_PEEK] = {"ID", bs_peek, "shows a job"},
    [BS_PEEK_READY] = {"", bs_peek_state, "shows the next ready job of the tube in use"},
    [BS_PEEK_DELAYED] = {"", bs_peek_state, "shows the delayed job that is due next"},
    [BS_PEEK_BURIED] = {"", bs_peek_state, "shows the job that was buried first"},
    [BS_KICK] = {"BOUND", bs_kick, "makes buried jobs ready, or else delayed ones"},
    [BS_KICK_JOB] = {"ID", bs_kick_job, "makes this buried or delayed job ready"},
    [BS_STATS] = {"", bs_stats, "figures of the server"},
    [BS_STATS_JOB] = {"ID", bs_stats_job, "figures of a job"},
    [BS_STATS_TUBE] = {"TUBE", bs_stats_tube, "figures of a tube"},
    [BS_LIST_TUBES] = {"", bs_list_tubes, "the tubes there are"},
    [BS_LIST_TUBE_USED] = {"", bs_list_tube_used, "the tube in use"},
    [BS_LIST_TUBES_WATCHED] = {"", bs_list_tubes_watched, "the tubes that reserves look at"},
    [BS_PAUSE_TUBE] = {"TUBE SECONDS", bs_pause_tube, "no reserve gets jobs of it for so long"},
    [BS_QUIT] = {"", bs_quit, "closes the connection"},
};

void bs_command_run(struct conn *c, struct order *k, const struct bs_command *cmd)
{
    c->api->commands[cmd->word]++;
    commands[cmd->word].run(c, k, cmd);
}

void beanstalk_commands_print(FILE *out)
{
    fputs("| command | what it does |\n| --- | --- |\n", out);
    for (unsigned w = 0; w < BS_WORD_COUNT; w++)
        fprintf(out, "| `%s%s%s` | %s |\n", bs_word_name((enum bs_word)w),
                commands[w].args[0] ? " " : "", commands[w].args, commands[w].doc);
}
