/* SPDX-License-Identifier: Apache-2.0 */
/* The queue types of a server's API webqueue, and those that a database needs and it lacks. */
#pragma once

#include "api/webqueue/webqueue.h"
#include "cli/client/session.h"

#define WEB_TYPES_NAMED 20 /* of the missing ones; more are only counted */

struct web_types {
    struct span known[WEBQUEUE_TYPES_MAX];
    size_t known_count;
    struct span missing[WEB_TYPES_NAMED];
    size_t missing_count; /* of those in `missing` */
    bool more;            /* others are missing, too */
    uint64_t rows;        /* of missing types */
    struct arena arena;   /* of the names */
};

void web_types_init(struct web_types *t);
void web_types_done(struct web_types *t);
/* Asks the server. CLIENT_DONE, or another status after it has said why. */
int web_types_ask(struct web_types *t, struct client_session *s);
/* Whether the server has the type; one that it lacks is remembered. */
bool web_types_has(struct web_types *t, struct span name);
/* Says which types are missing, and what to do; CLIENT_REFUSED. */
int web_types_complain(const struct web_types *t);
