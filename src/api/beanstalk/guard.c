/* SPDX-License-Identifier: Apache-2.0 */
/* Clients that must not be served: those that use another protocol, and those that begin a
 * command and do not complete it.
 *
 * The first line of a connection decides its protocol (bs_protocol). Connections that use HTTP
 * or a binary protocol are closed without a reply. An unknown command on the first line gets
 * beanstalkd's reply, and then the connection is closed as well: no client of beanstalkd begins
 * with an unknown command, and nothing after the first line of another text protocol may be
 * executed. The same holds for a known command that is BAD_FORMAT ("use rtsp://x RTSP/1.0"). A
 * client of beanstalkd sends a malformed command only if its user gives it an invalid tube name
 * or number. If that is the very first command of a connection, the client gets its reply and
 * has to connect again for the next command. This is rare, and in return no line of another
 * protocol is tried as a command. Later malformed commands are answered, and the connection
 * stays open.
 *
 * A line must be complete within line_ms. Within body_ms a body must be complete, or
 * PART_PROGRESS_BYTES of it must have arrived, so that a large put over a slow link is not
 * aborted. Time counts only while the server reads from the connection. There is no limit
 * between commands. */
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

/* Logged at most once a minute, and without any bytes that the client sent. */
static void foreign_log(struct beanstalk *b, enum bs_protocol protocol)
{
    uint64_t now = net_now(&b->net);
    b->foreign[protocol]++;
    if (b->foreign_logged_ms && now - b->foreign_logged_ms < FOREIGN_LOG_MS)
        return;
    b->foreign_logged_ms = now ? now : 1;
    log_event(b->net.config.log, LOG_WARN, "beanstalk_cross_protocol",
              LOG_TEXT("protocol", protocol_names[protocol]),
              LOG_TEXT("next",
                       "the server disconnected a client that does not use beanstalkd's "
                       "protocol, and executed nothing of its input; a web page may have made a "
                       "browser connect to this port, or a program uses the wrong port"));
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
        net_conn_close(&c->net);
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
    struct net_conn *n = &c->net;
    if (part == BS_PART_NONE) {
        net_wait_stop(n);
        return;
    }
    unsigned kind = part == BS_PART_LINE ? BS_WAIT_LINE : BS_WAIT_BODY;
    bool progress = part == BS_PART_BODY && n->bytes_in - c->part_from >= PART_PROGRESS_BYTES;
    if (net_wait_is(n, kind) && !progress)
        return;
    c->part_from = n->bytes_in;
    net_wait_start(n, kind);
}

/* Commands under way are still answered. */
void guard_late(struct net_conn *n, unsigned kind)
{
    (void)kind;
    conn_of(n)->api->incomplete++;
    n->no_more = true;
    net_conn_input_free(n);
    net_conn_schedule(n);
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
