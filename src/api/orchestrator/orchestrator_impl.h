/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the API.
 *
 *   orchestrator.c  the API and its routes
 *   queues.c        /api/queues: define, read, list, delete, stats
 *   queue_names.c   renaming queues, and finding them by a new name
 *   queue_json.c    queues in the document's terms, both ways
 *   items.c         /api/queue-items: create, read, soft delete
 *   list.c          pages of items, of one queue or all
 *   next.c          the claim by GET
 *   item_status.c   the state machine of an item's status, and renewal of its lease
 *   item_json.c     items in the document's terms, both ways
 *   triggers.c      /api/triggers: define, read, list, delete
 *   trigger_json.c  triggers in the document's terms, both ways
 *   jobs.c          /api/jobs: the jobs that triggers created */
#pragma once

#include "api/call.h"
#include "api/orchestrator/orchestrator.h"
#include "api/owned_job.h"

#define ORC_NAME "orchestrator"
#define ORC_OWNER SPAN_LITERAL(ORC_NAME)

struct orchestrator {
    struct api_config config;
    struct broker *broker;
    struct call_line defining, triggering; /* definitions of queues, of triggers */
};

/* The document's names for the states of an item, and the transitions that each allows. */
extern const struct problem_terms orc_terms;
/* Like call_new, with these terms. */
struct call *orc_call(void *ctx, struct http_exchange *x, enum op_kind kind, call_fn done);

/* Reads `limit` and `offset`. c->more has `size` bytes, is all zero otherwise and begins with the
 * page. NULL after a problem was answered. */
struct orc_page {
    int64_t limit, offset;
};
struct call *orc_page_call(void *ctx, struct http_exchange *x, enum op_kind kind, call_fn done,
                           size_t size);

#define ORC_HANDLER(name) void name(void *ctx, struct http_exchange *x)
ORC_HANDLER(orc_queue_create);
ORC_HANDLER(orc_queue_list);
ORC_HANDLER(orc_queue_get);
ORC_HANDLER(orc_queue_update);
ORC_HANDLER(orc_queue_delete);
ORC_HANDLER(orc_queue_stats);
ORC_HANDLER(orc_item_create);
ORC_HANDLER(orc_item_add);
ORC_HANDLER(orc_item_get);
ORC_HANDLER(orc_item_delete);
ORC_HANDLER(orc_item_list);
ORC_HANDLER(orc_item_next);
ORC_HANDLER(orc_item_status);
ORC_HANDLER(orc_item_renew);
ORC_HANDLER(orc_trigger_create);
ORC_HANDLER(orc_trigger_list);
ORC_HANDLER(orc_trigger_get);
ORC_HANDLER(orc_trigger_update);
ORC_HANDLER(orc_trigger_delete);
ORC_HANDLER(orc_job_list);
ORC_HANDLER(orc_job_get);

static inline struct broker *orc_broker(const void *ctx)
{
    return ((const struct orchestrator *)ctx)->broker;
}

/* ---- queue_json.c ---- */

/* The members of a queue in the document, without those that the engine computes. */
struct orc_queue {
    struct span name, description;
    int64_t max_retries, lease_seconds, retention_days;
    bool unique, active;
    unsigned given; /* mask of enum orc_queue_member: what the request sets */
};
/* In the order of the fields of a request. */
enum orc_queue_member {
    ORC_QUEUE_NAME,
    ORC_QUEUE_DESCRIPTION,
    ORC_QUEUE_RETRIES,
    ORC_QUEUE_UNIQUE,
    ORC_QUEUE_ACTIVE,
    ORC_QUEUE_LEASE,
    ORC_QUEUE_RETENTION,
};
/* Whether the request sets the member. A new queue gets all of them. */
static inline bool orc_queue_gives(const struct orc_queue *q, enum orc_queue_member member)
{
    return q->given >> member & 1;
}
struct fields orc_queue_fields(void);
void orc_queue_default(struct orc_queue *q);
void orc_queue_from(struct orc_queue *q, const struct queue_view *view);
/* Sets *ret to `base`, changed by the members that are given. */
void orc_queue_policy(const struct orc_queue *q, const struct queue_policy *base,
                      struct queue_policy *ret);
/* Sets *ret to the policy of a new queue. */
void orc_queue_policy_new(const struct orc_queue *q, const struct queue_policy *base,
                          struct queue_policy *ret);
void orc_queue_write(struct json_writer *w, const struct queue_view *view);
/* {"external_id":"…"} with a new random id; in the arena. false: no memory, or no random bytes. */
bool orc_queue_attributes(struct arena *arena, struct span *ret);
/* The name of the queue in the document, which a rename changes. Borrowed from the view. */
struct span orc_queue_name(const struct queue_view *view);
/* The attributes of the view with this name; in the arena. false: no memory. */
bool orc_queue_renamed(struct arena *arena, const struct queue_view *view, struct span name,
                       struct span *ret);

/* ---- queue_names.c ---- */

/* The key under which the store has the number of a queue with this new name. */
MUST_CHECK int orc_name_key(struct arena *arena, struct span name, struct span *ret);
/* The number in the reply to a get of such a key; 0 = the name is free. */
uint32_t orc_name_number(const struct reply *r);

