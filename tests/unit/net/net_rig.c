/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/net/net_rig.h"

static struct line_conn *line_of(const struct net_conn *n)
{
    return LINK_OWNER(n, struct line_conn, net);
}

static struct net_rig *rig_of(const struct net_conn *n)
{
    return LINK_OWNER(n->server, struct net_rig, net);
}

/* ---- the protocol ---- */

static void reply(struct line_conn *c, struct span text)
{
    assert_int_equal(buf_append_span(&c->out, text), 0);
    c->net.out_bytes += text.len;
    net_conn_schedule(&c->net);
}

static void size_reply(struct line_conn *c, struct span line)
{
    size_t n = strtoul(line.at + 5, NULL, 10);
    char *bytes = malloc(n);
    assert_non_null(bytes);
    memset(bytes, 'x', n);
    reply(c, span_of(bytes, n));
    free(bytes);
}

static void line_run(struct line_conn *c, struct span line)
{
    rig_of(&c->net)->lines++;
    if (span_equal(line, SPAN_LITERAL("hold\n"))) {
        rig_of(&c->net)->holds++;
        c->held = true;
    } else if (span_equal(line, SPAN_LITERAL("close\n"))) {
        net_conn_close(&c->net);
    } else if (line.len > 5 && memcmp(line.at, "size ", 5) == 0) {
        size_reply(c, line);
    } else {
        bool end = span_equal(line, SPAN_LITERAL("end\n"));
        c->net.no_more = c->net.linger = c->net.no_more || end;
        reply(c, line);
    }
}

static bool wants_input(const struct net_conn *n)
{
    return !n->no_more && !line_of(n)->held && !net_conn_full(n);
}

static size_t input(struct net_conn *n, struct span in)
{
    size_t done = 0;
    assert_false(n->no_more || n->closed);
    while (!n->closed && wants_input(n)) {
        const char *end = memchr(in.at + done, '\n', in.len - done);
        if (!end)
            break;
        size_t len = (size_t)(end - in.at) + 1 - done;
        line_run(line_of(n), span_of(in.at + done, len));
        done += len;
    }
    return n->no_more ? in.len : done;
}

static void opened(struct net_conn *n)
{
    rig_of(n)->opened++;
    assert_true(n->peer_len > 0);
}

static void refused(struct net_conn *n)
{
    rig_of(n)->refused++;
    reply(line_of(n), SPAN_LITERAL("full\n"));
}

static void no_room(struct net_conn *n, size_t len)
{
    assert_true(len > n->in.len);
    rig_of(n)->no_room++;
    n->no_more = n->linger = true;
    reply(line_of(n), SPAN_LITERAL("memory\n"));
}

static void input_ended(struct net_conn *n)
{
    assert_true(n->eof);
    rig_of(n)->ended++;
    net_conn_schedule(n);
}

static void hung_up(struct net_conn *n)
{
    rig_of(n)->hung_up++;
}

static void settle(struct net_conn *n)
{
    if (n->eof || !wants_input(n))
        net_wait_stop(n);
    else
        net_wait_ensure(n, n->in.len > 0 ? LINE_WAIT : IDLE_WAIT);
}

static void late(struct net_conn *n, unsigned kind)
{
    rig_of(n)->late[kind - LINE_WAIT]++;
    n->no_more = true;
    net_conn_input_free(n);
    reply(line_of(n), SPAN_LITERAL("late\n"));
}

static bool may_shed(const struct net_conn *n)
{
    return n->blocked || n->in.len > 0;
}

static enum budget_shed shed(void *ctx)
{
    struct net_conn *n = ctx;
    rig_of(n)->shed++;
    net_conn_close(n);
    return BUDGET_SHED_BODY;
}

static void gather(struct net_conn *n, struct net_pieces *p)
{
    struct line_conn *c = line_of(n);
    for (size_t at = c->done; at < c->out.len && p->count < NET_WRITE_PIECES; at += 1000)
        net_piece_add(p, c->out.data + at, c->out.len - at < 1000 ? c->out.len - at : 1000);
}

static void sent(struct net_conn *n, size_t len)
{
    struct line_conn *c = line_of(n);
    c->done += len;
    n->out_bytes -= len;
    assert_true(c->done <= c->out.len);
    if (c->done < c->out.len)
        return;
    buf_done(&c->out);
    c->done = 0;
}

static bool at_rest(const struct net_conn *n)
{
    const struct line_conn *c = line_of(n);
    return !c->held && c->out.len == 0 && n->in.len == 0 && !n->lingering;
}

