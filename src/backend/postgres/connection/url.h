/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the URL of a PostgreSQL store. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define SCHEMA_BYTES 64

struct pg_url {
    /* for libpq, without Holdfast's own parameters; contains the password */
    char *conninfo;
    char schema[SCHEMA_BYTES]; /* a plain name that needs no quotes */
    bool relaxed, pooled;
    /* how long the server may send nothing during the start; set by the opener */
    int64_t patience_ms;
};

/* rest: what follows "postgres:". Notes never repeat it, because it may contain a password. */
MUST_CHECK int pg_url_parse(const char *rest, struct pg_url *ret, struct err_note *note);
void pg_url_done(struct pg_url *u);
