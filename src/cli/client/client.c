/* SPDX-License-Identifier: Apache-2.0 */
/* The rows and options of the client commands. An option that becomes a member of a request stands
 * a second time in the command's table of struct client_field. */
#include "cli/client/client.h"

#include "cli/bench/bench.h"
#include "cli/client/client_commands.h"
#include "cli/client/confirm.h"
#include "cli/client/session.h"

#define EXIT_STATUS                                                                                \
    "\n"                                                                                           \
    "Exit status: 0 done, 1 refused by the server, 2 wrong usage, 3 the server cannot be "         \
    "reached\n"                                                                                    \
    "or cannot answer."

/* How a command with questions behaves; `show` and `ask` are verbs. */
#define ASKS(show, ask)                                                                            \
    "On a terminal, " show " how many jobs are concerned and " ask "; any answer\n"                \
    "but y changes nothing (exit status 1). Without a terminal, --yes is required.\n"

static const struct option queues_options[] = {
    CLIENT_OPTIONS,
    CLIENT_YES_OPTION,
    {"until", 0, "TIME", "pause: until this time (RFC 3339)", OPTION_TEXT},
    {"for", 0, "DURATION", "pause: for this long", OPTION_DURATION},
    {"description", 0, "TEXT", "a text for people", OPTION_TEXT},
    {"lease_ms", 0, "DURATION", "how long a claim holds", OPTION_DURATION},
    {"max_attempts", 0, "N", "attempts before a job is dead", OPTION_NUMBER},
    {"max_crashes", 0, "N", "lost leases before a job is dead", OPTION_NUMBER},
    {"backoff_ms", 0, "LIST", "the wait before each retry: 1s,30s,5m", OPTION_TEXT},
    {"backoff_base_ms", 0, "DURATION", "exponential back-off: the first wait", OPTION_DURATION},
    {"backoff_max_ms", 0, "DURATION", "exponential back-off: the longest wait", OPTION_DURATION},
    {"backoff_jitter_percent", 0, "N", "exponential back-off: its spread", OPTION_NUMBER},
    {"lease_end", 0, "requeue|requeue_counted|fail", "what a lost lease means", OPTION_CHOICE},
    {"unique_mode", 0, "reject|return|replace", "what a second job of a unique key meets",
     OPTION_CHOICE},
    {"unique_scope", 0, "live|kept", "which jobs hold their unique key", OPTION_CHOICE},
    {"durability", 0, "fsync|relaxed", "when an answer may leave", OPTION_CHOICE},
    {"refuse_new", 0, "yes|no", "take no new jobs", OPTION_CHOICE},
    {"require_token", 0, "yes|no", "acks need the lease token of the claim", OPTION_CHOICE},
    {"priority", 0, "N|LABEL", "priority of jobs that name none", OPTION_TEXT},
    {"capacity", 0, "N|none", "live jobs at most; none: no limit", OPTION_TEXT},
    {"payload_max", 0, "SIZE", "the largest payload", OPTION_SIZE},
    {"warn_depth", 0, "N", "depth that is worth a warning; 0: never", OPTION_NUMBER},
    {"keep_done_ms", 0, "DURATION|all", "how long done jobs are kept; 0 keeps none", OPTION_TEXT},
    {"keep_done", 0, "N|all", "how many done jobs are kept; 0 keeps none", OPTION_TEXT},
    {"keep_dead_ms", 0, "DURATION|all", "how long dead jobs are kept; 0 keeps none", OPTION_TEXT},
    {"keep_dead", 0, "N|all", "how many dead jobs are kept; 0 keeps none", OPTION_TEXT},
};

