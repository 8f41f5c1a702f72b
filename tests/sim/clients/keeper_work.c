/* SPDX-License-Identifier: Apache-2.0 */
/* Keepers at work: they claim jobs, note something on them, and end them, or do not. One that holds
 * items looks at these, and ends some of them with their own tokens. */
#include <string.h>

#include "sim/world/world.h"

static struct span text_after(struct span *rest, const char *mark)
{
    size_t len = strlen(mark);
    for (size_t i = 0; i + len <= rest->len; i++) {
        if (memcmp(rest->at + i, mark, len) != 0)
            continue;
        const char *start = rest->at + i + len;
        const char *end = memchr(start, '"', rest->len - i - len);
        if (!end)
            break;
        *rest = span_of(end, (size_t)(rest->at + rest->len - end));
        return span_of(start, (size_t)(end - start));
    }
    rest->len = 0;
    return (struct span){NULL, 0};
}

unsigned keeper_items_of(struct span payload, struct keeper_item *ret, unsigned max)
{
    unsigned count = 0;
    while (count < max) {
        struct job_ref ref;
        struct span id = text_after(&payload, "{\"id\":\"");
        struct span token = text_after(&payload, "\"token\":\"");
        if (!id.len || id_parse(id, &ref) != 0 || token_parse(token, &ret[count].token) != 0)
            break;
        ret[count++].seq = ref.seq;
    }
    return count;
}

/* ---- claims ---------------------------------------------------------------------------------- */

void keeper_claim(struct world *w, uint32_t client)
{
    static const enum feature need[KEEPER_QUEUES] = {FEATURE_COMMITS,  FEATURE_SCHEDULES,
                                                     FEATURE_TRIGGERS, FEATURE_TRIGGERS,
                                                     FEATURE_RATES,    FEATURE_DEPENDENCIES};
    int64_t queue = between(w, 0, KEEPER_QUEUES - 1);
    if (queue == KEEPER_ITEMS && chance(w, 80))
        queue = KEEPER_JOBS;
    while (!has(&w->plan, need[queue]) && need[queue] != FEATURE_COMMITS)
        queue--;
    if (queue == KEEPER_KV && has(&w->plan, FEATURE_BATCHES) && chance(w, 50))
        queue = KEEPER_CHILDREN; /* also without FEATURE_DEPENDENCIES */
    keeper_claim_from(w, client, (enum keeper_queue)queue);
}

void keeper_claim_from(struct world *w, uint32_t client, enum keeper_queue queue)
{
    uint32_t number;
    struct op_claim *op = &call_new(w, client, OP_CLAIM, 1, &number)->op.claim;
    op->queues = &w->keeper.queues[queue];
    op->queue_count = 1;
    op->count = (uint32_t)between(w, 1, 3);
    op->lease_ms = chance(w, 50) ? (uint32_t)between(w, 150, 3000) : 0;
    op->want_body = true;
    op->nonce = ++w->nonce;
    call_send(w, number);
}

static enum keeper_queue queue_number(const struct world *w, struct span name)
{
    int i = 0;
    while (i < (int)w->keeper.queue_count - 1 && !span_equal(w->keeper.queues[i], name))
        i++;
    return (enum keeper_queue)i;
}

void keeper_claimed(struct world *w, size_t entry, uint32_t client)
{
    struct keeper *k = &w->keeper;
    const struct hist_entry *e = &w->history.entries[entry];
    for (uint32_t i = 0; i < e->job_count; i++) {
        const struct hist_job *j = &e->jobs[i];
        k->tasks = vec_room(k->tasks, &k->task_room, k->task_count + 1, sizeof(*k->tasks));
        struct keeper_task *t = &k->tasks[k->task_count];
        *t = (struct keeper_task){.client = client,
                                  .queue = queue_number(w, j->queue),
                                  .seq = j->job.seq,
                                  .token = j->token};
        if (t->queue == KEEPER_JOBS)
            t->item_count = keeper_items_of(j->payload, t->items, KEEPER_ITEMS_MAX);
        schedule(w, between(w, 0, j->lease_ms), SIM_KEEP, (uint32_t)k->task_count++, 0);
    }
}

/* ---- ending ---------------------------------------------------------------------------------- */

static struct op_lease *say(struct world *w, uint32_t client, enum op_kind kind, uint64_t seq,
                            struct job_token token, uint32_t *ret)
{
    struct op_lease *op = &call_new(w, client, kind, 3, ret)->op.lease;
    op->job.seq = seq;
    op->token = token;
    return op;
}

