/* SPDX-License-Identifier: Apache-2.0 */
/* The rows and options of the client commands. An option that becomes a member of a request is
 * also in the command's table of struct client_field. */
#include "cli/client/client.h"

#include "cli/bench/bench.h"
#include "cli/client/client_commands.h"
#include "cli/client/job_text_options.h"
#include "cli/client/session.h"
#include "cli/client/terminal/confirm.h"
#include "cli/commands/queue_policy.h"
#include "cli/work/options.h"
#include "cli/work/work.h"
#include "core/alerts/alert.h"

#define EXIT_STATUS                                                                                \
    "\n"                                                                                           \
    "Exit status: 0 success, 1 refused by the server, 2 wrong usage, 3 the server cannot be\n"     \
    "reached or cannot answer."

/* Options of commands that ask for confirmation; `show` and `ask` are verbs. */
#define ASKS(show, ask)                                                                            \
    "On a terminal, " show " the number of jobs and " ask " for confirmation; any answer\n"        \
    "other than y changes nothing (exit status 1). Without a terminal, --yes is required.\n"

static const struct option queues_options[] = {
    CLIENT_OPTIONS,
    CLIENT_YES_OPTION,
    {"until", 0, "TIME", "pause: until this time (RFC 3339)", OPTION_TEXT},
    {"for", 0, "DURATION", "pause: for this long", OPTION_DURATION},
    {"description", 0, "TEXT", "a description for human readers", OPTION_TEXT},
    QUEUE_POLICY_OPTIONS};

static const struct option schedules_options[] = {
    CLIENT_OPTIONS,
    CLIENT_YES_OPTION,
    {"count", 'n', "N", "preview: number of firings (5)", OPTION_NUMBER},
    {"after", 0, "TIME", "preview: firings after this time (now)", OPTION_TEXT},
    {"queue", 'q', "QUEUE", "queue of the job (jobs)", OPTION_TEXT},
    {"cron", 0, "TEXT", "cron expression: \"30 2 * * *\"", OPTION_TEXT},
    {"timezone", 0, "ZONE", "time zone of the cron expression: Europe/Berlin (UTC)", OPTION_TEXT},
    {"dst_gap", 0, "skip|run_after",
     "what to do with a time that does not exist because the clock is set forward", OPTION_CHOICE},
    {"dst_fold", 0, "once|twice", "what to do with a time that occurs twice", OPTION_CHOICE},
    {"every", 0, "DURATION", "interval between firings", OPTION_DURATION},
    {"start_at", 0, "TIME", "start of the first interval (now)", OPTION_TEXT},
    {"misfire", 0, "skip|once|all", "what to do with times that were missed (once)", OPTION_CHOICE},
    {"misfire_window", 0, "DURATION", "misfire all: how far back to go (1h)", OPTION_DURATION},
    {"overlap", 0, "allow|skip", "skip: no new job while the last one is live", OPTION_CHOICE},
    {"source_queue", 0, "QUEUE", "fire when this queue has jobs; the created job receives them",
     OPTION_TEXT},
    {"batch_size", 0, "N", "items for one job (1)", OPTION_NUMBER},
    {"interval", 0, "DURATION", "time between two checks of the source (30s)", OPTION_DURATION},
    {"eager", 0, "yes|no", "check as soon as items arrive", OPTION_CHOICE},
    {"paused", 0, "yes|no", "whether the schedule is paused", OPTION_CHOICE},
    {"description", 0, "TEXT", "a description for human readers", OPTION_TEXT},
    {"payload", 0, "JSON", "payload of the job; `-` reads standard input, `@FILE` a file",
     OPTION_TEXT},
    {"priority", 'p', "N|LABEL", "priority of the job", OPTION_TEXT},
    {"delay", 'd', "DURATION", "delay of the job", OPTION_DURATION},
    {"expires_in", 0, "DURATION", "the job becomes dead if it is not started within this time",
     OPTION_DURATION},
    JOB_TEXT_OPTIONS /* of the job */
    {"unique_mode", 0, "reject|return|replace", "what happens to a second job with this key",
     OPTION_CHOICE},
    {"max_attempts", 0, "N", "attempts before the job is dead", OPTION_NUMBER},
};

