/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by config*.c: a row of the table of settings, and how values are read and written. */
#pragma once

#include "config/config.h"
#include "config/units.h"

enum config_kind {
    CONFIG_TEXT,
    CONFIG_DIR,     /* text that names a directory */
    CONFIG_LIST,    /* of texts */
    CONFIG_NUMBER,  /* whole */
    CONFIG_SIZE,    /* bytes */
    CONFIG_MS,      /* milliseconds */
    CONFIG_SECONDS, /* kept in milliseconds, plain numbers are seconds */
    CONFIG_BOOL,
    CONFIG_CHOICE,
    CONFIG_STEPS,  /* list of milliseconds: the back-off */
    CONFIG_RATE,   /* a rate of a queue: config/rate.h */
    CONFIG_LABELS, /* map of label to number, lower first */
};

enum config_flag {
    CONFIG_RELOAD = 1u << 0,  /* SIGHUP can change it */
    CONFIG_ALL = 1u << 1,     /* takes a name for "no limit": stored as the type's largest value */
    CONFIG_ALIAS = 1u << 2,   /* another name of a member that has its own row */
    CONFIG_SECRET = 1u << 3,  /* an address that may carry a password */
    CONFIG_BACKOFF = 1u << 4, /* excludes backoff_ms in the same source */
};

/* NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): rows read in this order */
struct config_key {
    const char *key;
    enum config_kind kind;
    size_t offset, size; /* of the member */
    const char *def;
    int64_t min, max;
    const char *word;
    unsigned flags;
    const char *doc;
};

#define CONFIG_LABELS_MAX 100

extern const struct config_key config_keys[CONFIG_KEYS];

/* NULL: not found. */
const struct config_key *config_key_find(struct span key);
size_t config_key_index(const struct config_key *k);
/* The first row whose key begins with "name.", a map in the file; NULL: no such section. */
const struct config_key *config_section(struct span name);
/* The key or section that was probably meant: one that ends in this name, or the nearest. false:
 * none is near. */
#define CONFIG_NAME_MAX 64
bool config_key_near(struct span typed, char out[CONFIG_NAME_MAX]);

/* "HOLDFAST_LIMITS_BODY_BYTES". Returns out. */
#define CONFIG_ENV_MAX 80
const char *config_env_name(const struct config_key *k, char out[CONFIG_ENV_MAX]);

/* The source of a value, for messages, and the value: one item, the items of a list, or for
 * labels name and number alternately. */
struct config_given {
    enum config_source source;
    uint32_t line;       /* of the file, else 0 */
    const char *subject; /* "holdfast.yaml:3: data", "HOLDFAST_DATA", "--data" */
    const struct span *items;
    size_t count;
};
#define CONFIG_ITEMS_MAX 512

/* Checks the value and stores it in c. A key that the same source has already set, by any of its
 * names, is refused. -ERR_INVALID, -ERR_NOMEM. */
MUST_CHECK int config_set(struct config *c, const struct config_key *k,
                          const struct config_given *given, struct err_note *note);
/* The name that means "no limit", the last of the row's names; NULL: there is a limit. */
const char *config_unlimited(const struct config_key *k);
/* Whether the value is a list or a map. */
bool config_takes_list(const struct config_key *k);
/* Appends the value as YAML on one line, with or without the secrets of addresses. */
MUST_CHECK int config_value(const struct config *c, const struct config_key *k, bool secrets,
                            struct buf *out);
/* Whether the value is one number with a range, and in which unit. */
bool config_unit(const struct config_key *k, enum unit_kind *ret);
/* Appends what a value must be: "bytes, such as …, from 1KiB to 1GiB". */
MUST_CHECK int config_expected(const struct config_key *k, struct buf *out);

/* Reads a file's bytes into c. */
MUST_CHECK int config_yaml(struct config *c, const char *name, struct span text,
                           struct err_note *note);
/* Reads a whole file of at most CONFIG_FILE_BYTES_MAX bytes. */
MUST_CHECK int config_file_read(const char *path, struct buf *ret, struct err_note *note);

/* Parses webqueue.types into webqueue.types of c. */
MUST_CHECK int config_webqueue(struct config *c, struct err_note *note);
/* Parses routes into routes of c. */
MUST_CHECK int config_routes(struct config *c, struct err_note *note);
