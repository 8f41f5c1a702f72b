/* SPDX-License-Identifier: Apache-2.0 */
/* src/cli/client/terminal has what a user sees and types: texts, tables, confirmations, Ctrl-C. It
 * may use the rest of cli/client, core and base.
 *
 * Text from a server for the terminal of a user.
 *
 * The text of a job, a description or an error must not control the terminal: control
 * characters, bytes that are not UTF-8 and marks that change the direction of writing are
 * escaped. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/span.h"

#define CLIENT_TEXT_WHOLE ((size_t)-1)

/* The number of terminal columns that the escaped text takes; wide characters take two,
 * combining marks none. */
size_t client_text_width(struct span text);
/* Appends the text, escaped, in at most `width` columns; a text that was truncated ends with
 * "…". Escaped text is not changed if it is escaped again. */
MUST_CHECK int client_text_show(struct buf *out, struct span text, size_t width);
/* Appends JSON as one line: line breaks between tokens become spaces, trailing white space is
 * removed. With `escape`, the control characters that JSON allows in strings (U+007F to U+009F)
 * become \u escapes, which mean the same in JSON and have no effect on a terminal. */
MUST_CHECK int client_text_json(struct buf *out, struct span json, bool escape);