static const struct option kv_options[] = {
    CLIENT_OPTIONS,
    {"version", 0, "N", "set, delete: only if the key has this version; 0: if it does not exist",
     OPTION_NUMBER},
    {"expires_in", 0, "DURATION", "set: the key expires after this time", OPTION_DURATION},
    {"expires_at", 0, "TIME", "set: the key expires at this time (RFC 3339)", OPTION_TEXT},
};

static const struct option alerts_options[] = {
    CLIENT_OPTIONS,
    CLIENT_YES_OPTION,
    {"on", 0, ALERT_NAMES("|"), "create: the event or condition of the rule", OPTION_CHOICE},
    {"queue", 0, "PATTERN", "queues that the rule covers; * matches anything", OPTION_TEXT},
    {"depth", 0, "N",
     "deep: this many waiting jobs, 10,000 by default; 0 means the queue's warn_depth, or 10,000 "
     "if "
     "it has none",
     OPTION_NUMBER},
    {"percent", 0, "N", "error_share: more than this; capacity: at least this", OPTION_NUMBER},
    {"window", 0, "DURATION", "error_share: the period that is examined", OPTION_DURATION},
    {"min_ends", 0, "N", "error_share: minimum number of ended attempts", OPTION_NUMBER},
    {"after", 0, "DURATION", "no_claim: no claim for this long", OPTION_DURATION},
    {"url", 0, "URL", "the webhook that gets the notices", OPTION_TEXT},
    {"enabled", 0, "true|false", "whether the rule is active", OPTION_SWITCH},
};

static const struct option breakers_options[] = {
    CLIENT_OPTIONS,
    CLIENT_YES_OPTION,
    {"failure_threshold", 0, "N", "consecutive failures that open the breaker", OPTION_NUMBER},
    {"open_cooldown_seconds", 0, "SECONDS", "how long an open breaker denies every call",
     OPTION_NUMBER},
    {"half_open_probe_count", 0, "N", "calls that are allowed after that, to try the target",
     OPTION_NUMBER},
};

static const struct option enqueue_options[] = {
    CLIENT_OPTIONS,
    {"priority", 'p', "N|LABEL", "jobs with a higher priority are claimed first", OPTION_TEXT},
    {"delay", 'd', "DURATION", "the job becomes ready after this time", OPTION_DURATION},
    {"run_at", 0, "TIME", "the job becomes ready at this time (RFC 3339)", OPTION_TEXT},
    JOB_TEXT_OPTIONS /* of the job */
    {"unique_mode", 0, "reject|return|replace", "what happens to a second job with this key",
     OPTION_CHOICE},
    {"max_attempts", 0, "N", "attempts before the job is dead", OPTION_NUMBER},
    {"lease", 0, "DURATION", "how long a claim holds the job", OPTION_DURATION},
    {"timeout", 0, "DURATION", "how long an attempt may run, however often its lease is extended",
     OPTION_DURATION},
    {"backoff", 0, "LIST", "the wait before each retry: 1s,30s,5m", OPTION_TEXT},
    {"expires_at", 0, "TIME", "the job becomes dead if it is not started by this time",
     OPTION_TEXT},
    {"expires_in", 0, "DURATION", "the job becomes dead if it is not started within this time",
     OPTION_DURATION},
    {"depends_on", 0, "ID", "a job that must end before this one is ready; may be repeated",
     OPTION_LIST},
    {"on_dependency_failure", 0, "cancel|run|dead", "what happens to the job if one of these fails",
     OPTION_CHOICE},
    {"key", 'k', "KEY", "idempotency key: a repeated request enqueues nothing", OPTION_TEXT},
    {"ndjson", 0, NULL, "each line of the input is a job object; 1000 are sent at a time",
     OPTION_FLAG},
    {"raw", 'r', NULL, "the payload is bytes, not JSON", OPTION_FLAG},
};

static const struct option claim_options[] = {
    CLIENT_OPTIONS,
    {"count", 'n', "N", "maximum number of jobs (1)", OPTION_NUMBER},
    {"wait", 'w', "DURATION", "how long to wait for a job (0)", OPTION_DURATION},
    {"lease", 'l', "DURATION", "how long the claim holds the job", OPTION_DURATION},
    {"worker", 0, "NAME", "name of the worker", OPTION_TEXT},
    {"raw", 'r', NULL,
     "print only the payload on standard output, and id and lease token on standard error",
     OPTION_FLAG},
};

static const struct option ack_options[] = {
    CLIENT_OPTIONS,
    {"handoff", 0, "JSON",
     "jobs to enqueue and keys to change in the same commit, as {\"enqueues\", \"sets\", "
     "\"deletes\"}",
     OPTION_TEXT},
};