static bool flushed(struct net_conn *n)
{
    struct line_conn *c = line_of(n);
    if (wants_input(n))
        net_conn_resume(n);
    if (n->closed)
        return false;
    bool over = n->no_more || n->eof || n->server->draining;
    return over && !c->held && c->out.len == 0;
}

static void closed(struct net_conn *n)
{
    assert_true(n->closed);
    rig_of(n)->closed++;
    buf_done(&line_of(n)->out);
}

static void iteration(struct net_server *s)
{
    LINK_OWNER(s, struct net_rig, net)->iterations++;
}

static bool tick(struct net_server *s)
{
    struct net_rig *r = LINK_OWNER(s, struct net_rig, net);
    r->ticks++;
    return r->tick_more;
}

static void server_ended(struct net_server *s)
{
    struct net_rig *r = LINK_OWNER(s, struct net_rig, net);
    r->under_way_at_end = s->under_way;
    r->server_ended++;
}

static const struct span plain_reply = SPAN_LITERAL("plain\n");
const struct net_schemes line_schemes = {"lines://", "liness://", "lines+unix:"};

static const struct net_protocol lines = {
    .conn_bytes = sizeof(struct line_conn),
    .schemes = &line_schemes,
    .alpn = "test",
    .plain_reply = &plain_reply,
    .rest_may_end = true,
    .input_kind = BUDGET_BODIES,
    .opened = opened,
    .refused = refused,
    .input = input,
    .no_room = no_room,
    .input_ended = input_ended,
    .hung_up = hung_up,
    .wants_input = wants_input,
    .settle = settle,
    .late = late,
    .may_shed = may_shed,
    .shed = shed,
    .gather = gather,
    .sent = sent,
    .flushed = flushed,
    .at_rest = at_rest,
    .closed = closed,
    .iteration = iteration,
    .tick = tick,
    .ended = server_ended,
};

/* ---- the rig ---- */

void net_rig_init(struct net_rig *r)
{
    memset(r, 0, sizeof *r);
    assert_int_equal(uv_loop_init(&r->loop), 0);
    net_config_default(&r->config);
    r->config.loop = &r->loop;
    r->config.stream = stream_under_test(&r->config.stream_ctx);
    r->line_ms = r->idle_ms = 60000;
}

void net_rig_start(struct net_rig *r)
{
    struct err_note note = {""};
    net_server_init(&r->net, &r->config, &lines);
    r->net.wait_ms[LINE_WAIT] = r->line_ms;
    r->net.wait_ms[IDLE_WAIT] = r->idle_ms;
    if (net_listen(&r->net, "127.0.0.1:0", &note) != 0)
        fail_msg("%s", note.text);
}

static void count_cb(void *ctx)
{
    ++*(unsigned *)ctx;
}

void net_rig_done(struct net_rig *r)
{
    net_close(&r->net, count_cb, &r->server_closed);
    NET_UNTIL(r, r->server_closed == 1);
    assert_int_equal(r->server_ended, 1);
    assert_int_equal(r->under_way_at_end, 0);
    assert_int_equal(r->opened, r->closed);
    assert_int_equal(uv_run(&r->loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(uv_loop_close(&r->loop), 0);
}

void net_rig_release(struct net_rig *r)
{
    for (struct link *l = r->net.connections.next; l != &r->net.connections; l = l->next) {
        struct line_conn *c = line_of(LINK_OWNER(l, struct net_conn, all));
        if (!c->held)
            continue;
        c->held = false;
        reply(c, SPAN_LITERAL("held\n"));
    }
}

void net_rig_client(struct net_rig *r, struct client *c)
{
    net_client_open(c, net_address(&r->net, 0));
}

void net_rig_send(struct net_rig *r, struct client *c, const char *text)
{
    client_send(&r->loop, c, text, strlen(text));
}

void net_rig_start_with(struct net_rig *r, struct client *c)
{
    net_rig_start(r);
    net_rig_client(r, c);
}

void net_rig_begin(struct net_rig *r, struct client *c)
{
    net_rig_init(r);
    net_rig_start_with(r, c);
}

void net_rig_end(struct net_rig *r, struct client *c)
{
    net_client_close(c);
    net_rig_done(r);
}

void net_rig_hold(struct net_rig *r, struct client *c)
{
    net_rig_send(r, c, "hold\n");
    NET_UNTIL(r, r->holds == 1);
}
