/* SPDX-License-Identifier: Apache-2.0 */
/* Renaming a queue. Jobs, counts, triggers and waiting claims belong to the queue in the store,
 * whose name never changes. A new name is stored twice: in the queue's attributes, so that it
 * can be shown, and as the key ["holdfast", "orchestrator", "queue", NAME] of the key-value
 * store with the queue's number, so that the queue can be found by it. The key is set in one
 * commit that checks that no other queue has it, so a name is unique on every store and every
 * node.
 *
 * A creation and a rename that want the same name at the same time first write and then read: at
 * least one of them sees the other and gives up. A rename that is interrupted between its steps
 * has set the key alone; then the queue is found by both names, and repeating the rename
 * completes it. A key whose queue was deleted is free. */
#include <inttypes.h>
#include <stdio.h>

#include "api/orchestrator/orchestrator_impl.h"
#include "core/kvkey.h"

enum { STEP_GET, STEP_HOLDER, STEP_SET, STEP_RIVAL, STEP_UNDO, STEP_PUT };

int orc_name_key(struct arena *arena, struct span name, struct span *ret)
{
    struct span parts[] = {SPAN_LITERAL("holdfast"), ORC_OWNER, SPAN_LITERAL("queue"), name};
    struct buf text;
    int err = 0;
    buf_init(&text);
    for (size_t i = 0; i < sizeof parts / sizeof *parts && err == 0; i++)
        err = kvkey_append(&text, &(struct kv_part){.kind = KV_TEXT, .text = parts[i]});
    char *copy = err == 0 ? arena_copy(arena, text.data, text.len) : NULL;
    *ret = span_of(copy, copy ? text.len : 0);
    buf_done(&text);
    return copy ? 0 : err < 0 ? err : -ERR_NOMEM;
}

uint32_t orc_name_number(const struct reply *r)
{
    bool there = r->outcome == OUT_OK && r->kv_count == 1 && r->kvs[0].found;
    struct json_token number = {.kind = JSON_NUMBER};
    int64_t value = 0;
    if (!there)
        return 0;
    number.raw = r->kvs[0].value;
    return json_int(&number, &value) == 0 && value > 0 && value <= UINT32_MAX ? (uint32_t)value : 0;
}

static void taken(struct call *c)
{
    struct problem p = {.code = PROBLEM_EXISTS,
                        .terms = c->terms,
                        .field = "name",
                        .detail = "another queue has this name, or had it before it was renamed"};
    problem_answer(c->x, &p);
}

bool orc_naming_begin(struct call *c)
{
    struct orc_naming *n = c->more;
    int err = orc_name_key(c->arena, n->name, &n->key);
    if (err == 0 && n->before.len && !span_equal(n->before, n->stored))
        err = orc_name_key(c->arena, n->before, &n->old_key);
    if (err < 0) {
        answer_error(c->x, err);
        return false;
    }
    n->step = STEP_GET;
    c->op =
        (struct op){.kind = OP_KV_GET, .kv_get = {.keys = &n->key, .count = 1, .want_value = true}};
    return true;
}

static struct op get_number(uint32_t number)
{
    return (struct op){.kind = OP_QUEUE_GET, .queue = {.number = number}};
}

/* The name is free or belongs to this queue. Nothing is left to do for a queue that was just
 * created with it. */
static enum orc_named name_set(struct call *c)
{
    struct orc_naming *n = c->more;
    if (n->fresh)
        return ORC_NAMED;
    int len = snprintf(n->value, sizeof n->value, "%" PRIu32, n->number);
    n->set = (struct kv_set){
        .key = n->key, .kind = PAYLOAD_JSON, .value = span_of(n->value, (size_t)len)};
    n->check = (struct kv_check){.key = n->key, .version = n->version};
    n->step = STEP_SET;
    c->op = (struct op){.kind = OP_KV_COMMIT,
                        .kv_commit = {.checks = &n->check,
                                      .check_count = 1,
                                      .sets = &n->set,
                                      .set_count = 1,
                                      .deletes = &n->old_key,
                                      .delete_count = n->old_key.len > 0}};
    return ORC_NAMING;
}

/* Undoes what was written: the queue that was created, or the key. */
static enum orc_named name_undo(struct call *c)
{
    struct orc_naming *n = c->more;
    n->step = STEP_UNDO;
    n->set.key = n->old_key;
    if (n->fresh)
        c->op =
            (struct op){.kind = OP_QUEUE_DELETE, .queue = {.name = n->stored, .only_empty = true}};
    else
        c->op = (struct op){.kind = OP_KV_COMMIT,
                            .kv_commit = {.deletes = &n->key,
                                          .delete_count = 1,
                                          .sets = &n->set,
                                          .set_count = n->old_key.len > 0}};
    return ORC_NAMING;
}

static enum orc_named got_key(struct call *c, const struct reply *r)
{
    struct orc_naming *n = c->more;
    uint32_t holder = orc_name_number(r);
    n->version = r->kv_count == 1 && r->kvs[0].found ? r->kvs[0].version : 0;
    if (holder == 0 || holder == n->number)
        return name_set(c);
    n->step = STEP_HOLDER;
    c->op = get_number(holder);
    return ORC_NAMING;
}

static enum orc_named got_holder(struct call *c, const struct reply *r)
{
    const struct orc_naming *n = c->more;
    bool holds =
        r->outcome == OUT_OK && r->queue_count == 1 && span_equal(r->queues[0].owner, ORC_OWNER);
    if (holds && n->fresh)
        return name_undo(c);
    if (!holds)
        return name_set(c);
    taken(c);
    return ORC_NAME_ANSWERED;
}

static enum orc_named key_is_set(struct call *c)
{
    struct orc_naming *n = c->more;
    n->step = STEP_RIVAL;
    c->op = (struct op){.kind = OP_QUEUE_GET, .queue = {.name = n->name}};
    return ORC_NAMING;
}

static enum orc_named got_rival(struct call *c, const struct reply *r)
{
    struct orc_naming *n = c->more;
    if (r->outcome == OUT_OK && r->queues[0].number != n->number)
        return name_undo(c);
    n->step = STEP_PUT;
    c->op = (struct op){.kind = OP_QUEUE_PUT,
                        .queue = {.name = n->stored,
                                  .must_exist = true,
                                  .has_attributes = true,
                                  .attributes = n->attributes}};
    return ORC_NAMING;
}

enum orc_named orc_naming_step(struct call *c, const struct reply *r)
{
    const struct orc_naming *n = c->more;
    bool absent = r->outcome == OUT_NO_QUEUE;
    if (r->outcome == OUT_VERSION || n->step == STEP_UNDO) {
        taken(c);
        return ORC_NAME_ANSWERED;
    }
    if (r->outcome != OUT_OK && !(absent && (n->step == STEP_HOLDER || n->step == STEP_RIVAL))) {
        call_refuse(c, r);
        return ORC_NAME_ANSWERED;
    }
    switch (n->step) {
    case STEP_GET:
        return got_key(c, r);
    case STEP_HOLDER:
        return got_holder(c, r);
    case STEP_SET:
        return key_is_set(c);
    case STEP_RIVAL:
        return got_rival(c, r);
    default:
        return ORC_NAMED;
    }
}
