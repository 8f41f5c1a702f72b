/* SPDX-License-Identifier: Apache-2.0 */
/* The man page holdfast(1), generated from the tables of commands and settings. */
#pragma once

#include "cli/commands.h"

int man_command(const struct command *cmd, const struct arguments *args); /* `holdfast man` */