static const struct option fail_options[] = {
    CLIENT_OPTIONS,
    {"error", 'e', "TEXT", "what went wrong", OPTION_TEXT},
    {"error_kind", 0, "app|business", "kind of error", OPTION_CHOICE},
    {"error_type", 0, "TEXT", "class of the exception, such as TimeoutError", OPTION_TEXT},
    {"stack_file", 0, "FILE", "file with the stack of the exception", OPTION_FILE},
    {"no_retry", 0, NULL, "the job becomes dead at once", OPTION_FLAG},
    {"delay", 'd', "DURATION", "retry after this time", OPTION_DURATION},
    {"run_at", 0, "TIME", "retry at this time (RFC 3339)", OPTION_TEXT},
};

static const struct option extend_options[] = {
    CLIENT_OPTIONS,
    {"lease", 'l', "DURATION", "new lease, from now (default: the length of the first lease)",
     OPTION_DURATION},
};

static const struct option release_options[] = {
    CLIENT_OPTIONS,
    {"reason", 0, "TEXT", "reason for the release", OPTION_TEXT},
    {"delay", 'd', "DURATION", "the job becomes ready after this time", OPTION_DURATION},
    {"run_at", 0, "TIME", "the job becomes ready at this time (RFC 3339)", OPTION_TEXT},
};

static const struct option jobs_options[] = {
    CLIENT_OPTIONS,
    {"queue", 'q', "QUEUE", "only this queue", OPTION_TEXT},
    {"state", 0, "LIST", "only jobs in these states: ready,dead", OPTION_TEXT},
    JOB_LIST_OPTIONS /* texts of the job */
    {"limit", 'n', "N", "jobs per page (50)", OPTION_NUMBER},
    {"newest", 0, NULL, "newest first", OPTION_FLAG},
    {"cursor", 0, "CURSOR", "continue where a page ended", OPTION_TEXT},
    {"all", 'a', NULL, "print all pages, not only the first", OPTION_FLAG},
};

#define FILTER_OPTIONS(states)                                                                     \
    {"queue", 'q', "QUEUE", "jobs of this queue", OPTION_TEXT},                                    \
        {"state", 0, "LIST", "with --queue: " states, OPTION_TEXT},                                \
        {"group", 'g', "NAME", "with --queue: only jobs of this group", OPTION_TEXT},              \
        {"kind", 0, "KIND", "with --queue: only jobs of this kind", OPTION_TEXT},                  \
        {"dry_run", 0, NULL, "with --queue: print how many jobs match, without changing them",     \
         OPTION_FLAG},                                                                             \
        CLIENT_YES_OPTION

static const struct option cancel_options[] = {
    CLIENT_OPTIONS,
    FILTER_OPTIONS("jobs in these states; required"),
    {"force", 'f', NULL, "end the leases of running jobs at once", OPTION_FLAG},
};

static const struct option requeue_options[] = {
    CLIENT_OPTIONS,
    FILTER_OPTIONS("jobs in these states (dead)"),
    {"delay", 'd', "DURATION", "with an ID: the job becomes ready after this time",
     OPTION_DURATION},
};

static const struct option plain_options[] = {CLIENT_OPTIONS};

static const struct option progress_options[] = {
    CLIENT_OPTIONS,
    {"token", 't', "TOKEN", "the lease token of the claim", OPTION_TEXT},
    {"lease", 'l', "DURATION", "also extend the lease to this long from now", OPTION_DURATION},
};

static const struct option step_options[] = {
    CLIENT_OPTIONS,
    {"token", 't', "TOKEN", "the lease token of the claim (HOLDFAST_LEASE_TOKEN)", OPTION_TEXT},
};

static const struct option stats_options[] = {
    CLIENT_OPTIONS,
    {"group", 'g', "NAME", "with QUEUE: only jobs of this group", OPTION_TEXT},
    {"watch", 'w', NULL, "repeat every second until interrupted", OPTION_FLAG},
};

