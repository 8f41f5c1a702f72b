/* SPDX-License-Identifier: Apache-2.0 */
/* The reference page of the events, docs/reference/events.md: what each event means. */
#include "api/v1/event_names.h"
#include "base/check.h"

struct event_doc {
    const char *about;   /* members of the event */
    const char *meaning; /* a sentence */
};

#define JOB "job, queue"

static const struct event_doc docs[EVENT_KIND_COUNT] = {
    [EVENT_ENQUEUED] = {JOB, "A job was created. Its state is ready, scheduled or blocked."},
    [EVENT_READY] = {JOB, "A scheduled job became ready."},
    [EVENT_CLAIMED] = {JOB, "A worker claimed the job."},
    [EVENT_RETRIED] = {JOB, "An attempt failed, and the job will be tried again."},
    [EVENT_CRASHED] = {JOB, "The lease of the job expired, or the connection to which it was bound "
                            "was lost. The job will be tried again."},
    [EVENT_RELEASED] =
        {JOB, "The job was released by its worker or by a restart. The attempt does not count."},
    [EVENT_DONE] = {JOB, "A worker acknowledged the job."},
    [EVENT_DEAD] = {JOB, "The job became dead. `reason` says why."},
    [EVENT_CANCEL_REQUESTED] = {JOB,
                                "A cancel of the running job was requested. Its worker has the "
                                "queue's `cancel_grace_ms` to end it. A node also emits this "
                                "event for a request that another node received."},
    [EVENT_CANCELLED] = {JOB, "The job was cancelled."},
    [EVENT_REQUEUED] = {JOB, "A dead, cancelled or scheduled job was made ready again."},
    [EVENT_PATCHED] = {JOB, "The payload, priority or another property of the job was changed."},
    [EVENT_QUEUE_CREATED] = {"queue", "A queue was created."},
    [EVENT_QUEUE_CHANGED] = {"queue", "The policy or the description of a queue was changed."},
    [EVENT_QUEUE_DELETED] = {"queue, count", "A queue was deleted together with `count` jobs."},
    [EVENT_QUEUE_PAUSED] = {"queue", "A queue was paused: its jobs cannot be claimed."},
    [EVENT_QUEUE_RESUMED] = {"queue", "The pause of a queue ended, by a request or at the "
                                      "requested time."},
    [EVENT_QUEUE_PURGED] = {"queue, count", "`count` jobs of a queue were removed."},
    [EVENT_QUEUE_DEEP] = {"queue, count",
                          "The number of waiting jobs in a queue reached its `warn_depth`; "
                          "`count` is that number. The event is repeated only after the number "
                          "has fallen below 90 % of `warn_depth`."},
    [EVENT_CLOCK_SUSPECT] = {"", "The wall clock jumped: nothing expires until "
                                 "`POST /v1/clock/accept`."},
    [EVENT_KV_SET] = {"key, version", "A key of the key-value store has a new value."},
    [EVENT_KV_DELETED] = {"key, version", "A key of the key-value store was deleted or expired."},
    [EVENT_ALERT_RAISED] = {"alert, queue, count",
                            "The condition of an alert rule became true; `count` is the value "
                            "that was measured."},
    [EVENT_ALERT_CLEARED] = {"alert, queue, count",
                             "The condition of an alert rule is no longer true; `count` is the "
                             "value that was measured."},
    [EVENT_SCHEDULE_FAILED] = {"schedule, queue",
                               "A schedule was due but could not create its job. The event is "
                               "sent once for each series of failures."},
    [EVENT_SCHEDULE_FIRED] = {"schedule, job, queue", "A schedule created a job."},
    [EVENT_PROGRESS] = {JOB ", progress",
                        "The worker of the job reported progress. At most one such "
                        "event per second is kept and sent for each job."},
    [EVENT_INBOX_REFUSED] = {JOB,
                             "A job that was enqueued in a transaction of PostgreSQL was refused "
                             "when a node took it. `job` is the id that `holdfast.enqueue` "
                             "returned; no such job exists. The view `inbox_refused` says why."},
    [EVENT_UNBLOCKED] = {JOB, "The jobs on which a blocked job depends have ended. Its state is "
                              "ready or scheduled."},
};

void events_reference(FILE *out)
{
    for (unsigned i = 0; i < EVENT_KIND_COUNT; i++) {
        CHECK(docs[i].about && docs[i].meaning);
        fprintf(out, "| `%s` | %s | %s |\n", event_names[i], docs[i].about, docs[i].meaning);
    }
}
