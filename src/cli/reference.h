/* SPDX-License-Identifier: Apache-2.0 */
/* The pages of docs/reference, in Markdown, generated from the tables of the program. `make
 * docs` writes the pages, and a test compares them. */
#pragma once

#include <stdio.h>

void reference_commands(FILE *out);
void reference_metrics(FILE *out);
void reference_events(FILE *out);
void reference_reasons(FILE *out);