static const struct option schedules_options[] = {
    CLIENT_OPTIONS,
    CLIENT_YES_OPTION,
    {"count", 'n', "N", "preview: so many firings (5)", OPTION_NUMBER},
    {"after", 0, "TIME", "preview: firings after then (now)", OPTION_TEXT},
    {"queue", 'q', "QUEUE", "where the job goes (jobs)", OPTION_TEXT},
    {"cron", 0, "TEXT", "due at these times: \"30 2 * * *\"", OPTION_TEXT},
    {"timezone", 0, "ZONE", "of the cron times: Europe/Berlin (UTC)", OPTION_TEXT},
    {"dst_gap", 0, "skip|run_after", "a time that the clock leaps over", OPTION_CHOICE},
    {"dst_fold", 0, "once|twice", "a time that comes twice", OPTION_CHOICE},
    {"every", 0, "DURATION", "due every so often", OPTION_DURATION},
    {"start_at", 0, "TIME", "intervals count from then (now)", OPTION_TEXT},
    {"misfire", 0, "skip|once|all", "times that passed while nobody could fire (once)",
     OPTION_CHOICE},
    {"misfire_window", 0, "DURATION", "misfire all: how far back (1h)", OPTION_DURATION},
    {"overlap", 0, "allow|skip", "skip: no new job while the last one lives", OPTION_CHOICE},
    {"source_queue", 0, "QUEUE", "due when this queue has items, which the job gets", OPTION_TEXT},
    {"batch_size", 0, "N", "items for one job (1)", OPTION_NUMBER},
    {"interval", 0, "DURATION", "between two looks at the source (30s)", OPTION_DURATION},
    {"eager", 0, "yes|no", "look as soon as items arrive", OPTION_CHOICE},
    {"paused", 0, "yes|no", "not due while it is", OPTION_CHOICE},
    {"description", 0, "TEXT", "a text for people", OPTION_TEXT},
    {"payload", 0, "JSON", "of the job; `-` is standard input, `@FILE` a file", OPTION_TEXT},
    {"priority", 'p', "N|LABEL", "of the job", OPTION_TEXT},
    {"delay", 'd', "DURATION", "the job runs so much later", OPTION_DURATION},
    {"expires_in", 0, "DURATION", "the job is given up if not begun within", OPTION_DURATION},
    {"unique", 'u', "KEY", "at most one job of this key", OPTION_TEXT},
    {"unique_mode", 0, "reject|return|replace", "what happens to a second one", OPTION_CHOICE},
    {"max_attempts", 0, "N", "attempts before the job is dead", OPTION_NUMBER},
    {"group", 'g', "NAME", "the group the job belongs to", OPTION_TEXT},
    {"correlation_id", 0, "ID", "travels along to the worker, logs and events", OPTION_TEXT},
    {"priority_label", 0, "TEXT", "shown with the priority; that of --priority high is high",
     OPTION_TEXT},
};

static const struct option kv_options[] = {
    CLIENT_OPTIONS,
    {"version", 0, "N", "set, delete: only if the key has this version; 0: if it is not there",
     OPTION_NUMBER},
    {"expires_in", 0, "DURATION", "set: gone after so much time", OPTION_DURATION},
    {"expires_at", 0, "TIME", "set: gone from then on (RFC 3339)", OPTION_TEXT},
};

static const struct option alerts_options[] = {CLIENT_OPTIONS, CLIENT_YES_OPTION};

static const struct option enqueue_options[] = {
    CLIENT_OPTIONS,
    {"priority", 'p', "N|LABEL", "higher is claimed first", OPTION_TEXT},
    {"delay", 'd', "DURATION", "not before so much time has passed", OPTION_DURATION},
    {"run_at", 0, "TIME", "not before then (RFC 3339)", OPTION_TEXT},
    {"unique", 'u', "KEY", "at most one job of this key", OPTION_TEXT},
    {"unique_mode", 0, "reject|return|replace", "what happens to a second one", OPTION_CHOICE},
    {"group", 'g', "NAME", "the group it belongs to", OPTION_TEXT},
    {"correlation_id", 0, "ID", "travels along to the worker, logs and events", OPTION_TEXT},
    {"priority_label", 0, "TEXT", "shown with the priority; that of --priority high is high",
     OPTION_TEXT},
    {"max_attempts", 0, "N", "attempts before it is dead", OPTION_NUMBER},
    {"lease", 0, "DURATION", "how long a claim of it holds", OPTION_DURATION},
    {"backoff", 0, "LIST", "the wait before each retry: 1s,30s,5m", OPTION_TEXT},
    {"expires_at", 0, "TIME", "given up if not begun by then", OPTION_TEXT},
    {"expires_in", 0, "DURATION", "given up if not begun within", OPTION_DURATION},
    {"key", 'k', "KEY", "idempotency key: a repeat enqueues nothing", OPTION_TEXT},
    {"ndjson", 0, NULL, "the input is one job object a line; 1000 are sent at a time", OPTION_FLAG},
    {"raw", 'r', NULL, "the payload is bytes, not JSON", OPTION_FLAG},
};

