/* SPDX-License-Identifier: Apache-2.0 */
/* Text from a server on its way to a person's terminal.
 *
 * Whatever a job, a queue's note or an error says is shown, never obeyed: control characters, bytes
 * that are no UTF-8 and the marks that turn the direction of writing come out as escapes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/span.h"

#define CLIENT_TEXT_WHOLE ((size_t)-1)

/* How many columns of a terminal the text takes once escaped; wide characters take two, marks that
 * combine with the one before none. */
size_t client_text_width(struct span text);
/* Appends the text, escaped, in at most `width` columns; a text that was cut ends with "…". What
 * was escaped once is not changed by showing it again. */
MUST_CHECK int client_text_show(struct buf *out, struct span text, size_t width);
/* Appends JSON as one line: line breaks between tokens become spaces, trailing white space goes.
 * With `escape`, the control characters that JSON lets stand in strings (U+007F to U+009F) become
 * \u escapes, which mean the same to a reader of JSON and nothing to a terminal. */
MUST_CHECK int client_text_json(struct buf *out, struct span json, bool escape);
