/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the URL of a Redis store. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define REDIS_HOST_BYTES 256
#define REDIS_PATH_BYTES 512
#define REDIS_SECRET_BYTES 512
#define REDIS_PREFIX_BYTES 64

/* What a reply promises. Without durability= in the URL, the setting of the server decides. */
enum redis_durability {
    REDIS_ASKED, /* as CONFIG GET says; without the right to run it the start is refused */
    REDIS_FSYNC, /* appendonly, appendfsync always: a reply is on the disk */
    /* whatever the server does: a crash of its machine may lose changes that were acknowledged */
    REDIS_RELAXED,
};

struct redis_url {
    bool tls;
    char host[REDIS_HOST_BYTES];
    char port[8];
    char socket[REDIS_PATH_BYTES];                               /* "" = by host and port */
    char user[REDIS_SECRET_BYTES], password[REDIS_SECRET_BYTES]; /* "" = none; never logged */
    unsigned database;
    char prefix[REDIS_PREFIX_BYTES]; /* of every key */
    enum redis_durability durability;
    char ca[REDIS_PATH_BYTES], cert[REDIS_PATH_BYTES], key[REDIS_PATH_BYTES]; /* PEM files */
};

/* rest: what follows "redis:" or "rediss:". Notes never repeat it, because it may contain a
 * password. */
MUST_CHECK int redis_url_parse(const char *rest, bool tls, struct redis_url *ret,
                               struct err_note *note);
