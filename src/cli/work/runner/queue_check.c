/* SPDX-License-Identifier: Apache-2.0 */
/* Whether jobs are left, for --until-empty. An empty claim does not tell: the queue may be
 * paused or limited, and jobs may run elsewhere, which can fail and become ready again. */
#include "cli/client/answer.h"
#include "cli/work/runner/runner_impl.h"

#define AGAIN_MS 200

static void queue_ask(struct runner *r);

static void queue_count(struct runner *r, struct span queue)
{
    int64_t ready = client_answer_int(queue, "counts.ready", 0);
    r->check.left += (uint64_t)(ready + client_answer_int(queue, "counts.running", 0));
    if (ready == 0 || !client_answer_true(queue, "paused"))
        return;
    r->check.paused = true;
    work_log_line(&r->log, LOG_WARN, "queue_paused",
                  LOG_TEXT("queue", r->plan->queues[r->check.queue]), LOG_INT("ready", ready));
}

static void check_over(struct runner *r)
{
    if (r->check.left == 0)
        runner_finish(r, WORK_DONE);
    else if (r->check.paused)
        runner_finish(r, WORK_LEFT);
    else
        claimer_pause(r, AGAIN_MS);
}

/* A queue that does not exist has no jobs. An access token that allows only to consume does not
 * allow to count them: the empty claim must do. */
static void queue_cb(void *ctx, const struct call_reply *reply)
{
    struct runner *r = ctx;
    r->check.call = NULL;
    if (runner_unanswered(reply)) {
        claimer_pause(r, AGAIN_MS);
        runner_poke(r);
        return;
    }
    if (reply->status == 200 && json_check_deep(reply->body, NULL, NULL) == 0)
        queue_count(r, reply->body);
    if (++r->check.queue < r->plan->queue_count)
        queue_ask(r);
    else
        check_over(r);
    runner_poke(r);
}

static void queue_ask(struct runner *r)
{
    const char *path = runner_path(r, "/v1/queues/", r->plan->queues[r->check.queue], "");
    if (path)
        r->check.call = runner_ask(
            r, &(struct runner_request){.method = "GET", .path = path, .done = queue_cb, .ctx = r});
}

void queue_check_start(struct runner *r)
{
    r->check.queue = 0;
    r->check.left = 0;
    r->check.paused = false;
    queue_ask(r);
}