static void end_job(struct world *w, const struct keeper_task *t, enum op_kind kind, bool no_retry)
{
    uint32_t number;
    struct op_lease *op = say(w, t->client, kind, t->seq, t->token, &number);
    op->no_retry = no_retry;
    if (kind == OP_FAIL)
        op->error = SPAN_LITERAL("a keeper's job failed");
    call_send(w, number);
}

/* An ack with the next job and its own key. Some have a check that never holds. */
static void hand_off(struct world *w, const struct keeper_task *t)
{
    uint32_t number;
    struct op_lease *op = say(w, t->client, OP_ACK, t->seq, t->token, &number);
    struct op_kv_commit *c = pool_alloc(&w->pool, sizeof(*c));
    struct kv_set *set = pool_alloc(&w->pool, sizeof(*set));
    struct op_enqueue *next = pool_alloc(&w->pool, sizeof(*next));
    struct kv_check *check = pool_alloc(&w->pool, sizeof(*check));
    set->key = keeper_key_of(&w->pool, KEY_COMMIT, number);
    set->kind = PAYLOAD_BYTES;
    set->value = pool_text(&w->pool, "%u", number);
    next->queue = w->keeper.queues[KEEPER_KV];
    next->payload_kind = PAYLOAD_BYTES;
    next->payload = pool_text(&w->pool, "next %u", number);
    *check = (struct kv_check){.key = set->key, .version = UINT32_MAX};
    *c = (struct op_kv_commit){.sets = set,
                               .set_count = 1,
                               .enqueues = next,
                               .enqueue_count = 1,
                               .checks = check,
                               .check_count = chance(w, 15)};
    op->handoff = c;
    call_send(w, number);
}

static void note(struct world *w, const struct keeper_task *t)
{
    uint32_t number;
    struct op_note *op = &call_new(w, t->client, OP_NOTE, 2, &number)->op.note;
    op->job.seq = t->seq;
    if (chance(w, 50))
        op->token = t->token;
    op->has_label = true;
    op->label = pool_text(&w->pool, "note %u", number);
    call_send(w, number);
}

static void look_at_item(struct world *w, const struct keeper_task *t, const struct keeper_item *i)
{
    uint32_t number;
    struct call *call = call_new(w, t->client, OP_GET, 1, &number);
    call->op.job.job.seq = i->seq;
    call_send(w, number);
}

static void end_item(struct world *w, const struct keeper_task *t, const struct keeper_item *i)
{
    static const enum op_kind kinds[] = {OP_ACK, OP_ACK, OP_FAIL, OP_RELEASE};
    uint32_t number;
    (void)say(w, t->client, kinds[between(w, 0, 3)], i->seq, i->token, &number);
    call_send(w, number);
}

static void cancel(struct world *w, const struct keeper_task *t)
{
    uint32_t number;
    struct call *call = call_new(w, t->client, OP_CANCEL, 2, &number);
    call->op.job.job.seq = t->seq;
    call->op.job.force = true;
    call_send(w, number);
}

/* One step of a job that holds items; true: more will follow. */
static bool work_on_items(struct world *w, const struct keeper_task *t)
{
    const struct keeper_item *item = &t->items[between(w, 0, (int64_t)t->item_count - 1)];
    unsigned roll = (unsigned)between(w, 0, 99);
    if (roll < 50)
        look_at_item(w, t, item);
    else if (roll < 66)
        end_item(w, t, item);
    else if (roll < 80)
        end_job(w, t, OP_ACK, false);
    else if (roll < 88)
        end_job(w, t, OP_FAIL, chance(w, 60));
    else if (roll < 90)
        cancel(w, t);
    else
        return false; /* vanishes */
    return t->steps < 8;
}

void keeper_task(struct world *w, uint32_t number)
{
    if (w->draining)
        return;
    struct keeper_task *t = &w->keeper.tasks[number];
    unsigned roll = (unsigned)between(w, 0, 99);
    t->steps++;
    if (t->item_count > 0) {
        if (work_on_items(w, t))
            schedule(w, between(w, 0, 500), SIM_KEEP, number, 0);
    } else if (roll < 20 && t->steps == 1) {
        note(w, t);
        schedule(w, between(w, 0, 200), SIM_KEEP, number, 0);
    } else if (roll < 50) {
        if (t->queue == KEEPER_KV && chance(w, 60))
            hand_off(w, t);
        else
            end_job(w, t, OP_ACK, false);
    } else if (roll < 85) {
        end_job(w, t, OP_FAIL, chance(w, 60));
    }
}
