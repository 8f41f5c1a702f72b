/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of a queue on the command line: an option for each row of
 * core/queues/policy_table.h, and the members of the request that the options become. */
#pragma once

#include "cli/client/session.h"
#include "core/queues/policy_table.h"

/* The rows for the options of `queues`. */
#define QUEUE_POLICY_OPTIONS POLICY_TABLE(QUEUE_OPTION, )
#define QUEUE_OPTION(tag, name, kind, def, min, max, value, doc, y)                                \
    QUEUE_OPTION_##kind(#name, max, value, doc)
#define QUEUE_OPTION_NUMERIC(name, max, value, doc, kind)                                          \
    {name, 0, value, doc, (max) == INT64_MAX ? OPTION_TEXT : (kind)},
#define QUEUE_OPTION_MS(name, max, value, doc)                                                     \
    QUEUE_OPTION_NUMERIC(name, max, value, doc, OPTION_DURATION)
#define QUEUE_OPTION_BYTES(name, max, value, doc)                                                  \
    QUEUE_OPTION_NUMERIC(name, max, value, doc, OPTION_SIZE)
#define QUEUE_OPTION_NUMBER(name, max, value, doc)                                                 \
    QUEUE_OPTION_NUMERIC(name, max, value, doc, OPTION_NUMBER)
#define QUEUE_OPTION_BOOL(name, max, value, doc) {name, 0, "yes|no", doc, OPTION_CHOICE},
#define QUEUE_OPTION_WORD(name, max, value, doc) {name, 0, value, doc, OPTION_CHOICE},
#define QUEUE_OPTION_PRIORITY(name, max, value, doc) {name, 0, value "|LABEL", doc, OPTION_TEXT},
#define QUEUE_OPTION_RATE(name, max, value, doc)                                                   \
    {name, 0, "N/DURATION[/" value "]|none", doc, OPTION_TEXT},
#define QUEUE_OPTION_BACKOFF(name, max, value, doc)                                                \
    BACKOFF_TABLE(QUEUE_OPTION_PART, ){"backoff_ms", 0, "DURATION,DURATION,...",                   \
                                       BACKOFF_STEPS_DOC, OPTION_TEXT},
#define QUEUE_OPTION_PART(name, kind, min, max, value, doc, y)                                     \
    QUEUE_OPTION_##kind("backoff_" #name, max, value, doc)

/* The first of these options that was given; NULL = none. */
const char *queue_policy_given(const struct arguments *args);
/* Writes a member for each option that was given. CLIENT_DONE, or CLIENT_USAGE after a message
 * about an invalid value. */
int queue_policy_write(struct client_session *s);
