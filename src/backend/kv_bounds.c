/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kv_bounds.h"

#include <string.h>

#include "core/kvkey.h"

/* The text with one byte appended. */
static int with(struct arena *arena, struct span text, unsigned char last, struct span *ret)
{
    char *copy = arena_alloc(arena, text.len + 1);
    if (!copy)
        return -ERR_NOMEM;
    if (text.len)
        memcpy(copy, text.at, text.len);
    copy[text.len] = (char)last;
    *ret = span_of(copy, text.len + 1);
    return 0;
}

int kv_bounds_of(const struct op_kv_list *query, struct arena *arena, struct kv_bounds *ret)
{
    struct span beyond;
    *ret = (struct kv_bounds){.low = query->prefix};
    int rc = with(arena, query->prefix, KVKEY_END, &ret->end);
    if (rc == 0 && query->from.len && span_order(query->from, ret->low) > 0)
        ret->low = query->from;
    if (rc == 0 && query->to.len && span_order(query->to, ret->end) < 0)
        ret->end = query->to;
    if (rc != 0 || query->after.len == 0)
        return rc;
    if (query->reverse) {
        if (span_order(query->after, ret->end) < 0)
            ret->end = query->after;
        return 0;
    }
    rc = with(arena, query->after, 0, &beyond); /* no key lies between the two */
    if (rc == 0 && span_order(beyond, ret->low) > 0)
        ret->low = beyond;
    return rc;
}
