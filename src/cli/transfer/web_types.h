/* SPDX-License-Identifier: Apache-2.0 */
/* The queue types of a server's API webqueue, and those that a database needs and the server
 * lacks. */
#pragma once

#include "api/webqueue/webqueue.h"
#include "cli/client/session.h"

#define WEB_TYPES_NAMED 20 /* names that are kept; more are only counted */

struct web_types {
    struct span known[WEBQUEUE_TYPES_MAX];
    size_t known_count;
    struct span missing[WEB_TYPES_NAMED];
    size_t missing_count; /* of those in `missing` */
    bool more;            /* other types are missing as well */
    uint64_t rows;        /* of missing types */
    struct arena arena;   /* of the names */
};

void web_types_init(struct web_types *t);
void web_types_done(struct web_types *t);
/* Reads the types from the server. CLIENT_DONE, or another status after a message. */
int web_types_ask(struct web_types *t, struct client_session *s);
/* Whether the server has the type; a missing one is remembered. */
bool web_types_has(struct web_types *t, struct span name);
/* Prints which types are missing, and what to do; CLIENT_REFUSED. */
int web_types_complain(const struct web_types *t);
