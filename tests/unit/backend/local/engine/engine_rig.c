/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/backend/local/engine/engine_rig.h"

#include "base/check.h"
#include "core/records/frame.h"

void engine_rig_open(struct engine_rig *r, const struct engine_config *config)
{
    struct engine_config plain;
    engine_config_default(&plain);
    plain.seed = 7;
    *r = (struct engine_rig){.now = {{1000}, {ENGINE_RIG_WALL}}};
    engine_out_init(&r->out);
    buf_init(&r->log);
    CHECK(store_open_memory(1, &r->store) == 0);
    CHECK(engine_new(config ? config : &plain, &r->engine) == 0);
    CHECK(engine_load(r->engine, r->store, NULL) == 0);
    CHECK(engine_boot(r->engine, r->now, &r->out) == 0);
    CHECK(buf_append_span(&r->log, buf_span(&r->out.frame)) == 0);
}

static void sound(const struct engine *e)
{
    struct err_note note = {""};
    if (engine_verify(e, &note) != 0)
        check_failed(note.text, __FILE__, __LINE__);
}

void engine_rig_close(struct engine_rig *r)
{
    sound(r->engine);
    buf_done(&r->log);
    engine_out_done(&r->out);
    engine_free(r->engine);
    r->store->ops->close(r->store);
}

void engine_rig_steps(struct engine_rig *r, const struct op *ops, size_t count)
{
    CHECK(engine_step(r->engine, ops, count, r->now, &r->out) == 0);
    if (r->out.count)
        CHECK(buf_append_span(&r->log, buf_span(&r->out.frame)) == 0);
}

const struct reply *engine_rig_step(struct engine_rig *r, const struct op *op)
{
    engine_rig_steps(r, op, 1);
    CHECK(r->out.reply_count > 0);
    return &r->out.replies[0].reply;
}

void engine_rig_pass(struct engine_rig *r, int64_t ms)
{
    r->now.mono.ms += ms;
    r->now.wall.ms += ms;
}

size_t engine_rig_quiet(struct engine_rig *r)
{
    struct op tick = {.kind = OP_TICK};
    size_t ticks = 0;
    for (; engine_next_tick_ms(r->engine, r->now) <= 0; ticks++) {
        CHECK(ticks < 1000000);
        engine_rig_step(r, &tick);
    }
    return ticks;
}

void engine_rig_same_replayed(struct engine_rig *r)
{
    struct engine_config config;
    struct engine *again;
    struct err_note note = {""};
    engine_config_default(&config);
    config.seed = 99; /* other jitter: must not matter */
    CHECK(engine_new(&config, &again) == 0);
    CHECK(engine_load(again, r->store, NULL) == 0);
    for (struct span rest = buf_span(&r->log); rest.len;) {
        struct frame frame;
        struct span whole = rest;
        CHECK(frame_decode(&rest, &frame) == 0);
        whole.len -= rest.len;
        if (engine_replay(again, whole, &note) != 0)
            check_failed(note.text, __FILE__, __LINE__);
    }
    CHECK(engine_state_hash(again) == engine_state_hash(r->engine));
    sound(again);
    sound(r->engine);
    engine_free(again);
}

struct op engine_rig_enqueue(struct span queue)
{
    return (struct op){
        .kind = OP_ENQUEUE,
        .enqueue = {.queue = queue, .payload_kind = PAYLOAD_JSON, .payload = SPAN_LITERAL("{}")}};
}

struct op engine_rig_claim(const struct span *queue, uint32_t count)
{
    return (struct op){.kind = OP_CLAIM,
                       .claim = {.queues = queue, .queue_count = 1, .count = count}};
}
