/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules in memory, and the job to which a trigger gave an item. */
#include <inttypes.h>

#include "backend/local/memory/store_memory.h"
#include "base/containers/sorted.h"
#include "base/mem.h"

static size_t place(const struct store_memory *m, uint32_t number)
{
    return SORTED_INDEX(m->schedule_count, i, m->schedules[i].put.schedule < number);
}

static int need(const struct store_memory *m, uint32_t number, struct kept_schedule **ret,
                struct err_note *note)
{
    size_t at = place(m, number);
    if (at < m->schedule_count && m->schedules[at].put.schedule == number) {
        *ret = &m->schedules[at];
        return 0;
    }
    (void)err_note_set(note, -ERR_CORRUPT,
                       "a record names schedule %" PRIu32 ", which does not exist", number);
    return -ERR_CORRUPT;
}

static int put(struct store_memory *m, const struct rec_schedule_put *r)
{
    size_t at = place(m, r->schedule);
    bool is_new = at == m->schedule_count || m->schedules[at].put.schedule != r->schedule;
    struct kept_schedule *grown =
        mem_more(m->schedules, m->schedule_count, &m->schedule_room, sizeof *grown);
    if (!grown)
        return -ERR_NOMEM;
    m->schedules = grown;
    char *texts =
        mem_alloc(r->name.len + r->spec.len + r->owner.len + r->note.len + r->attributes.len);
    if (!texts)
        return -ERR_NOMEM;
    struct kept_schedule *s = &m->schedules[at];
    if (is_new) {
        memmove(s + 1, s, (m->schedule_count - at) * sizeof *s);
        m->schedule_count++;
    } else {
        mem_free(s->texts);
    }
    *s = (struct kept_schedule){.put = *r, .texts = texts};
    char *to = texts;
    span_move(&s->put.name, &to);
    span_move(&s->put.spec, &to);
    span_move(&s->put.owner, &to);
    span_move(&s->put.note, &to);
    span_move(&s->put.attributes, &to);
    return 0;
}

static int gone(struct store_memory *m, uint32_t number, struct err_note *note)
{
    struct kept_schedule *s;
    int rc = need(m, number, &s, note);
    if (rc != 0)
        return rc;
    mem_free(s->texts);
    m->schedule_count--;
    memmove(s, s + 1, (m->schedule_count - (size_t)(s - m->schedules)) * sizeof *s);
    return 0;
}

static int moved(struct store_memory *m, const struct rec_schedule_state *r, struct err_note *note)
{
    struct kept_schedule *s;
    int rc = need(m, r->schedule, &s, note);
    if (rc == 0)
        s->put.state = r->state;
    return rc;
}

static int linked(struct store_memory *m, const struct rec_job_linked *r, struct err_note *note)
{
    struct span list = r->items;
    uint64_t previous = 0, item;
    int rc = 0;
    for (uint32_t i = 0; i < r->count && rc == 0; i++) {
        struct kept_job *k = NULL;
        rc = record_seq_next(&list, &previous, &item);
        if (rc == 0)
            rc = need_job(m, item, &k, note);
        if (rc == 0)
            k->holder = (struct job_ref){r->seq, r->id_hi};
    }
    return rc;
}

int memory_schedule_record(struct store_memory *m, const struct record *r, struct err_note *note)
{
    switch ((int)r->kind) {
    case REC_SCHEDULE_PUT:
        m->numbers.schedule = number_max(m->numbers.schedule, r->schedule_put.schedule);
        return put(m, &r->schedule_put);
    case REC_SCHEDULE_GONE:
        return gone(m, r->schedule_gone.schedule, note);
    case REC_SCHEDULE_FIRED:
    case REC_SCHEDULE_PASSED:
    case REC_SCHEDULE_FAILED:
        return moved(m, &r->schedule_state, note);
    case REC_JOB_LINKED:
        return linked(m, &r->job_linked, note);
    }
    return -ERR_VERSION;
}

int memory_load_schedules(const struct store_memory *m, const struct store_sink *sink)
{
    int rc = 0;
    for (size_t i = 0; i < m->schedule_count && rc == 0; i++)
        rc = sink->schedule(sink->ctx, &m->schedules[i].put);
    for (uint32_t h = m->first; h && rc == 0; h = job_at(m, h)->next) {
        const struct kept_job *k = job_at(m, h);
        struct stored_link link = {k->job.seq, k->holder.seq, k->holder.hi};
        if (link.job != 0)
            rc = sink->link(sink->ctx, &link);
    }
    return rc;
}

void memory_schedules_free(struct store_memory *m)
{
    for (size_t i = 0; i < m->schedule_count; i++)
        mem_free(m->schedules[i].texts);
    mem_free(m->schedules);
}
