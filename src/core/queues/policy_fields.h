/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of the table of queue settings (core/queues/policy_table.h) for code that iterates over
 * them, and access to the value in a policy. */
#pragma once

#include "core/queues/policy.h"
#include "core/queues/policy_table.h"

enum policy_kind {
    POLICY_MS,       /* milliseconds */
    POLICY_BYTES,    /* bytes */
    POLICY_NUMBER,   /* a count */
    POLICY_BOOL,     /* true or false */
    POLICY_WORD,     /* an enum in a uint8_t */
    POLICY_PRIORITY, /* any int64_t; a client may also name a label */
    POLICY_BACKOFF,  /* struct backoff: an object, or a list of waits */
    POLICY_RATE,     /* struct rate_limit: an object, or none */
};

struct policy_field {
    const char *name;
    uint8_t tag;
    uint8_t kind;          /* enum policy_kind */
    uint16_t offset, size; /* of the member of struct queue_policy */
    bool is_signed;        /* the member is an int64_t */
    int64_t min, max;      /* INT64_MAX: there may be no limit, except for a PRIORITY */
    const char *value;
    const char *doc;
};

#define POLICY_INDEX(tag, name, kind, def, min, max, value, doc, y) POLICY_INDEX_##name,
enum { POLICY_TABLE(POLICY_INDEX, ) POLICY_FIELDS };
#undef POLICY_INDEX

extern const struct policy_field policy_fields[POLICY_FIELDS];

/* Whether the value may be "no limit". */
bool policy_unlimited(const struct policy_field *f);
/* For every kind except BACKOFF and RATE. "No limit" is INT64_MAX, whatever the type of the
 * member. */
int64_t policy_number(const struct policy_field *f, const struct queue_policy *p);
void policy_number_set(const struct policy_field *f, struct queue_policy *p, int64_t value);
/* For POLICY_BACKOFF and POLICY_RATE. */
const struct backoff *policy_backoff(const struct policy_field *f, const struct queue_policy *p);
const struct rate_limit *policy_rate(const struct policy_field *f, const struct queue_policy *p);
void policy_rate_set(const struct policy_field *f, struct queue_policy *p, struct rate_limit rate);

/* The words of a row are separated by '|'. The word number `index`; empty after the last. */
struct span policy_word(const char *words, size_t index);
int policy_word_count(const char *words);
/* The number of the word; -1 if it is not one of them. */
int policy_word_find(const char *words, struct span word);
