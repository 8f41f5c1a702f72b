/* SPDX-License-Identifier: Apache-2.0 */
#include "core/queues/policy_fields.h"

#include <stddef.h>

#include "base/check.h"

#define MEMBER(name) (((struct queue_policy *)0)->name)
#define ROW(number, member, kind_of, def, least, most, words, meaning, y)                          \
    {.name = #member,                                                                              \
     .tag = (number),                                                                              \
     .kind = POLICY_##kind_of,                                                                     \
     .offset = offsetof(struct queue_policy, member),                                              \
     .size = sizeof MEMBER(member),                                                                \
     .is_signed = _Generic(MEMBER(member), int64_t                                                 \
                           : true, default                                                         \
                           : false),                                                               \
     .min = (least),                                                                               \
     .max = (most),                                                                                \
     .value = (words),                                                                             \
     .doc = (meaning)},

const struct policy_field policy_fields[POLICY_FIELDS] = {POLICY_TABLE(ROW, )};

bool policy_unlimited(const struct policy_field *f)
{
    return f->max == INT64_MAX && f->kind != POLICY_PRIORITY;
}

/* ---- values ---- */

int64_t policy_number(const struct policy_field *f, const struct queue_policy *p)
{
    const void *at = (const char *)p + f->offset;
    if (f->size == sizeof(uint8_t)) /* a bool, too */
        return *(const uint8_t *)at;
    if (f->size == sizeof(uint16_t))
        return *(const uint16_t *)at;
    if (f->size == sizeof(uint32_t))
        return *(const uint32_t *)at;
    CHECK(f->size == sizeof(uint64_t));
    if (f->is_signed)
        return *(const int64_t *)at;
    uint64_t value = *(const uint64_t *)at;
    return value > INT64_MAX ? INT64_MAX : (int64_t)value;
}

void policy_number_set(const struct policy_field *f, struct queue_policy *p, int64_t value)
{
    void *at = (char *)p + f->offset;
    if (f->size == sizeof(uint8_t))
        *(uint8_t *)at = (uint8_t)value;
    else if (f->size == sizeof(uint16_t))
        *(uint16_t *)at = (uint16_t)value;
    else if (f->size == sizeof(uint32_t))
        *(uint32_t *)at = (uint32_t)value;
    else if (f->is_signed)
        *(int64_t *)at = value;
    else
        *(uint64_t *)at = value == INT64_MAX ? UINT64_MAX : (uint64_t)value;
}

const struct backoff *policy_backoff(const struct policy_field *f, const struct queue_policy *p)
{
    CHECK(f->kind == POLICY_BACKOFF);
    return (const struct backoff *)(const void *)((const char *)p + f->offset);
}

const struct rate_limit *policy_rate(const struct policy_field *f, const struct queue_policy *p)
{
    CHECK(f->kind == POLICY_RATE);
    return (const struct rate_limit *)(const void *)((const char *)p + f->offset);
}

void policy_rate_set(const struct policy_field *f, struct queue_policy *p, struct rate_limit rate)
{
    CHECK(f->kind == POLICY_RATE);
    *(struct rate_limit *)(void *)((char *)p + f->offset) = rate;
}

/* ---- words ---- */

struct span policy_word(const char *words, size_t index)
{
    for (; index > 0 && *words; index--) {
        words += strcspn(words, "|");
        words += *words == '|';
    }
    return span_of(words, strcspn(words, "|"));
}

int policy_word_count(const char *words)
{
    int count = *words != '\0';
    for (; *words; words++)
        count += *words == '|';
    return count;
}

int policy_word_find(const char *words, struct span word)
{
    struct span one;
    for (int i = 0; (one = policy_word(words, (size_t)i)).len > 0; i++) {
        if (span_equal(one, word))
            return i;
    }
    return -1;
}
