/* SPDX-License-Identifier: Apache-2.0 */
/* The version of Holdfast: that of the CMake project and, if known, the commit. */
#pragma once

#include <stdio.h>

/* Writes one line, `holdfast 0.1.0 (0123456789ab)`; the commit is omitted if it was unknown at
 * build time. */
void version_print(FILE *out);
const char *version_number(void); /* "0.1.0" */
const char *version_commit(void); /* "" = not known */