/* Gives a name to a queue: a new name, or that of a queue that was just created. */
struct orc_naming {
    uint32_t number;                /* of the queue */
    struct span name, before;       /* names in the document; empty name = unchanged */
    struct span stored, attributes; /* the store's name; the attributes with the new name */
    bool fresh; /* the queue was just created: it is deleted again if the name is taken */
    int step;   /* private to queue_names.c from here on */
    struct span key, old_key;
    uint64_t version;
    char value[16];
    struct kv_set set;
    struct kv_check check;
};
/* Begins the naming in c->more: c->op becomes its first step. false: answered. */
bool orc_naming_begin(struct call *c);
enum orc_named { ORC_NAMING, ORC_NAMED, ORC_NAME_ANSWERED };
/* Takes the reply to a step: c->op is the next step, or the queue has the name, or the call was
 * answered. */
enum orc_named orc_naming_step(struct call *c, const struct reply *r);

/* ---- item_json.c ---- */

/* In the order of the names. ORC_CUSTOM stands for any other name. */
enum orc_status {
    ORC_NEW,
    ORC_IN_PROGRESS,
    ORC_DONE,
    ORC_FAILED,
    ORC_DELETED,
    ORC_CUSTOM,
    ORC_STATUS_COUNT
};
extern const char *const orc_status_names[]; /* NULL-terminated, without CUSTOM */
enum orc_status orc_status_of(const struct job *j);
unsigned orc_states_of(enum orc_status s); /* mask */
/* Compares without regard to case; the name is in upper case. */
bool orc_same_name(struct span text, const char *word);
enum orc_status orc_status_parse(struct span word);
/* The name in upper case, in the arena; -ERR_NOMEM. Only ASCII letters have case. */
MUST_CHECK int orc_upper(struct arena *arena, struct span word, struct span *ret);

/* The worker name of a robot, and the reverse: -1 = no robot. */
#define ORC_ROBOT_BYTES 32
struct span orc_robot_name(int64_t robot_id, char out[ORC_ROBOT_BYTES]);
int64_t orc_robot_id(struct span worker);

/* The contents of an item's attributes. */
struct orc_attributes {
    struct wall_time noted_at; /* 0 = never */
    bool error_stays;          /* the error was set with DONE or later: a DONE item shows it */
};
void orc_attributes_read(struct span json, struct orc_attributes *ret);
MUST_CHECK int orc_attributes_write(struct arena *arena, const struct orc_attributes *a,
                                    struct span *ret);

/* The number of attempts after the first one that failures caused. */
uint32_t orc_retries(const struct job *j);
void orc_write_number(struct json_writer *w, const char *key, int64_t v);      /* < 0: null */
void orc_write_text(struct json_writer *w, const char *key, struct span text); /* empty: null */

/* Writes the whole item; the view must have its body. The token is written only after a claim. */
void orc_item_write(struct json_writer *w, const struct job_view *v, struct wall_time now,
                    bool with_token);
/* Writes the members without the braces. */
void orc_item_members(struct json_writer *w, const struct job_view *v, struct wall_time now,
                      bool with_token);
/* ERROR_BUSINESS or ERROR_APP, as the document defines them. */
uint8_t orc_classify(struct span result, struct span error);

/* ---- items.c ---- */

extern const struct owned_jobs orc_items;
/* After a change: reads the item again and answers with it. */
void orc_item_show(struct call *c, struct job_ref job);
/* Answers 404 for a queue that does not exist or does not belong to this API. */
void orc_no_queue(struct http_exchange *x, const char *field);

/* Answers 503: during an outage this node has copies of the queues, but not their times, and
 * perhaps not their ids. */
void orc_refuse_missing(struct call *c);

/* Finds a queue of this API by id or name and calls `found`. */
typedef void (*orc_queue_fn)(struct call *c, const struct queue_view *q);
struct orc_lookup {
    int64_t id;       /* 0 = by name */
    struct span name; /* empty = by id */
    orc_queue_fn found;
    const char *field; /* the field to name if the queue does not exist */
    void *more;        /* c->more when `found` is called */
    struct span key;   /* private to the lookup */
};
void orc_queue_find(struct call *c, const struct orc_lookup *lookup);
/* Reads the number in the path, of a "queue" or a "trigger"; 0 after a problem was answered. */
int64_t orc_path_number(struct http_exchange *x, const char *what);

/* ---- trigger_json.c ---- */

/* The correlation id of all jobs of this API's triggers, by which /api/jobs finds them. */
#define ORC_CORRELATION SPAN_LITERAL("orchestrator-trigger")

/* The members of a trigger in the document, without those that the engine computes. */
struct orc_trigger {
    struct span name, type, description, cron, timezone, target_queue, payload;
    int64_t queue_id, batch_size, polling_interval;
    bool eager, enabled;
    bool fresh;
    bool has_queue, has_cron;  /* given by the request */
    struct schedule_spec spec; /* the current definition; its source is the queue of queue_id */
};
void orc_trigger_new(struct orc_trigger *t);
/* Sets *t to the current trigger; the texts of the view must outlive it. */
void orc_trigger_from(struct orc_trigger *t, const struct schedule_view *v);
/* Changes *t by the body of the request. false: the problem was answered. */
bool orc_trigger_take(struct call *c, struct orc_trigger *t);
/* Sets and checks its spec according to the members. false: the problem was answered. */
bool orc_trigger_complete(struct call *c, struct orc_trigger *t);
/* Turns a note about a schedule into a problem in the terms of the API. */
void orc_trigger_problem(struct arena *arena, struct problem *p, const char *note);
/* queue_id 0, item.seq 0: not found, written as null. */
void orc_trigger_write(struct json_writer *w, const struct schedule_view *v, uint32_t queue_id,
                       struct job_ref item, struct wall_time now);
