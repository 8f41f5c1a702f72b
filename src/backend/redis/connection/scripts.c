/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/redis/connection/scripts.h"

#include "backend/redis/lua_gen.h"

/* Stores that concern only jobs do not need the part for notices, which saves bytes where the
 * script is sent as text. */
static const struct {
    enum lua_id text, before; /* before: LUA_COUNT = nothing but what all scripts share */
} scripts[SCRIPT_COUNT] = {
    [SCRIPT_OPEN] = {LUA_OPEN, LUA_COUNT},
    [SCRIPT_HEARTBEAT] = {LUA_HEARTBEAT, LUA_COUNT},
    [SCRIPT_LOAD] = {LUA_LOAD, LUA_COUNT},
    [SCRIPT_STORE] = {LUA_STORE, LUA_COUNT},
    [SCRIPT_TICK] = {LUA_TICK, LUA_COUNT},
    [SCRIPT_READ_VIEW] = {LUA_READ_VIEW, LUA_COUNT},
    [SCRIPT_SCAN] = {LUA_SCAN, LUA_COUNT},
    [SCRIPT_SCHEDULES] = {LUA_SCHEDULES, LUA_COUNT},
    [SCRIPT_SHARERS] = {LUA_SHARERS, LUA_COUNT},
    [SCRIPT_LEAVE] = {LUA_LEAVE, LUA_COUNT},
    [SCRIPT_ALERTS] = {LUA_ALERTS, LUA_COUNT},
    [SCRIPT_NOTICES] = {LUA_STORE, LUA_NOTICES},
    [SCRIPT_DEPENDENCIES] = {LUA_DEPENDENCIES, LUA_COUNT},
};

static void put_text(enum script_id id, struct rargs *a)
{
    struct buf text;
    buf_init(&text);
    const char *before = scripts[id].before < LUA_COUNT ? redis_lua[scripts[id].before] : "";
    if (buf_append_text(&text, redis_lua[LUA_COMMON]) || buf_append_text(&text, before) ||
        buf_append_text(&text, redis_lua[scripts[id].text]))
        a->failed = true;
    redis_args_bytes(a, buf_span(&text));
    buf_done(&text);
}

void redis_script_load(enum script_id id, struct rargs *a)
{
    redis_args_text(a, "SCRIPT");
    redis_args_text(a, "LOAD");
    put_text(id, a);
}

void redis_script_eval(enum script_id id, const char *prefix, struct rargs *a)
{
    redis_args_text(a, "EVAL");
    put_text(id, a);
    redis_args_text(a, "1");
    redis_args_text(a, prefix);
}

void redis_script_call(const struct script_names *names, enum script_id id, const char *prefix,
                       struct rargs *a)
{
    redis_args_text(a, "EVALSHA");
    redis_args_text(a, names->sha[id]);
    redis_args_text(a, "1");
    redis_args_text(a, prefix);
}