static const struct option claim_options[] = {
    CLIENT_OPTIONS,
    {"count", 'n', "N", "jobs at most (1)", OPTION_NUMBER},
    {"wait", 'w', "DURATION", "how long to wait for one (0)", OPTION_DURATION},
    {"lease", 'l', "DURATION", "how long the claim holds", OPTION_DURATION},
    {"worker", 0, "NAME", "who claims", OPTION_TEXT},
    {"raw", 'r', NULL, "the payload alone on standard output, id and lease token on standard error",
     OPTION_FLAG},
};

static const struct option ack_options[] = {CLIENT_OPTIONS};

static const struct option fail_options[] = {
    CLIENT_OPTIONS,
    {"error", 'e', "TEXT", "what went wrong", OPTION_TEXT},
    {"error_kind", 0, "app|business", "whose fault (app)", OPTION_CHOICE},
    {"no_retry", 0, NULL, "the job is dead at once", OPTION_FLAG},
    {"delay", 'd', "DURATION", "retry after so much time", OPTION_DURATION},
    {"run_at", 0, "TIME", "retry then (RFC 3339)", OPTION_TEXT},
};

static const struct option extend_options[] = {
    CLIENT_OPTIONS,
    {"lease", 'l', "DURATION", "how long from now; without it as long as at first",
     OPTION_DURATION},
};

static const struct option release_options[] = {
    CLIENT_OPTIONS,
    {"reason", 0, "TEXT", "why", OPTION_TEXT},
    {"delay", 'd', "DURATION", "not before so much time has passed", OPTION_DURATION},
    {"run_at", 0, "TIME", "not before then (RFC 3339)", OPTION_TEXT},
};

static const struct option jobs_options[] = {
    CLIENT_OPTIONS,
    {"queue", 'q', "QUEUE", "of this queue", OPTION_TEXT},
    {"state", 0, "LIST", "in these states: ready,dead", OPTION_TEXT},
    {"group", 'g', "NAME", "of this group", OPTION_TEXT},
    {"unique", 'u', "KEY", "of this unique key", OPTION_TEXT},
    {"correlation_id", 0, "ID", "of this correlation id", OPTION_TEXT},
    {"limit", 'n', "N", "jobs at most a page (50)", OPTION_NUMBER},
    {"newest", 0, NULL, "newest first", OPTION_FLAG},
    {"cursor", 0, "CURSOR", "go on where a page ended", OPTION_TEXT},
    {"all", 'a', NULL, "every page, not only the first", OPTION_FLAG},
};

#define FILTER_OPTIONS(states)                                                                     \
    {"queue", 'q', "QUEUE", "jobs of this queue", OPTION_TEXT},                                    \
        {"state", 0, "LIST", "with --queue: " states, OPTION_TEXT},                                \
        {"group", 'g', "NAME", "with --queue: only jobs of this group", OPTION_TEXT},              \
        {"dry_run", 0, NULL, "with --queue: print how many jobs match, and change nothing",        \
         OPTION_FLAG},                                                                             \
        CLIENT_YES_OPTION

static const struct option cancel_options[] = {
    CLIENT_OPTIONS,
    FILTER_OPTIONS("jobs in these states; required"),
};

static const struct option requeue_options[] = {
    CLIENT_OPTIONS,
    FILTER_OPTIONS("jobs in these states (dead)"),
    {"delay", 'd', "DURATION", "with an ID: the job is ready after this time", OPTION_DURATION},
};

