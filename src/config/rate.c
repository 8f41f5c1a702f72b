/* SPDX-License-Identifier: Apache-2.0 */
#include "config/rate.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/queues/policy_fields.h"

/* The text up to the next '/', which is removed from *rest. */
static struct span part_take(struct span *rest)
{
    const char *slash = rest->len > 0 ? memchr(rest->at, '/', rest->len) : NULL;
    struct span part = span_of(rest->at, slash ? (size_t)(slash - rest->at) : rest->len);
    size_t used = part.len + (slash != NULL);
    *rest = span_of(rest->at + used, rest->len - used);
    return part;
}

static int window_parse(struct span text, int64_t *ret)
{
    char one[16];
    bool unit_only = text.len > 0 && (text.at[0] < '0' || text.at[0] > '9');
    if (!unit_only)
        return units_parse(text, UNIT_DURATION, ret);
    if (text.len >= sizeof one - 1)
        return -ERR_SYNTAX;
    snprintf(one, sizeof one, "1%.*s", (int)text.len, text.at);
    return units_parse(span_text(one), UNIT_DURATION, ret);
}

int rate_parse(struct span text, const char *pers, struct rate_limit *ret)
{
    int64_t count = 0, window_ms = 0;
    int per = 0;
    if (span_equal(text, SPAN_LITERAL("none"))) {
        *ret = (struct rate_limit){0};
        return 0;
    }
    struct span rest = text;
    int err = units_parse(part_take(&rest), UNIT_NONE, &count);
    if (err == 0)
        err = window_parse(part_take(&rest), &window_ms);
    if (err == 0 && text.at[text.len - 1] == '/')
        err = -ERR_SYNTAX;
    if (err == 0 && rest.len > 0)
        err = (per = policy_word_find(pers, rest)) < 0 ? -ERR_SYNTAX : 0;
    if (err < 0)
        return err;
    if (count < 1 || count > LIMIT_RATE_COUNT || window_ms < 1 || window_ms > LIMIT_RATE_WINDOW_MS)
        return -ERR_RANGE;
    *ret = (struct rate_limit){(uint8_t)per, (uint32_t)count, (uint32_t)window_ms};
    return 0;
}

const char *rate_text(const struct rate_limit *r, const char *pers, char out[RATE_TEXT_MAX])
{
    char window[UNITS_TEXT_MAX];
    struct span per = policy_word(pers, r->per);
    units_text(r->window_ms, UNIT_DURATION, window);
    if (r->count == 0)
        snprintf(out, RATE_TEXT_MAX, "none");
    else if (r->per == 0)
        snprintf(out, RATE_TEXT_MAX, "%" PRIu32 "/%s", r->count, window);
    else
        snprintf(out, RATE_TEXT_MAX, "%" PRIu32 "/%s/%.*s", r->count, window, (int)per.len, per.at);
    return out;
}

const char *rate_expected(const char *pers, char out[RATE_EXPECTED_MAX])
{
    char window[UNITS_TEXT_MAX];
    snprintf(out, RATE_EXPECTED_MAX,
             "none, or N/DURATION such as 100/1m, at most %u jobs and %s, and optionally what it "
             "is counted by (one of %s), such as 10/1s/group",
             LIMIT_RATE_COUNT, units_text(LIMIT_RATE_WINDOW_MS, UNIT_DURATION, window), pers);
    return out;
}
