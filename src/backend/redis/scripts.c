/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/redis/scripts.h"

#include "backend/redis/lua_gen.h"

/* Stores that are about jobs alone go without what notices need: some of them carry their text. */
static const struct {
    const char *name, *text, *before;
} scripts[SCRIPT_COUNT] = {
    [SCRIPT_OPEN] = {"open", lua_open},
    [SCRIPT_BEAT] = {"beat", lua_beat},
    [SCRIPT_LOAD] = {"load", lua_load},
    [SCRIPT_STORE] = {"store", lua_store},
    [SCRIPT_TICK] = {"tick", lua_tick},
    [SCRIPT_LOOK] = {"look", lua_look},
    [SCRIPT_SCAN] = {"scan", lua_scan},
    [SCRIPT_SCHEDULES] = {"schedules", lua_schedules},
    [SCRIPT_SHARERS] = {"sharers", lua_sharers},
    [SCRIPT_BYE] = {"bye", lua_bye},
    [SCRIPT_ALERTS] = {"alerts", lua_alerts},
    [SCRIPT_NOTICES] = {"notices", lua_store, lua_notices},
};

const char *redis_script_name(enum script_id id)
{
    return scripts[id].name;
}

static void put_text(enum script_id id, struct rargs *a)
{
    struct buf text;
    buf_init(&text);
    const char *before = scripts[id].before ? scripts[id].before : "";
    if (buf_append_text(&text, lua_common) || buf_append_text(&text, before) ||
        buf_append_text(&text, scripts[id].text))
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
