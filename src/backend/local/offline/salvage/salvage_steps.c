/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a job: the rows of the table steps, and over them what the journal has. */
#include "backend/local/offline/salvage/salvage_impl.h"
#include "backend/local/sqlite/rules.h"
#include "core/jobs/steps.h"

/* Adds `more` to the list; of two steps with the same name the later one stays. */
static int list_merge(struct salvage *s, struct span *list, struct span more)
{
    struct buf merged;
    struct step step;
    int rc = 0;
    buf_init(&merged);
    for (int i = 0; i < 2; i++) {
        struct span rest = i == 0 ? *list : more;
        while (rc == 0 && steps_next(&rest, &step))
            rc = steps_put(&merged, &step);
    }
    *list = buf_span(&merged);
    if (rc == 0 && !arena_keep(&s->arena, list))
        rc = -ERR_NOMEM;
    buf_done(&merged);
    return rc;
}

int salvage_steps_record(struct salvage *s, struct salvage_job *j, const struct record *r)
{
    return list_merge(s, &j->steps, r->job_report.text);
}

static bool row_take(sqlite3_stmt *st, struct buf *list, int *rc)
{
    struct step step = {column_span(st, 0), column_span(st, 1)};
    bool good = step_name_check(step.name, NULL) == 0 &&
                step.result.len <= LIMIT_STEP_RESULT_BYTES &&
                body_good(step.result, sqlite3_column_int64(st, 2), PAYLOAD_JSON);
    if (good)
        *rc = steps_append(list, &step);
    return good;
}

static int rows_take(struct salvage *s, uint64_t seq, struct span *ret, bool *ret_lost)
{
    struct buf list;
    int stored = 0;
    buf_init(&list);
    int rc = salvage_side_row(s, SALVAGE_STEPS, seq);
    while (rc == 0 && stored == 0) {
        *ret_lost = !row_take(s->stmts[SALVAGE_STEPS], &list, &stored) || *ret_lost;
        rc = salvage_row_next(s, SALVAGE_STEPS);
    }
    *ret_lost = *ret_lost || rc == -ERR_CORRUPT;
    *ret = buf_span(&list);
    rc = stored < 0 || rc == -ERR_NOMEM || !arena_keep(&s->arena, ret) ? -ERR_NOMEM : 0;
    buf_done(&list);
    return rc;
}

int salvage_steps_take(struct salvage *s, const struct salvage_job *over, struct job_view *v,
                       bool *ret_lost)
{
    int rc = 0;
    *ret_lost = false;
    v->steps = (struct span){NULL, 0};
    if (!over || !over->fresh)
        rc = rows_take(s, v->job.seq, &v->steps, ret_lost);
    if (*ret_lost)
        v->damage |= DAMAGE_STEPS;
    return rc || !over || !over->steps.len ? rc : list_merge(s, &v->steps, over->steps);
}
