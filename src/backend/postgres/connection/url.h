/* SPDX-License-Identifier: Apache-2.0 */
/* The URL of a PostgreSQL store, taken apart. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define SCHEMA_BYTES 64

struct pg_url {
    char *conninfo;            /* for libpq, without our own parameters; holds the password */
    char schema[SCHEMA_BYTES]; /* a plain name: needs no quotes */
    bool relaxed, pooled;
    int64_t patience_ms; /* how long the server may say nothing at the start; set by the opener */
};

/* rest: what follows "postgres:". Notes never repeat what was given, which may hold a password. */
MUST_CHECK int pg_url_parse(const char *rest, struct pg_url *ret, struct err_note *note);
void pg_url_done(struct pg_url *u);
