/* SPDX-License-Identifier: Apache-2.0 */
/* What workers reported about a job: the row of the table report, and over it what the journal has.
 */
#include "backend/local/offline/salvage/salvage_impl.h"
#include "base/json/json.h"
#include "core/jobs/progress.h"

static int log_append(struct salvage *s, struct span log, struct span more, struct span *ret)
{
    char *text = arena_alloc(&s->arena, log.len + more.len);
    if (!text)
        return -ERR_NOMEM;
    memcpy(text, log.at, log.len);
    memcpy(text + log.len, more.at, more.len);
    *ret = joblog_tail(span_of(text, log.len + more.len));
    return 0;
}

int salvage_report_record(struct salvage *s, struct salvage_job *j, const struct record *r)
{
    struct span text = r->job_report.text;
    if (r->kind == REC_JOB_PROGRESS)
        j->progress = text;
    else if (j->log.len)
        return log_append(s, j->log, text, &j->log);
    else
        j->log = text;
    return 0;
}

/* Only the progress of the newest lease is shown. Its data is written to the export as it is. */
static struct span shown(struct span progress, struct job_token newest)
{
    struct progress p;
    progress = progress_shown(progress, newest);
    bool good = progress.len && progress_decode(progress, &p) == 0 &&
                (p.data.len == 0 || json_check(p.data, NULL, NULL) == 0);
    return good ? progress : (struct span){NULL, 0};
}

int salvage_report_take(struct salvage *s, const struct salvage_job *over, struct job_view *v,
                        bool *ret_lost)
{
    sqlite3_stmt *st = s->stmts[SALVAGE_REPORT];
    struct job_token token = {0};
    int rc = over && over->fresh ? -ERR_NOT_FOUND : salvage_side_row(s, SALVAGE_REPORT, v->job.seq);
    *ret_lost = rc == -ERR_CORRUPT;
    if (rc == 0) {
        v->progress = column_span(st, 0);
        v->log = column_span(st, 1);
        token = (struct job_token){.epoch = (uint32_t)sqlite3_column_int64(st, 2),
                                   .counter = (uint64_t)sqlite3_column_int64(st, 3)};
    }
    if (over && over->claimed)
        token = over->token;
    if (over && over->progress.len)
        v->progress = over->progress;
    v->progress = shown(v->progress, token);
    if (rc == -ERR_NOMEM || !over || over->log.len == 0)
        return rc == -ERR_NOMEM ? rc : 0;
    if (v->log.len == 0) {
        v->log = over->log;
        return 0;
    }
    return log_append(s, v->log, over->log, &v->log);
}
