/* SPDX-License-Identifier: Apache-2.0 */
#include "api/v1/queues/queue_view.h"

#include "api/json_members.h"
#include "api/v1/queues/policy_fields.h"
#include "core/limits.h"

void queue_counts_write(struct json_writer *w, const struct queue_counts *c)
{
    write_object(w, "counts");
    for (unsigned s = STATE_SCHEDULED; s < STATE_COUNT; s++)
        write_uint(w, state_name((enum job_state)s), c->by_state[s]);
    json_write_object_end(w);
    json_write_key(w, "oldest_ready_ms");
    if (c->oldest_ready_ms < 0)
        json_write_null(w);
    else
        json_write_int(w, c->oldest_ready_ms);
    write_time(w, "next_due", c->next_due);
}

/* Ready jobs that no claim gets now, by the limit that they wait for. */
static void write_limited(struct json_writer *w, const struct queue_counts *c)
{
    write_object(w, "limited");
    for (unsigned b = CLAIM_FREE + 1; b < CLAIM_BLOCK_COUNT; b++)
        write_uint(w, claim_block_name((enum claim_block)b), c->limited[b]);
    json_write_object_end(w);
}

static void write_pause(struct json_writer *w, struct wall_time until, struct wall_time now)
{
    bool paused = until.ms > now.ms;
    bool open = !paused || until.ms >= LIMIT_WALL_MS;
    write_bool(w, "paused", paused);
    write_time(w, "paused_until", open ? (struct wall_time){0} : until);
}

void queue_view_members(struct json_writer *w, const struct queue_view *q, struct wall_time now)
{
    write_span(w, "name", q->name);
    write_span_if(w, "owner", q->owner);
    write_pause(w, q->paused_until, now);
    write_time(w, "created_at", q->created_at);
    write_time(w, "updated_at", q->updated_at);
    write_span(w, "description", q->note);
    if (q->attributes.len > 0) {
        json_write_key(w, "attributes");
        json_write_raw(w, q->attributes);
    }
    json_write_key(w, "policy");
    policy_write(w, q->policy);
    queue_counts_write(w, &q->counts);
    if (claim_limited(q->policy))
        write_limited(w, &q->counts);
}

void queue_view_write(struct json_writer *w, const struct queue_view *q, struct wall_time now)
{
    json_write_object(w);
    queue_view_members(w, q, now);
    json_write_object_end(w);
}
