/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens as clients see them. Each token has one text form, and only that one is accepted. */
#include "core/jobs/job.h"

const uint8_t attempt_of_reason[REASON_COUNT] = {
    [REASON_NONE] = ATTEMPT_RELEASED,
    [REASON_FAILED] = ATTEMPT_FAILED,
    [REASON_REJECTED] = ATTEMPT_FAILED,
    [REASON_CRASH_LOOP] = ATTEMPT_LEASE_EXPIRED,
    [REASON_LEASE_EXPIRED] = ATTEMPT_LEASE_EXPIRED,
    [REASON_EXPIRED] = ATTEMPT_LEASE_EXPIRED,
    [REASON_CANCELLED] = ATTEMPT_CANCELLED,
    [REASON_REPLACED] = ATTEMPT_CANCELLED,
    [REASON_RELEASED] = ATTEMPT_RELEASED,
    [REASON_RESTARTED] = ATTEMPT_RELEASED,
    [REASON_DISCARDED] = ATTEMPT_CANCELLED,
    [REASON_DAMAGED] = ATTEMPT_RELEASED,
    [REASON_TIMED_OUT] = ATTEMPT_TIMED_OUT,
    [REASON_DEPENDENCY_FAILED] = ATTEMPT_CANCELLED, /* it never ran */
};

static const char digits[] = "0123456789abcdefghjkmnpqrstvwxyz";

#define COUNTER_DIGITS 13 /* of 64 bits */

/* Writes without leading zeros; returns the end. */
static char *number_text(uint64_t v, char *at)
{
    char reversed[COUNTER_DIGITS];
    int len = 0;
    do {
        reversed[len++] = digits[v & 31];
        v >>= 5;
    } while (v != 0);
    while (len > 0)
        *at++ = reversed[--len];
    return at;
}

/* No token is the empty text. */
void token_text(struct job_token t, char out[TOKEN_TEXT_BYTES])
{
    char *at = out;
    if (t.counter != 0) {
        at = number_text(t.epoch, at);
        *at++ = '-';
        at = number_text(t.counter, at);
    }
    *at = '\0';
}

/* max is all ones, so removing five bits leaves the largest possible first digits of a number. */
static bool number_parse(struct span text, uint64_t max, uint64_t *ret)
{
    uint64_t v = 0;
    if (text.len == 0 || (text.len > 1 && text.at[0] == '0'))
        return false;
    for (size_t i = 0; i < text.len; i++) {
        const char *digit = text.at[i] ? strchr(digits, text.at[i]) : NULL;
        if (!digit || v > max >> 5)
            return false;
        v = v << 5 | (uint64_t)(digit - digits);
    }
    *ret = v;
    return true;
}

int token_parse(struct span text, struct job_token *ret)
{
    const char *dash = text.len > 0 ? memchr(text.at, '-', text.len) : NULL;
    if (!dash)
        return -ERR_SYNTAX;
    size_t epoch_len = (size_t)(dash - text.at);
    uint64_t epoch, counter;
    if (!number_parse(span_of(text.at, epoch_len), UINT32_MAX, &epoch) ||
        !number_parse(span_of(dash + 1, text.len - epoch_len - 1), UINT64_MAX, &counter) ||
        counter == 0)
        return -ERR_SYNTAX;
    *ret = (struct job_token){.counter = counter, .epoch = (uint32_t)epoch};
    return 0;
}

#define DUE_BITS 43
#define DUE_PRIORITY_MAX 1000000

int64_t priority_by_due(int64_t priority, struct wall_time due)
{
    if (priority < -DUE_PRIORITY_MAX || priority > DUE_PRIORITY_MAX)
        return priority;
    int64_t ms = due.ms < 1 ? 1 : due.ms < INT64_C(1) << 42 ? due.ms : (INT64_C(1) << 42) - 1;
    return priority * (INT64_C(1) << DUE_BITS) - ms;
}

int64_t priority_given(int64_t order)
{
    int64_t unit = INT64_C(1) << DUE_BITS;
    if (order >= -DUE_PRIORITY_MAX && order <= DUE_PRIORITY_MAX)
        return order;
    return order > 0 ? (order + unit - 1) / unit : order / unit;
}

struct wall_time priority_due(int64_t order)
{
    int64_t given = priority_given(order), unit = INT64_C(1) << DUE_BITS;
    int64_t ms = given == order ? 0 : given * unit - order;
    return (struct wall_time){.ms = ms < unit / 2 ? ms : 0};
}