static const struct option stats_options[] = {
    CLIENT_OPTIONS,
    {"group", 'g', "NAME", "with QUEUE: only jobs of this group", OPTION_TEXT},
    {"watch", 'w', NULL, "repeat every second until interrupted", OPTION_FLAG},
};

static const struct option export_options[] = {
    CLIENT_OPTIONS,
    {"data", 0, "DIR", "read the store in DIR, which no server uses, instead of a server's",
     OPTION_DIR},
    {"output", 'o', "FILE", "write to FILE, which appears when it is whole", OPTION_FILE},
    {"force", 'f', NULL, "replace FILE if it is there", OPTION_FLAG},
    {"queue", 'q', "QUEUE", "only this queue; may be repeated", OPTION_LIST},
    {"state", 0, "LIST", "only jobs in these states (scheduled,ready,running,dead)", OPTION_TEXT},
    {"all", 'a', NULL, "also jobs that are done or cancelled", OPTION_FLAG},
};

static const struct option import_options[] = {
    CLIENT_OPTIONS,
    {"update_queues", 0, NULL, "give queues that exist the policy of the export", OPTION_FLAG},
    {"nomarr", 0, "FILE", "read Nomarr's SQLite database instead of an export", OPTION_FILE},
};

static const struct option events_options[] = {
    CLIENT_OPTIONS,
    {"queue", 'q', "QUEUE", "of this queue", OPTION_TEXT},
    {"events", 0, "LIST", "only these events: dead,done", OPTION_TEXT},
    {"after", 0, "ID", "first those behind this event", OPTION_TEXT},
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
    {"batch", 'b', "N", "jobs a request (1)", OPTION_NUMBER},
    {"pipeline", 0, "N", "requests under way on each connection (1)", OPTION_NUMBER},
    {"payload", 0, "SIZE", "bytes of each payload (200)", OPTION_SIZE},
    {"priorities", 0, "N", "different priorities (1)", OPTION_NUMBER},
    {"delay_ms", 0, "DURATION", "delay of each job (0)", OPTION_DURATION},
    {"backlog", 0, "N", "jobs to enqueue first, not measured (0)", OPTION_NUMBER},
    {"duration", 0, "DURATION", "how long (10s)", OPTION_DURATION},
    {"jobs", 'n', "N", "so many jobs instead of a duration; healthz: requests", OPTION_NUMBER},
    {"queue", 'q', "QUEUE", "an own queue, which is kept; otherwise bench-RANDOM, deleted after",
     OPTION_TEXT},
    {"server_pid", 0, "PID", "measure the processor time of this server per job", OPTION_NUMBER},
    {"fsync_dir", 0, "DIR", "measure fdatasync in DIR for a second first", OPTION_DIR},
};

