/* SPDX-License-Identifier: Apache-2.0 */
/* The functions behind the rows of client_commands. Each is a command_fn; its options are in the
 * table of client.c. */
#pragma once

#include "cli/commands.h"

int client_queues(const struct command *cmd, const struct arguments *args);
int client_schedules(const struct command *cmd, const struct arguments *args);
int client_kv(const struct command *cmd, const struct arguments *args);
int client_breakers(const struct command *cmd, const struct arguments *args);
int client_alerts(const struct command *cmd, const struct arguments *args);
int client_enqueue(const struct command *cmd, const struct arguments *args);
int client_claim(const struct command *cmd, const struct arguments *args);
int client_ack(const struct command *cmd, const struct arguments *args);
int client_fail(const struct command *cmd, const struct arguments *args);
int client_extend(const struct command *cmd, const struct arguments *args);
int client_release(const struct command *cmd, const struct arguments *args);
int client_jobs(const struct command *cmd, const struct arguments *args);
int client_why(const struct command *cmd, const struct arguments *args);
int client_requeue(const struct command *cmd, const struct arguments *args);
int client_cancel(const struct command *cmd, const struct arguments *args);
int client_workers(const struct command *cmd, const struct arguments *args);
int client_step(const struct command *cmd, const struct arguments *args);
int client_progress(const struct command *cmd, const struct arguments *args);
int client_log(const struct command *cmd, const struct arguments *args);
int client_stats(const struct command *cmd, const struct arguments *args);
int client_backup(const struct command *cmd, const struct arguments *args);
int client_compact(const struct command *cmd, const struct arguments *args);
int client_export(const struct command *cmd, const struct arguments *args);
int client_import(const struct command *cmd, const struct arguments *args);
int client_events(const struct command *cmd, const struct arguments *args);
