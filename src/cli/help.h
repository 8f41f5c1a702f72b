/* SPDX-License-Identifier: Apache-2.0 */
/* Help texts for a terminal, generated from the tables. */
#pragma once

#include <stdio.h>

#include "cli/commands.h"

void help_list(FILE *out);                             /* every command with one line */
void help_print(const struct command *cmd, FILE *out); /* one command with its options */
extern const struct option help_options[1];
int help_command(const struct command *cmd, const struct arguments *args); /* `holdfast help` */