const struct command client_commands[] = {
    {"queues", "[[create|set|delete|pause|resume|purge] QUEUE]", "show or change queues",
     "Without arguments, lists all queues; with QUEUE alone, shows that queue. The actions:\n"
     "  create   create the queue; refused if it exists\n"
     "  set      change the settings that the options name; the others stay\n"
     "  delete   delete the queue and all its jobs\n"
     "  pause    hand out no jobs until `resume`, or until --until, or as long as --for\n"
     "  resume   hand out jobs again\n"
     "  purge    remove the jobs that are ready or scheduled\n"
     "The options from --description on are the settings of the queue. Durations: 500 (ms), 30s, "
     "24h.\n" ASKS("delete and purge show", "ask") EXIT_STATUS "\n",
     COMMAND_OPTIONS(queues_options), 0, 2, client_queues},
    {"schedules", "[[create|set|delete|pause|resume|run|preview] NAME]", "show or change schedules",
     "Without arguments, lists all schedules; with NAME alone, shows that schedule. The actions:\n"
     "  create   create the schedule; refused if it exists\n"
     "  set      change the settings that the options name; the others stay\n"
     "  delete   delete the schedule; its jobs stay. On a terminal it asks, unless --yes is given\n"
     "  pause    enqueue nothing until `resume`\n"
     "  resume   enqueue again; the times that passed meanwhile are not made up for\n"
     "  run      enqueue a job now, in addition\n"
     "  preview  show the next times; without NAME, those of a schedule with these options\n"
     "One of --cron, --every and --source-queue says when a job is due; the options from "
     "--payload\n"
     "on describe the job. Durations: 500 (ms), 30s, 24h.\n" EXIT_STATUS "\n",
     COMMAND_OPTIONS(schedules_options), 0, 2, client_schedules},
    {"kv", "get|set|delete|list [KEY] [VALUE]", "keys of the key-value store",
     "  get KEY         print its value\n"
     "  set KEY VALUE   set it; VALUE is JSON (`-` reads it from standard input, `@FILE` from a "
     "file)\n"
     "  delete KEY      delete it; one that is not there is no error\n"
     "  list [PREFIX]   the keys that begin with PREFIX, in their order\n"
     "A key is a text, or a JSON array of parts: '[\"user\",7]'.\n" EXIT_STATUS "\n",
     COMMAND_OPTIONS(kv_options), 1, 3, client_kv},
    {"alerts", "[[delete] NAME]", "show alert rules and what they have raised",
     "Without arguments, lists all rules; with NAME alone, shows that rule. `delete` deletes the\n"
     "rule and its notices; on a terminal it asks, unless --yes is given. A rule is created with\n"
     "PUT /v1/alerts/NAME.\n" EXIT_STATUS "\n",
     COMMAND_OPTIONS(alerts_options), 0, 2, client_alerts},
    {"enqueue", "QUEUE [PAYLOAD]", "enqueue a job, or one for each line of input",
     "PAYLOAD is JSON, `-` for standard input, or `@FILE` for a file; `null` is a job without\n"
     "data. With --raw the payload is bytes, and with --ndjson each line of the input is a job\n"
     "object ({\"payload\":…,\"priority\":…}); both read standard input if PAYLOAD is left out.\n"
     "Without them PAYLOAD is required.\n" EXIT_STATUS "\n",
     COMMAND_OPTIONS(enqueue_options), 1, 2, client_enqueue},
    {"claim", "QUEUE...", "claim jobs",
     "Prints each claimed job with the lease token that ack, fail, extend and release "
     "want.\n" EXIT_STATUS "\n4 there was no job.\n",
     COMMAND_OPTIONS(claim_options), 1, COMMAND_WORDS_ANY, client_claim},
    {"ack", "ID TOKEN [RESULT]", "say that a claimed job is done",
     "RESULT is JSON (`-` reads it from standard input, `@FILE` from a file) and is kept with the\n"
     "job.\n" EXIT_STATUS "\n",
     COMMAND_OPTIONS(ack_options), 2, 3, client_ack},
    {"fail", "ID TOKEN", "say that a claimed job failed",
     "The job is tried again after its back-off, or is dead after its last attempt.\n" EXIT_STATUS
     "\n",
     COMMAND_OPTIONS(fail_options), 2, 2, client_fail},
    {"extend", "ID TOKEN", "hold a claimed job longer",
     "Prints until when the claim now holds.\n" EXIT_STATUS "\n", COMMAND_OPTIONS(extend_options),
     2, 2, client_extend},
    {"release", "ID TOKEN", "give a claimed job back, uncounted",
     "The attempt does not count.\n" EXIT_STATUS "\n", COMMAND_OPTIONS(release_options), 2, 2,
     client_release},
    {"jobs", "[ID]", "list jobs, or show one",
     "With ID, everything about one job and its attempts; payloads are shortened (--json has them\n"
     "whole).\n" EXIT_STATUS "\n",
     COMMAND_OPTIONS(jobs_options), 0, 1, client_jobs},
    {"requeue", "[ID...]", "make dead, cancelled or scheduled jobs ready again",
     "Give the IDs of the jobs, or a queue with --queue: then its dead jobs, or those in the "
     "states\n"
     "of --state (scheduled, dead, cancelled), become ready.\n" ASKS("--queue shows", "asks")
         EXIT_STATUS "\n",
     COMMAND_OPTIONS(requeue_options), 0, COMMAND_WORDS_ANY, client_requeue},
    {"cancel", "[ID...]", "cancel jobs",
     "Give the IDs of the jobs, or a queue with --queue and the states of its jobs with --state\n"
     "(scheduled, ready, running). A running job is taken from its worker.\n" ASKS(
         "--queue shows", "asks") EXIT_STATUS "\n",
     COMMAND_OPTIONS(cancel_options), 0, COMMAND_WORDS_ANY, client_cancel},
    {"stats", "[QUEUE]", "figures of the server, or of one queue",
     "For the server: how many jobs wait or run, and a line for each queue. For a queue: its\n"
     "jobs by state, totals since the server started, and how long jobs waited and "
     "ran.\n" EXIT_STATUS "\n",
     COMMAND_OPTIONS(stats_options), 0, 1, client_stats},
    {"export", "", "write queues and jobs out, one JSON line each",
     "To standard output, or to the file of --output. Jobs that are done or cancelled are left "
     "out\n"
     "unless --all or --state asks for them. With --data the store of a stopped server is read,\n"
     "without changing a byte, even when it is damaged: what cannot be read is skipped and "
     "counted.\n"
     "\n"
     "Exit status: 0 everything was written, 1 refused by the server, or parts of the store could\n"
     "not be read, 2 wrong usage, or the output cannot be written or the store not be read at "
     "all,\n"
     "3 the server cannot be reached or cannot answer.\n",
     COMMAND_OPTIONS(export_options), 0, 0, client_export},
    {"import", "[FILE]", "take over the queues and jobs of an export",
     "Reads FILE or standard input. Queues that exist keep their policy unless --update-queues\n"
     "says otherwise. Jobs get new ids; each old one is taken once, so the same file can be\n"
     "imported again after an interruption. Dead jobs stay dead, running ones become ready, done\n"
     "and cancelled ones are skipped. With --nomarr the rows of its table `queue` become jobs of\n"
     "the queues webqueue.TYPE, as the API webqueue has them.\n"
     "\n"
     "Exit status: 0 all of it is there, 1 lines were refused (each is named) or the file is cut\n"
     "off, 2 wrong usage, or the file cannot be read, 3 the server cannot be reached or cannot\n"
     "answer.\n",
     COMMAND_OPTIONS(import_options), 0, 1, client_import},
    {"events", "", "follow what happens, one line an event",
     "Goes on until interrupted. A lost connection is taken up again where it ended, for half a\n"
     "minute.\n" EXIT_STATUS "\n",
     COMMAND_OPTIONS(events_options), 0, 0, client_events},
    {"backup", "DIR", "copy the server's store into DIR, while it is in use",
     "Makes DIR/holdfast.db, of one moment: everything that was confirmed when the command began "
     "is\n"
     "in it. DIR must be empty or not be there yet. The file gets its name when it is whole, "
     "synced\n"
     "and checked; `holdfast restore` makes a store of it. The server needs room on its disk for "
     "a\n"
     "second copy meanwhile.\n"
     "\n"
     "Exit status: 0 a good backup, 1 refused by the server, or what it sent is no good backup, 2\n"
     "wrong usage, 3 the server cannot be reached or could not copy its store (it is damaged, or\n"
     "the disk is full).\n",
     COMMAND_OPTIONS(backup_options), 1, 1, client_backup},
    {"compact", "", "give the room of removed jobs back to the file system",
     "The server does it in small steps while it goes on working; a quiet server does most of it "
     "by\n"
     "itself.\n" EXIT_STATUS "\n",
     COMMAND_OPTIONS(compact_options), 0, 0, client_compact},
    {"bench", "", "load a server and measure it",
     "Modes: enqueue (a request is --batch jobs), cycle (enqueue, claim, ack), claim (claim and\n"
     "ack what is there), healthz (requests that touch no store), mixed (producers and consumers\n"
     "side by side). Every answer is checked; any error makes the exit status 1.\n" EXIT_STATUS
     "\n",
     COMMAND_OPTIONS(bench_options), 0, 0, bench_command},
};

const size_t client_command_count = CLIENT_COUNT(client_commands);
