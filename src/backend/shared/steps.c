/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of jobs (ops/jobs/steps.c has the rules). The row of a job has the index of its steps; the
 * results are beside it, and are loaded for a claim or a view only if the index is not empty. */
#include "backend/shared/shared.h"
#include "base/json/json.h"

/* Of two steps with the same name the later one stays. */
static struct span lists_merge(struct unit *u, struct span list, struct span more)
{
    struct step s;
    int err = 0;
    buf_clear(&u->scratch);
    while (err == 0 && steps_next(&list, &s))
        err = steps_put(&u->scratch, &s);
    while (err == 0 && steps_next(&more, &s))
        err = steps_put(&u->scratch, &s);
    u->nomem |= err != 0;
    return unit_steps_end(u);
}

void unit_row_steps(struct unit *u, struct row *r, struct span list)
{
    size_t room = r->step_index.len + steps_count(list) * STEP_INDEX_BYTES;
    char *index = unit_alloc(u, room);
    if (!index)
        return;
    if (r->step_index.len)
        memcpy(index, r->step_index.at, r->step_index.len);
    r->step_index = span_of(index, steps_index_add(index, r->step_index.len, u->hash_key, list));
    r->new_steps = r->new_steps.len ? lists_merge(u, r->new_steps, list) : list;
}

/* --- what a store returns --- */

void unit_steps_begin(struct unit *u)
{
    buf_clear(&u->scratch);
}

/* What could not have been stored is left out. */
void unit_steps_add(struct unit *u, struct span name, struct span result)
{
    struct step s = {name, result};
    if (step_name_check(name, NULL) != 0 || result.len > LIMIT_STEP_RESULT_BYTES ||
        json_check(result, NULL, NULL) != 0)
        return;
    u->nomem |= steps_append(&u->scratch, &s) != 0;
}

struct span unit_steps_end(struct unit *u)
{
    size_t len = u->scratch.len;
    const char *copy = len ? arena_copy(&u->arena, u->scratch.data, len) : NULL;
    u->nomem |= len > 0 && !copy;
    return span_of(copy, copy ? len : 0);
}
