/* SPDX-License-Identifier: Apache-2.0 */
/* The program under the name beanstalkd: that program's options, this program's server. */
#pragma once

#include <stdbool.h>

/* Whether argv[0] is a path that ends in "beanstalkd". */
bool beanstalkd_called(const char *argv0);
/* Reads the options and runs `serve` with the settings that they stand for. Returns the exit
 * status. */
int beanstalkd_line(int argc, char **argv);
