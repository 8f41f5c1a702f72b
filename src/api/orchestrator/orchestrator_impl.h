/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the API share.
 *
 *   orchestrator.c  the API and its routes
 *   queues.c        /api/queues: define, look, list, delete, stats
 *   queue_names.c   names that queues were given later: rename, and finding by such a name
 *   queue_words.c   a queue in the document's words, both ways
 *   items.c         /api/queue-items: create, look, soft delete
 *   list.c          pages of items, over one queue or all
 *   next.c          the claim by GET
 *   status.c        the machine of status words, and renewal
 *   item_words.c    an item in the document's words, both ways
 *   triggers.c      /api/triggers: define, look, list, delete
 *   trigger_words.c a trigger in the document's words, both ways
 *   jobs.c          /api/jobs: the jobs that triggers made */
#pragma once

#include "api/call.h"
#include "api/orchestrator/orchestrator.h"

#define ORC_NAME "orchestrator"
#define ORC_OWNER SPAN_LITERAL(ORC_NAME)

struct orchestrator {
    struct api_config config;
    struct broker *broker;
    struct call_line defining, triggering; /* definitions of queues, of triggers */
};

/* What the document calls the states of an item, and where each may go. */
extern const struct problem_terms orc_terms;
/* As call_new, with these terms. */
struct call *orc_call(void *ctx, struct http_exchange *x, enum op_kind kind, call_fn done);

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

/* ---- queue_words.c ---- */

/* What the document calls a queue, less what the engine keeps about it. */
struct orc_queue {
    struct span name, description;
    int64_t max_retries, lease_seconds, retention_days;
    bool unique, active;
};
/* The members of a request; name is its first row. */
struct fields orc_queue_fields(void);
void orc_queue_default(struct orc_queue *q);
void orc_queue_from(struct orc_queue *q, const struct queue_view *view);
/* The policy for it: `base` with what the members say. */
void orc_queue_policy(const struct orc_queue *q, const struct queue_policy *base,
                      struct queue_policy *ret);
void orc_queue_write(struct json_writer *w, const struct queue_view *view);
/* {"external_id":"…"} with a new one; in the arena. false: no memory, or no random bytes. */
bool orc_queue_attributes(struct arena *arena, struct span *ret);
/* Its name in the document's sense: the one it was given last. Borrowed from the view. */
struct span orc_queue_name(const struct queue_view *view);
/* The attributes of the view with this name; in the arena. false: no memory. */
bool orc_queue_renamed(struct arena *arena, const struct queue_view *view, struct span name,
                       struct span *ret);

/* ---- queue_names.c ---- */

/* The key at which the store has the number of the queue with this later name. */
MUST_CHECK int orc_name_key(struct arena *arena, struct span name, struct span *ret);
/* The number that a reply to a get of such a key has; 0 = the name is free. */
uint32_t orc_name_number(const struct reply *r);

/* A name on its way to a queue: a new one, or one that was just created under it. */
struct orc_naming {
    uint32_t number;                /* of the queue */
    struct span name, before;       /* in the document's sense; no name = it stays */
    struct span stored, attributes; /* the store's name; with the new name */
    bool fresh;                     /* the queue was created for it: deleted if it is taken */
    int step;                       /* queue_names.c's own, from here on */
    struct span key, old_key;
    uint64_t version;
    char value[16];
    struct kv_set set;
    struct kv_check check;
};
/* c->more is the naming: c->op becomes its first step. false: answered. */
bool orc_naming_begin(struct call *c);
enum orc_named { ORC_NAMING, ORC_NAMED, ORC_NAME_ANSWERED };
/* A reply to one of its steps: c->op is the next one, or the queue has the name, or the call was
 * answered. */
enum orc_named orc_naming_step(struct call *c, const struct reply *r);

/* ---- item_words.c ---- */

/* In the order of the words. CUSTOM stands for any other one. */
enum orc_status {
    ORC_NEW,
    ORC_IN_PROGRESS,
    ORC_DONE,
    ORC_FAILED,
    ORC_DELETED,
    ORC_CUSTOM,
    ORC_STATUS_COUNT
};
extern const char *const orc_words[]; /* NULL-terminated, without CUSTOM */
enum orc_status orc_status_of(const struct job *j);
unsigned orc_states_of(enum orc_status s); /* mask */
/* Case does not matter; the word is given in upper case. */
bool orc_same_word(struct span text, const char *word);
enum orc_status orc_status_parse(struct span word);
/* The word in upper case, in the arena; -ERR_NOMEM. ASCII letters alone have cases here. */
MUST_CHECK int orc_upper(struct arena *arena, struct span word, struct span *ret);

