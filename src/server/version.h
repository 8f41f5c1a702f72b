/* SPDX-License-Identifier: Apache-2.0 */
/* Which Holdfast this is: the version of the CMake project and, where known, the commit. */
#pragma once

#include <stdio.h>

/* Writes one line, `holdfast 0.1.0 (0123456789ab)`; the brackets are left out when the build did
 * not know its commit. */
void version_print(FILE *out);
const char *version_number(void); /* "0.1.0" */
const char *version_commit(void); /* "" = not known */
