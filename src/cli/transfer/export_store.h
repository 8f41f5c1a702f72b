/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast export --data DIR: the store in DIR, which no server uses and which may be damaged. */
#pragma once

#include "config/options.h"

/* The exit status: 0 everything, 1 some jobs could not be read, 2 nothing can be read. */
int export_store(const struct arguments *args);