static const struct option export_options[] = {
    CLIENT_OPTIONS,
    {"data", 0, "DIR",
     "read the store in DIR, which no server may be using, instead of asking a server", OPTION_DIR},
    {"output", 'o', "FILE", "write to FILE, which is created when the export is complete",
     OPTION_FILE},
    {"force", 'f', NULL, "replace FILE if it exists", OPTION_FLAG},
    {"queue", 'q', "QUEUE", "only this queue; may be repeated", OPTION_LIST},
    {"state", 0, "LIST", "only jobs in these states (scheduled,blocked,ready,running,dead)",
     OPTION_TEXT},
    {"all", 'a', NULL, "include jobs that are done or cancelled", OPTION_FLAG},
};

static const struct option import_options[] = {
    CLIENT_OPTIONS,
    {"update_queues", 0, NULL, "set the policy of existing queues to that of the export",
     OPTION_FLAG},
    {"ignore_missing", 0, NULL,
     "let blocked jobs start without the jobs for which they wait and that are not imported",
     OPTION_FLAG},
    {"nomarr", 0, "FILE", "read Nomarr's SQLite database instead of an export", OPTION_FILE},
};

static const struct option events_options[] = {
    CLIENT_OPTIONS,
    {"queue", 'q', "QUEUE", "only this queue", OPTION_TEXT},
    {"events", 0, "LIST", "only these events: dead,done", OPTION_TEXT},
    {"after", 0, "ID", "begin after the event with this id", OPTION_TEXT},
};

static const struct option backup_options[] = {CLIENT_OPTIONS};
static const struct option compact_options[] = {CLIENT_OPTIONS};

static const struct option bench_options[] = {
    CLIENT_OPTIONS,
    {"mode", 'm', "enqueue|cycle|claim|healthz|mixed", "what each connection does (enqueue)",
     OPTION_CHOICE},
    {"connections", 'c', "N", "connections (64)", OPTION_NUMBER},
    {"threads", 't', "N", "threads of the generator (1)", OPTION_NUMBER},
    {"producers", 0, "N", "mixed: connections that enqueue (half)", OPTION_NUMBER},
    {"consumers", 0, "N", "mixed: connections that claim and ack (half)", OPTION_NUMBER},
    {"batch", 'b', "N", "jobs per request (1)", OPTION_NUMBER},
    {"pipeline", 0, "N", "concurrent requests on each connection (1)", OPTION_NUMBER},
    {"payload", 0, "SIZE", "size of each payload (200)", OPTION_SIZE},
    {"priorities", 0, "N", "number of different priorities (1)", OPTION_NUMBER},
    {"delay_ms", 0, "DURATION", "delay of each job (0)", OPTION_DURATION},
    {"backlog", 0, "N", "jobs to enqueue first, not measured (0)", OPTION_NUMBER},
    {"duration", 0, "DURATION", "duration of the measurement (10s)", OPTION_DURATION},
    {"jobs", 'n', "N", "number of jobs instead of a duration; with healthz: number of requests",
     OPTION_NUMBER},
    {"queue", 'q', "QUEUE",
     "use this queue and keep it (default: bench-RANDOM, deleted afterwards)", OPTION_TEXT},
    {"server_pid", 0, "PID", "measure the processor time of this server per job", OPTION_NUMBER},
    {"fsync_dir", 0, "DIR", "measure fdatasync in DIR for a second first", OPTION_DIR},
};

