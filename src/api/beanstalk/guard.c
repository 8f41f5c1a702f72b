/* SPDX-License-Identifier: Apache-2.0 */
/* Clients that must not be served: those that speak another protocol, and those that begin a
 * command and do not finish it.
 *
 * The first line of a connection decides its protocol (bs_protocol). HTTP and binary protocols are
 * closed without an answer. An unknown command on the first line gets beanstalkd's answer, and then
 * the connection is closed, too: no client of beanstalkd begins with one, and whatever other text
 * protocol this is, nothing behind its first line may be run. The same holds for a known command
 * that is BAD_FORMAT ("use rtsp://x RTSP/1.0"). A client of beanstalkd sends a malformed command
 * only if it is given a tube name or a number that is none; if that is the very first command of
 * a connection, the client gets its answer and has to connect again for the next one. This is rare,
 * and in return no line of another protocol is tried as a command. Later malformed commands are
 * answered, and the connection goes on.
 *
 * A line must be complete within line_ms. Within body_ms a body must be complete or
 * PART_PROGRESS_BYTES of it must have come, so that a large put over a slow link is not cut off.
 * Time counts only while the server is willing to read. There is no limit between commands. */
#include "api/beanstalk/impl.h"
#include "api/v1/server/metrics.h"

#define PART_PROGRESS_BYTES ((uint64_t)64 << 10)
#define FOREIGN_LOG_MS 60000

static const char *const protocol_names[BS_PROTOCOL_COUNT] = {
    [BS_PROTOCOL_HTTP] = "http",
    [BS_PROTOCOL_BINARY] = "binary",
    [BS_PROTOCOL_UNKNOWN] = "unknown",
};

/* ---- other protocols ---- */

/* At most once a minute, and nothing of what the client sent. */
static void foreign_log(struct beanstalk *b, enum bs_protocol protocol)
{
    uint64_t now = uv_now(b->config.loop);
    b->foreign[protocol]++;
    if (b->foreign_logged_ms && now - b->foreign_logged_ms < FOREIGN_LOG_MS)
        return;
    b->foreign_logged_ms = now ? now : 1;
    log_event(b->config.log, LOG_WARN, "beanstalk_cross_protocol",
              LOG_TEXT("protocol", protocol_names[protocol]),
              LOG_TEXT("help", "a client that does not speak beanstalkd's protocol was "
                               "disconnected and nothing it sent was run; a web page may have made "
                               "a browser connect here, or a program uses the wrong port"));
}

bool guard_first_line(struct conn *c, struct span in)
{
    enum bs_protocol protocol = bs_protocol(in);
    if (protocol == BS_PROTOCOL_OPEN)
        return false;
    c->begun = true;
    if (protocol == BS_PROTOCOL_BEANSTALK)
        return true;
    foreign_log(c->api, protocol);
    c->only_line = protocol == BS_PROTOCOL_UNKNOWN;
    if (!c->only_line)
        conn_close(c);
    return c->only_line;
}

void guard_bad_first(struct conn *c)
{
    if (!c->only_line) /* an unknown command has been counted */
        foreign_log(c->api, BS_PROTOCOL_UNKNOWN);
    c->only_line = true;
}

/* ---- incomplete commands ---- */

void guard_part(struct conn *c, enum bs_part part)
{
    struct beanstalk *b = c->api;
    bool waits = !link_alone(&c->part.link) && c->part.kind == part;
    bool progress = part == BS_PART_BODY && c->part.bytes >= PART_PROGRESS_BYTES;
    if (waits && !progress)
        return;
    link_remove(&c->part.link);
    if (part == BS_PART_NONE)
        return;
    uint32_t limit_ms = part == BS_PART_LINE ? b->config.line_ms : b->config.body_ms;
    c->part.kind = part;
    c->part.bytes = 0;
    c->part.deadline = uv_now(b->config.loop) + limit_ms;
    link_append(&b->parts[part], &c->part.link);
}

/* Commands under way are still answered. */
static void part_late(struct conn *c)
{
    link_remove(&c->part.link);
    c->api->incomplete++;
    c->no_more = true;
    conn_input_free(c);
    conn_dirty(c);
}

/* Each kind has one limit, so each list is in the order of deadlines. */
void guard_expire(struct beanstalk *b)
{
    uint64_t now = uv_now(b->config.loop);
    for (int kind = BS_PART_LINE; kind < BS_PART_COUNT; kind++)
        while (!link_alone(&b->parts[kind])) {
            struct conn *c = LINK_OWNER(b->parts[kind].next, struct conn, part.link);
            if (c->part.deadline > now)
                break;
            part_late(c);
        }
}

/* ---- figures ---- */

enum { FAMILY_FOREIGN, FAMILY_INCOMPLETE, FAMILY_COUNT };
static const struct metric families[FAMILY_COUNT] = {
    [FAMILY_FOREIGN] = {"holdfast_beanstalk_cross_protocol_total", "counter", "protocol",
                        "Beanstalk connections closed because the first line was HTTP, binary "
                        "(TLS), unknown or malformed."},
    [FAMILY_INCOMPLETE] = {"holdfast_beanstalk_incomplete_total", "counter", NULL,
                           "Beanstalk connections closed because a command was not complete in "
                           "time."},
};

void beanstalk_metrics_reference(FILE *out)
{
    metric_reference(out, families, FAMILY_COUNT);
}

void beanstalk_metrics(const struct beanstalk *b, struct metrics *m)
{
    char label[32];
    metric_family(m, &families[FAMILY_FOREIGN]);
    for (int i = BS_PROTOCOL_HTTP; i < BS_PROTOCOL_COUNT; i++) {
        metric_label(label, "protocol", span_text(protocol_names[i]));
        metric_count(m, &families[FAMILY_FOREIGN], label, b->foreign[i]);
    }
    metric_family(m, &families[FAMILY_INCOMPLETE]);
    metric_count(m, &families[FAMILY_INCOMPLETE], NULL, b->incomplete);
}
