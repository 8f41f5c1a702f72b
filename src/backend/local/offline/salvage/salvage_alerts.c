/* SPDX-License-Identifier: Apache-2.0 */
/* Alert rules out of a store: its table, and what the journal says about them. Secrets stay in it.
 */
#include "backend/local/offline/salvage/salvage_impl.h"
#include "backend/local/sqlite/notices.h"
#include "base/mem.h"

static struct rec_alert_put *alert_of(const struct salvage *s, struct span name)
{
    for (size_t i = 0; i < s->alert_count; i++)
        if (span_equal(s->alerts[i].name, name))
            return &s->alerts[i];
    return NULL;
}

/* Copies the rule; replaces what it was. */
static int alert_set(struct salvage *s, const struct rec_alert_put *from)
{
    struct rec_alert_put put = *from, *there = alert_of(s, from->name);
    struct span *const texts[] = {&put.name, &put.rule.queue, &put.rule.url, &put.rule.secret};
    int rc = 0;
    for (size_t i = 0; i < sizeof texts / sizeof *texts && rc == 0; i++)
        rc = salvage_text_keep(s, texts[i]);
    if (rc != 0)
        return rc;
    if (!there) {
        struct rec_alert_put *grown =
            mem_more(s->alerts, s->alert_count, &s->alert_room, sizeof *grown);
        if (!grown)
            return -ERR_NOMEM;
        s->alerts = grown;
        there = &s->alerts[s->alert_count++];
    }
    *there = put;
    return 0;
}

static int record_cb(void *ctx, const struct record *r)
{
    struct err_note ignored;
    if (alert_name_check(r->alert_put.name, &ignored) != 0 ||
        alert_rule_check(&r->alert_put.rule, &ignored) != 0)
        return -ERR_CORRUPT;
    return alert_set(ctx, &r->alert_put);
}

int salvage_alerts_read(struct salvage *s)
{
    struct err_note ignored;
    const struct store_sink sink = {.ctx = s, .record = record_cb};
    int rc = load_alert_records(s->db, &sink, &ignored);
    if (rc == -ERR_CORRUPT || rc == -ERR_IO) {
        salvage_problem(s, "alert rules cannot be read");
        s->report->alerts++;
        rc = 0;
    }
    return rc;
}

int salvage_alert_record(struct salvage *s, const struct record *r)
{
    if (r->kind == REC_ALERT_PUT)
        return alert_set(s, &r->alert_put);
    struct rec_alert_put *there = alert_of(s, r->alert_gone.name);
    if (there)
        there->name = span_of(NULL, 0);
    return 0;
}

int salvage_alerts_give(struct salvage *s)
{
    int rc = 0;
    for (size_t i = 0; i < s->alert_count && rc == 0; i++) {
        const struct rec_alert_put *p = &s->alerts[i];
        struct alert_view view = {.name = p->name,
                                  .rule = p->rule,
                                  .has_secret = p->rule.secret.len > 0,
                                  .created_at = p->created_at,
                                  .updated_at = p->updated_at};
        view.rule.secret = span_of(NULL, 0);
        if (p->name.len > 0 && s->sink->alert)
            rc = s->sink->alert(s->sink->ctx, &view);
    }
    return rc;
}