const struct command client_commands[] = {
    {"queues", "[[create|set|delete|pause|resume|purge] QUEUE]", "show or change queues",
     "Without arguments, lists all queues; with QUEUE alone, shows that queue. The actions:\n  "
     "create   create the queue; refused if it exists\n  set      change the settings that the "
     "options name\n  delete   delete the queue and all its jobs\n  pause    stop "
     "claims until `resume`, until --until, or for the time of --for\n  resume   allow claims "
     "again\n  purge    remove the jobs that are ready or scheduled\nThe options from "
     "--description on are the settings of the queue (`holdfast help policy`). Durations:\n500ms, "
     "30s, 24h.\n" ASKS("delete and purge show", "ask") EXIT_STATUS "\n",
     COMMAND_OPTIONS(queues_options), 0, 2, client_queues},
    {"schedules", "[[create|set|delete|pause|resume|run|preview] NAME]", "show or change schedules",
     "Without arguments, lists all schedules; with NAME alone, shows that schedule. The actions:\n"
     "  create   create the schedule; refused if it exists\n"
     "  set      change the settings that the options name\n"
     "  delete   delete the schedule, but not its jobs; on a terminal, asks for confirmation\n"
     "           unless --yes is given\n"
     "  pause    create no jobs until `resume`\n"
     "  resume   create jobs again; times that passed during the pause are skipped\n"
     "  run      create a job now, in addition to the regular times\n"
     "  preview  show the next firing times; without NAME, those of a schedule with the given\n"
     "           options\n"
     "One of --cron, --every and --source-queue says when the schedule fires; the options from\n"
     "--payload on describe the job. Durations: 500ms, 30s, 24h.\n" EXIT_STATUS "\n",
     COMMAND_OPTIONS(schedules_options), 0, 2, client_schedules},
    {"kv", "get|set|delete|list [KEY] [VALUE]", "show or change keys of the key-value store",
     "  get KEY         print the value of the key\n"
     "  set KEY VALUE   set the key; VALUE is JSON (`-` reads it from standard input, `@FILE` from "
     "a "
     "file)\n"
     "  delete KEY      delete the key; it is not an error if the key does not exist\n"
     "  list [PREFIX]   list the keys that begin with PREFIX, in order\n"
     "A key is a text, or a JSON array of parts: '[\"user\",7]'.\n" EXIT_STATUS "\n",
     COMMAND_OPTIONS(kv_options), 1, 3, client_kv},
    {"alerts", "[[create|set|delete] NAME]", "show or change alert rules",
     "Without arguments, lists all rules; with NAME alone, shows that rule. `create` creates a\n"
     "rule and requires --on; `set` changes the members that the options name. `delete` deletes\n"
     "the rule and its notices; on a terminal, it asks for confirmation unless --yes is "
     "given.\n" EXIT_STATUS "\n",
     COMMAND_OPTIONS(alerts_options), 0, 2, client_alerts},
    {"breakers", "[list|show|set|delete] [NAME]", "show and change circuit breakers",
     "The actions are:\n"
     "  list            list all breakers: named ones, and those of webhooks (the default)\n"
     "  show NAME       show a named breaker\n"
     "  set NAME        set its settings; those that are omitted get the server's defaults\n"
     "  delete NAME     delete it; on a terminal, asks for confirmation unless --yes is given\n"
     "Workers create a named breaker when they consult it for the first time, with\n"
     "POST /v1/breakers/NAME/allow.\n" EXIT_STATUS "\n",
     COMMAND_OPTIONS(breakers_options), 0, 2, client_breakers},
    {"enqueue", "QUEUE [PAYLOAD]", "enqueue a job, or one for each line of input",
     "PAYLOAD is JSON, `-` for standard input, or `@FILE` for a file; `null` is a job without\n"
     "data. With --raw the payload is bytes, and with --ndjson each line of the input is a job\n"
     "object ({\"payload\":…,\"priority\":…}); both read standard input if PAYLOAD is omitted.\n"
     "Without these options, PAYLOAD is required.\n" EXIT_STATUS "\n",
     COMMAND_OPTIONS(enqueue_options), 1, 2, client_enqueue},
    {"claim", "QUEUE...", "claim jobs",
     "Prints each claimed job with the lease token that ack, fail, extend and release "
     "need.\n" EXIT_STATUS "\n4 no job was ready.\n",
     COMMAND_OPTIONS(claim_options), 1, COMMAND_WORDS_ANY, client_claim},
    {"work", "QUEUE... [-- COMMAND ARGUMENT...]", "run a command for every job of a queue",
     "Claims jobs of the queues and runs COMMAND for each, or with --url sends each to an "
     "HTTP\naddress, or with --config runs the workers that a file describes. The command gets "
     "the\npayload on standard input, and HOLDFAST_ID, HOLDFAST_QUEUE, HOLDFAST_ATTEMPT and others "
     "in\nits environment. Its exit status decides the outcome of the job:\n  0              "
     "acked; standard output is the result\n  65             dead, without a retry\n  75           "
     "  released with a back-off; the attempt does not count\n  78, 126, 127   a problem of the "
     "worker: released, uncounted; after five pauses in a row\n                 the runner ends\n  "
     "others "
     "   "
     "     failed, and so "
     "does a signal; the end of standard error is the error\n--exit changes this. Replies of "
     "--url: 2xx acked, 422 dead, 429 and 503 released until\nRetry-After, others failed.\n\nThe "
     "first SIGTERM, SIGINT or SIGHUP starts the stop mode (--stop); after --stop-timeout, "
     "or\nat the second signal, the commands are terminated and their jobs released. "
     "docs/worker.md\nexplains the details.\n\nExit status:\n"
     "  0  stopped by a signal; with --until-empty, no job is left; with --once, the job was "
     "acked\n"
     "  1  problems of the worker (five pauses in a row, or one with --once), or the server "
     "refused\n     a claim\n"
     "  2  wrong usage\n"
     "  3  with --once or --until-empty: the server could not be reached at the start; otherwise "
     "only\n     if outcomes could not be reported before the end\n"
     "  4  with --once: no job was ready\n"
     "  5  with --once: the job was not acked\n"
     "  6  with --until-empty or --once: a signal stopped it before the end; with --until-empty "
     "also:\n     a queue with ready jobs is paused\n",
     COMMAND_OPTIONS(work_options), 0, COMMAND_WORDS_ANY, work_command},
    {"ack", "ID TOKEN [RESULT]", "acknowledge a claimed job as done",
     "RESULT is JSON (`-` reads it from standard input, `@FILE` from a file) and is stored with "
     "the\n"
     "job. --handoff takes JSON in the same ways; if it is refused, the job is not "
     "acknowledged.\n" EXIT_STATUS "\n",
     COMMAND_OPTIONS(ack_options), 2, 3, client_ack},
    {"fail", "ID TOKEN", "report that a claimed job failed",
     "The job is retried after its back-off; after its last attempt it becomes dead.\n" EXIT_STATUS
     "\n",
     COMMAND_OPTIONS(fail_options), 2, 2, client_fail},
    {"extend", "ID TOKEN", "extend the lease of a claimed job",
     "Prints the new end of the lease.\n" EXIT_STATUS "\n", COMMAND_OPTIONS(extend_options), 2, 2,
     client_extend},
    {"release", "ID TOKEN", "release a claimed job, uncounted",
     "The job becomes ready again, and the attempt does not count against "
     "max_attempts.\n" EXIT_STATUS "\n",
     COMMAND_OPTIONS(release_options), 2, 2, client_release},
    {"jobs", "[ID]", "list jobs, or show one",
     "With ID, shows one job and its attempts. Payloads are shortened; --json prints them\n"
     "completely. `holdfast why ID` explains why a job is not running.\n" EXIT_STATUS "\n",
     COMMAND_OPTIONS(jobs_options), 0, 1, client_jobs},
    {"why", "ID", "explain why a job is not running",
     "Prints the state of the job and, in order, each reason why it is not running, with the code "
     "of\nthe reason (`holdfast help reasons`), and when the job is expected to start, if that is "
     "known.\n" EXIT_STATUS "\n",
     COMMAND_OPTIONS(plain_options), 1, 1, client_why},
    {"requeue", "[ID...]", "make dead, cancelled or scheduled jobs ready again",
     "Give the IDs of the jobs, or a queue with --queue: then its dead jobs, or those in the "
     "states\n"
     "of --state (scheduled, dead, cancelled), become ready.\n" ASKS("--queue shows", "asks")
         EXIT_STATUS "\n",
     COMMAND_OPTIONS(requeue_options), 0, COMMAND_WORDS_ANY, client_requeue},
    {"cancel", "[ID...]", "cancel jobs",
     "Give the IDs of the jobs, or a queue with --queue and the states of its jobs with --state\n"
     "(scheduled, ready, running). A cancel of a running job is a request to its worker: the job\n"
     "is cancelled when the worker releases or fails it, or after the queue's cancel_grace_ms at\n"
     "the latest; it is done if the worker acks it within that time. With --force it is\n"
     "cancelled at once.\n" ASKS("--queue shows", "asks") EXIT_STATUS "\n",
     COMMAND_OPTIONS(cancel_options), 0, COMMAND_WORDS_ANY, client_cancel},
    {"workers", "", "show workers and the jobs that they hold",
     "A worker stays in the list for an hour after its last request and its last "
     "lease.\n" EXIT_STATUS "\n",
     COMMAND_OPTIONS(plain_options), 0, 0, client_workers},
    {"progress", "ID --token TOKEN PERCENT [MESSAGE]", "report the progress of a claimed job",
     "PERCENT is a number from 0 to 100. The job shows the newest report.\n" EXIT_STATUS "\n",
     COMMAND_OPTIONS(progress_options), 2, 3, client_progress},
    {"step", "ID NAME [RESULT]", "store the result of a step of a claimed job, or print it",
     "Stores RESULT, which is JSON (`-` reads it from standard input, `@FILE` from a file), under\n"
     "the name. Every later claim of the job contains it, so that the next attempt can skip the\n"
     "step. Without RESULT, prints the stored result; the exit status is 1 if the job has no\n"
     "result of this step.\n" EXIT_STATUS "\n",
     COMMAND_OPTIONS(step_options), 2, 3, client_step},
    {"log", "ID", "show the log of a job",
     "Shows the newest 64 KiB of the lines that workers logged, over all attempts.\n" EXIT_STATUS
     "\n",
     COMMAND_OPTIONS(plain_options), 1, 1, client_log},
    {"stats", "[QUEUE]", "show statistics of the server or of one queue",
     "For the server: the number of waiting and running jobs, and a line for each queue. For a\n"
     "queue: its jobs by state, totals since the server started, and how long jobs waited and\n"
     "ran.\n" EXIT_STATUS "\n",
     COMMAND_OPTIONS(stats_options), 0, 1, client_stats},
    {"export", "", "export queues and jobs as JSON lines",
     "Writes to standard output, or to the file of --output. Jobs that are done or cancelled are\n"
     "omitted unless --all or --state selects them. With --data the store of a stopped server is\n"
     "read without changing a byte, even if it is damaged: what cannot be read is skipped and\n"
     "counted.\n"
     "\n"
     "Exit status: 0 everything was written, 1 refused by the server, or parts of the store could\n"
     "not be read, 2 wrong usage, or the output cannot be written, or nothing of the store can be\n"
     "read, 3 the server cannot be reached or cannot answer.\n",
     COMMAND_OPTIONS(export_options), 0, 0, client_export},
    {"import", "[FILE]", "import the queues and jobs of an export",
     "Reads FILE or standard input. Queues that exist keep their policy unless --update-queues\n"
     "is given. Jobs get new ids; each old id is imported once, so the same file can be imported\n"
     "again after an interruption. Dead jobs stay dead, running ones become ready, done and\n"
     "cancelled ones are skipped. Blocked jobs wait for the new jobs. With --nomarr the rows of "
     "the table `queue` of that database\n"
     "become jobs of the queues webqueue.TYPE of the API webqueue, also completed ones; every "
     "type\n"
     "must be in the server's setting webqueue.types, or nothing is imported.\n"
     "\n"
     "Exit status: 0 everything was imported, 1 lines were refused (each is named) or the file is\n"
     "truncated, 2 wrong usage, or the file cannot be read, 3 the server cannot be reached or\n"
     "cannot answer.\n",
     COMMAND_OPTIONS(import_options), 0, 1, client_import},
    {"events", "", "print events as they happen, one per line",
     "Runs until interrupted. If the connection is lost, the command reconnects for half a minute\n"
     "and continues after the last event.\n" EXIT_STATUS "\n",
     COMMAND_OPTIONS(events_options), 0, 0, client_events},
    {"backup", "DIR", "copy the store of a running server into DIR",
     "Creates DIR/holdfast.db, a copy of the store at one moment: it contains everything that was\n"
     "confirmed when the command began. DIR must be empty or not exist. The file gets its name\n"
     "when it is complete, synced and checked; `holdfast restore` creates a store from it. While\n"
     "the backup runs, the server needs disk space for a second copy of the store.\n"
     "\n"
     "Exit status: 0 a valid backup, 1 refused by the server, or what it sent is not a valid "
     "backup,\n"
     "2 wrong usage, 3 the server cannot be reached or could not copy its store (it is damaged, "
     "or\n"
     "the disk is full).\n",
     COMMAND_OPTIONS(backup_options), 1, 1, client_backup},
    {"compact", "", "return the disk space of removed jobs to the file system",
     "The server compacts in small steps and continues to serve requests; an idle server does "
     "most\n"
     "of it without this command.\n" EXIT_STATUS "\n",
     COMMAND_OPTIONS(compact_options), 0, 0, client_compact},
    {"bench", "", "generate load and measure a server",
     "Modes: enqueue (--batch jobs per request), cycle (enqueue, claim, ack), claim (claim and "
     "ack\n"
     "existing jobs), healthz (requests that do not use the store), mixed (producers and "
     "consumers\n"
     "together). Every reply is checked; any error makes the exit status 1.\n" EXIT_STATUS "\n",
     COMMAND_OPTIONS(bench_options), 0, 0, bench_command},
};

const size_t client_command_count = CLIENT_COUNT(client_commands);