/* The worker's name of a robot, and back: -1 = it is none, or not a robot's. */
#define ORC_ROBOT_BYTES 32
struct span orc_robot_name(int64_t robot_id, char out[ORC_ROBOT_BYTES]);
int64_t orc_robot_id(struct span worker);

/* What the item's attributes hold. */
struct orc_attributes {
    struct wall_time noted_at; /* 0 = never */
    bool error_stays;          /* the error came with DONE or later: a DONE item shows it */
};
void orc_attributes_read(struct span json, struct orc_attributes *ret);
MUST_CHECK int orc_attributes_write(struct arena *arena, const struct orc_attributes *a,
                                    struct span *ret);

/* Retries are the attempts after the first that failures led to. */
uint32_t orc_retries(const struct job *j);
void orc_write_number(struct json_writer *w, const char *key, int64_t v);      /* < 0: null */
void orc_write_text(struct json_writer *w, const char *key, struct span text); /* empty: null */

/* The whole item; the view holds its body. With a token only after a claim. */
void orc_item_write(struct json_writer *w, const struct job_view *v, struct wall_time now,
                    bool with_token);
/* The members without the braces. */
void orc_item_members(struct json_writer *w, const struct job_view *v, struct wall_time now,
                      bool with_token);
/* "business" where the document says so, else "app". */
uint8_t orc_classify(struct span result, struct span error);

/* ---- items.c ---- */

/* Is it an item of this API? false: 404 was answered. */
bool orc_owned(struct call *c, const struct reply *r);
/* The item of the path. false: the problem was answered. */
bool orc_path_item(struct http_exchange *x, struct job_ref *ret);
/* After a change: reads the item again and answers with it. */
void orc_item_show(struct call *c, struct job_ref job);
/* 404 for a queue that is not there, or not this API's. */
void orc_no_queue(struct http_exchange *x, const char *field);

/* 503: during an outage this node has copies of the queues, but not their times, and perhaps not
 * their ids. */
void orc_refuse_missing(struct call *c);

/* Finds the queue by id or name, the API's own alone, and goes on with it. */
typedef void (*orc_queue_fn)(struct call *c, const struct queue_view *q);
struct orc_lookup {
    int64_t id;       /* 0 = by name */
    struct span name; /* empty = by id */
    orc_queue_fn found;
    const char *field; /* to be named when there is none */
    void *more;        /* c->more when `found` is called */
    struct span key;   /* of a name that was given later: the lookup's own */
};
void orc_queue_find(struct call *c, const struct orc_lookup *lookup);
/* The number in the path, of a "queue" or a "trigger"; 0 after a problem was answered. */
int64_t orc_path_number(struct http_exchange *x, const char *what);

/* ---- trigger_words.c ---- */

/* What the jobs of this API's triggers have in common: /api/jobs finds them by it. */
#define ORC_CORRELATION SPAN_LITERAL("orchestrator-trigger")

/* What the document calls a trigger, less what the engine keeps about it. */
struct orc_trigger {
    struct span name, type, description, cron, timezone, target_queue, payload;
    int64_t queue_id, batch_size, polling_interval;
    bool eager, enabled;
    bool fresh;
    bool has_queue, has_cron;  /* given by the request */
    struct schedule_spec spec; /* what it was; its source is what queue_id means */
};
void orc_trigger_new(struct orc_trigger *t);
/* As it is; the view's texts must outlive it. */
void orc_trigger_from(struct orc_trigger *t, const struct schedule_view *v);
/* Reads the request's body over it. false: the problem was answered. */
bool orc_trigger_take(struct call *c, struct orc_trigger *t);
/* Makes its spec the one for the members, checked and complete. false: the problem was answered. */
bool orc_trigger_complete(struct call *c, struct orc_trigger *t);
/* What a note about a schedule says, in the API's words. */
void orc_trigger_problem(struct arena *arena, struct problem *p, const char *note);
/* queue_id 0, item.seq 0: there is none (any more). */
void orc_trigger_write(struct json_writer *w, const struct schedule_view *v, uint32_t queue_id,
                       struct job_ref item, struct wall_time now);
