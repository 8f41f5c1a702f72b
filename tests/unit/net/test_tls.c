/* SPDX-License-Identifier: Apache-2.0 */
/* TLS of the network layer, beyond what the tests with RUN_OVER_STREAMS show. */
#include <openssl/pem.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "unit/net/net_rig.h"
#include "unit/net/tls_client.h"
#include "unit/net/tls_files.h"

struct tls_rig {
    struct net_rig net;
    struct tls_files files;
    struct net_tls *tls;
};

static void tls_rig_init(struct tls_rig *t, const char *client_ca)
{
    struct err_note note = {""};
    tls_files_make(&t->files);
    t->files.files.client_ca = client_ca;
    assert_int_equal(net_tls_new(&t->files.files, NULL, &t->tls, &note), 0);
    net_rig_init(&t->net);
    t->net.config.tls = t->tls;
}

/* Listener 0 is plain, listener 1 has TLS. */
static void tls_rig_start(struct tls_rig *t)
{
    struct err_note note = {""};
    net_rig_start(&t->net);
    assert_int_equal(net_listen(&t->net.net, "liness://127.0.0.1:0", &note), 0);
}

static void tls_rig_done(struct tls_rig *t)
{
    net_rig_done(&t->net);
    net_tls_free(t->tls);
    tls_files_remove(&t->files);
}

static void plain_open(struct tls_rig *t, struct client *c)
{
    net_client_open(c, net_address(&t->net.net, 1));
}

static void tls_open(struct tls_rig *t, struct client *c)
{
    plain_open(t, c);
    c->tls = tls_client_open(c->fd);
}

static uint64_t handshakes(const struct tls_rig *t, enum net_tls_result result)
{
    struct net_tls_figures f;
    net_tls_figures(t->tls, &f);
    return f.handshakes[result];
}

static void line_back(struct tls_rig *t, struct client *c)
{
    net_rig_send(&t->net, c, "one\n");
    client_until(&t->net.loop, c, "one\n");
}

/* ---- listeners ---- */

static void both_kinds_of_listeners(void **state)
{
    (void)state;
    struct tls_rig t;
    struct client plain, tls;
    tls_rig_init(&t, "");
    tls_rig_start(&t);
    assert_memory_equal(net_address(&t.net.net, 0), "lines://127.0.0.1:", 18);
    assert_memory_equal(net_address(&t.net.net, 1), "liness://127.0.0.1:", 19);
    net_rig_client(&t.net, &plain);
    tls_open(&t, &tls);
    line_back(&t, &plain);
    line_back(&t, &tls);
    assert_int_equal(handshakes(&t, NET_TLS_FULL), 1);
    net_client_close(&plain);
    net_client_close(&tls);
    tls_rig_done(&t);
}

static void no_certificate(void **state)
{
    (void)state;
    struct net_rig r;
    struct err_note note = {""};
    net_rig_init(&r);
    net_rig_start(&r);
    assert_int_equal(net_listen(&r.net, "liness://127.0.0.1:0", &note), -ERR_INVALID);
    assert_non_null(strstr(note.text, "certificate"));
    net_rig_done(&r);
}

/* The end of TCP without close_notify is an end of the input, too. */
static void end_without_notice(void **state)
{
    (void)state;
    struct tls_rig t;
    struct client c;
    tls_rig_init(&t, "");
    tls_rig_start(&t);
    tls_open(&t, &c);
    net_rig_hold(&t.net, &c);
    assert_int_equal(shutdown(c.fd, SHUT_WR), 0);
    NET_UNTIL(&t.net, t.net.hung_up == 1);
    net_rig_release(&t.net);
    client_until_eof(&t.net.loop, &c);
    assert_string_equal(c.data, "held\n");
    net_client_close(&c);
    tls_rig_done(&t);
}

/* ---- handshakes that do not come to an end ---- */

static void silent_client(void **state)
{
    (void)state;
    struct tls_rig t;
    struct client c;
    tls_rig_init(&t, "");
    t.net.config.handshake_ms = 40;
    tls_rig_start(&t);
    plain_open(&t, &c);
    client_until_eof(&t.net.loop, &c);
    NET_UNTIL(&t.net, t.net.closed == 1);
    assert_int_equal(handshakes(&t, NET_TLS_UNFINISHED), 1);
    assert_true(t.net.late[0] == 0 && t.net.late[1] == 0); /* the protocol heard nothing of it */
    net_client_close(&c);
    tls_rig_done(&t);
}

/* Bytes now and then do not extend the time. */
static void slow_handshake(void **state)
{
    (void)state;
    static const char hello[] = "\x16\x03\x01\x02\x00";
    struct tls_rig t;
    struct client c;
    tls_rig_init(&t, "");
    t.net.config.handshake_ms = 60;
    tls_rig_start(&t);
    plain_open(&t, &c);
    for (unsigned sent = 0; sent < 5; sent++) {
        unsigned ticks = t.net.ticks;
        (void)client_try_send(&c, hello + sent, 1);
        NET_UNTIL(&t.net, t.net.ticks > ticks || t.net.closed == 1);
    }
    client_until_eof(&t.net.loop, &c);
    NET_UNTIL(&t.net, t.net.closed == 1);
    assert_int_equal(handshakes(&t, NET_TLS_UNFINISHED), 1);
    net_client_close(&c);
    tls_rig_done(&t);
}

/* Stalled handshakes hold memory, but others that need it get it. */
static void stalled_handshakes_are_shed(void **state)
{
    (void)state;
    enum { STALLED = 10 };
    struct tls_rig t;
    struct budget b;
    struct budget_account other;
    struct client stalled[STALLED], works;
    tls_rig_init(&t, "");
    budget_init(&b, 1 << 20);
    budget_open(&other, &b, NULL, NULL, 0);
    t.net.config.budget = &b;
    tls_rig_start(&t);
    tls_open(&t, &works);
    line_back(&t, &works);
    uint64_t ready = b.figures.by_kind[BUDGET_TLS];
    for (size_t i = 0; i < STALLED; i++) {
        plain_open(&t, &stalled[i]);
        NET_UNTIL(&t.net, t.net.opened == i + 2);
    }
    assert_true(b.figures.by_kind[BUDGET_TLS] > ready + STALLED * UINT64_C(40000));
    uint64_t later = uv_now(&t.net.loop) + 2 * BUDGET_IDLE_MS;
    assert_true(budget_take(&other, BUDGET_BODIES, b.large_limit - 200000, later));
    assert_true(b.figures.shed[BUDGET_SHED_IDLE] >= STALLED / 2);
    budget_give(&other, BUDGET_BODIES, other.held);
    budget_close(&other);
    for (size_t i = 0; i < STALLED; i++)
        net_client_close(&stalled[i]);
    net_client_close(&works);
    NET_UNTIL(&t.net, b.figures.held == 0);
    tls_rig_done(&t);
}

static void client_leaves_in_the_handshake(void **state)
{
    (void)state;
    struct tls_rig t;
    struct client c;
    tls_rig_init(&t, "");
    tls_rig_start(&t);
    for (int i = 0; i < 20; i++) {
        tls_open(&t, &c);
        if (i % 2)
            client_poll(&c); /* sends its first message */
        NET_UNTIL(&t.net, t.net.opened == (unsigned)i + 1);
        if (i % 4 < 2)
            client_reset(&c);
        else
            net_client_close(&c);
        NET_UNTIL(&t.net, t.net.net.figures.connections == 0);
    }
    assert_int_equal(handshakes(&t, NET_TLS_UNFINISHED), 20);
    tls_rig_done(&t);
}

/* ---- clients that are refused ---- */

static void other_protocol(void **state)
{
    (void)state;
    struct tls_rig t;
    struct client c;
    tls_rig_init(&t, "");
    tls_rig_start(&t);
    plain_open(&t, &c);
    net_rig_send(&t.net, &c, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    client_until_eof(&t.net.loop, &c);
    assert_string_equal(c.data, "plain\n");
    assert_int_equal(handshakes(&t, NET_TLS_PLAIN), 1);
    net_client_close(&c);
    plain_open(&t, &c);
    net_rig_send(&t.net, &c, "put 0 0 0 1\r\n1\r\n");
    client_until_eof(&t.net.loop, &c);
    NET_UNTIL(&t.net, handshakes(&t, NET_TLS_INVALID) == 1);
    net_client_close(&c);
    assert_int_equal(t.net.lines, 0);
    tls_rig_done(&t);
}

static void client_fails(struct tls_rig *t, struct client *c, enum net_tls_result result)
{
    uint64_t before = handshakes(t, result);
    net_rig_send(&t->net, c, "one\n");
    client_until_eof(&t->net.loop, c);
    assert_int_equal(c->len, 0);
    assert_int_equal(handshakes(t, result), before + 1);
    assert_int_equal(t->net.lines, 0);
    net_client_close(c);
}

static void no_common_protocol(void **state)
{
    (void)state;
    struct tls_rig t;
    struct client c;
    tls_rig_init(&t, "");
    tls_rig_start(&t);
    tls_open(&t, &c);
    SSL_set_security_level(c.tls, 0);
    SSL_set_max_proto_version(c.tls, TLS1_1_VERSION);
    client_fails(&t, &c, NET_TLS_INCOMPATIBLE);
    tls_open(&t, &c);
    SSL_set_max_proto_version(c.tls, TLS1_2_VERSION);
    SSL_set_cipher_list(c.tls, "AES128-SHA:ECDHE-ECDSA-AES128-SHA256");
    client_fails(&t, &c, NET_TLS_INCOMPATIBLE);
    tls_open(&t, &c);
    assert_int_equal(SSL_set_alpn_protos(c.tls, (const unsigned char *)"\x02h2", 3), 0);
    client_fails(&t, &c, NET_TLS_INCOMPATIBLE);
    tls_open(&t, &c);
    assert_int_equal(SSL_set_alpn_protos(c.tls, (const unsigned char *)"\x02h2\x04test", 8), 0);
    line_back(&t, &c);
    net_client_close(&c);
    tls_rig_done(&t);
}

/* ---- client certificates ---- */

static void certificate_use(struct client *c, const struct tls_files *f)
{
    assert_int_equal(SSL_use_certificate_file(c->tls, f->cert, SSL_FILETYPE_PEM), 1);
    assert_int_equal(SSL_use_PrivateKey_file(c->tls, f->key, SSL_FILETYPE_PEM), 1);
}

static void names_of_the_client(void **state)
{
    (void)state;
    struct tls_rig t;
    struct tls_files own;
    struct client c;
    tls_files_make(&own);
    tls_rig_init(&t, own.cert);
    tls_rig_start(&t);
    tls_open(&t, &c);
    certificate_use(&c, &own);
    line_back(&t, &c);
    const struct net_conn *n = LINK_OWNER(t.net.net.connections.next, const struct net_conn, all);
    const struct net_client *client = n->stream.client;
    assert_non_null(client);
    assert_int_equal(client->count, 2);
    assert_true(span_equal(client->names[0], SPAN_LITERAL("dns:localhost")));
    assert_true(span_equal(client->names[1], SPAN_LITERAL("ip:127.0.0.1")));
    void *room = malloc(sizeof *client + client->bytes);
    assert_non_null(room);
    const struct net_client *copy = net_client_copy(client, room);
    net_client_close(&c);
    NET_UNTIL(&t.net, t.net.closed == 1);
    assert_true(span_equal(copy->names[1], SPAN_LITERAL("ip:127.0.0.1")));
    free(room);
    tls_rig_done(&t);
    tls_files_remove(&own);
}

static void clients_without_a_valid_certificate(void **state)
{
    (void)state;
    struct tls_rig t;
    struct tls_files own, other;
    struct client c;
    tls_files_make(&own);
    tls_files_make(&other);
    tls_files_renew(&own, -7200, -3600); /* expired */
    tls_rig_init(&t, own.cert);
    tls_rig_start(&t);
    tls_open(&t, &c);
    client_fails(&t, &c, NET_TLS_CLIENT);
    tls_open(&t, &c);
    certificate_use(&c, &other);
    client_fails(&t, &c, NET_TLS_CLIENT);
    tls_open(&t, &c);
    certificate_use(&c, &own);
    client_fails(&t, &c, NET_TLS_CLIENT);
    tls_rig_done(&t);
    tls_files_remove(&own);
    tls_files_remove(&other);
}

/* ---- reload ---- */

/* Whether a new connection gets the certificate in this file. */
static bool serves(struct tls_rig *t, const char *path)
{
    struct client c;
    X509 *expected = NULL;
    FILE *in = fopen(path, "re");
    assert_non_null(in);
    expected = PEM_read_X509(in, NULL, NULL, NULL);
    fclose(in);
    tls_open(t, &c);
    line_back(t, &c);
    X509 *got = SSL_get0_peer_certificate(c.tls);
    bool same = X509_cmp(expected, got) == 0;
    X509_free(expected);
    net_client_close(&c);
    return same;
}

static void reload_fails(struct tls_rig *t, const struct net_tls_files *files, const char *why)
{
    struct err_note note = {""};
    assert_true(net_tls_reload(t->tls, files, &note) < 0);
    if (!strstr(note.text, why))
        fail_msg("expected \"%s\", got \"%s\"", why, note.text);
    assert_true(serves(t, t->files.cert));
}

static void reload_refuses_bad_files(void **state)
{
    (void)state;
    struct tls_rig t;
    struct tls_files other;
    char missing[64];
    tls_rig_init(&t, "");
    tls_rig_start(&t);
    tls_files_make(&other);
    snprintf(missing, sizeof missing, "%s/none.pem", other.folder);
    reload_fails(&t, &(struct net_tls_files){other.cert, t.files.key, ""}, t.files.key);
    reload_fails(&t, &(struct net_tls_files){missing, other.key, ""}, "No such file");
    reload_fails(&t, &(struct net_tls_files){other.key, other.key, ""}, "tls.cert");
    reload_fails(&t, &(struct net_tls_files){other.cert, other.key, missing}, "tls.client_ca");
    reload_fails(&t, &(struct net_tls_files){other.cert, other.key, other.key}, "tls.client_ca");
    tls_files_renew(&other, -7200, -3600);
    reload_fails(&t, &other.files, "expired");
    tls_files_renew(&other, 3600, 7200);
    reload_fails(&t, &other.files, "not valid yet");
    assert_int_equal(truncate(other.key, 20), 0);
    reload_fails(&t, &other.files, "tls.key");
    struct net_tls_figures f;
    net_tls_figures(t.tls, &f);
    assert_true(f.reloads == 0 && f.reloads_failed == 8);
    tls_files_remove(&other);
    tls_rig_done(&t);
}

/* Open connections go on, new ones get the new certificate. */
static void reload_replaces(void **state)
{
    (void)state;
    struct tls_rig t;
    struct client before;
    struct err_note note = {""};
    struct net_tls_figures f;
    tls_rig_init(&t, "");
    tls_rig_start(&t);
    tls_open(&t, &before);
    line_back(&t, &before);
    tls_files_renew(&t.files, -60, 100000);
    assert_int_equal(net_tls_reload(t.tls, &t.files.files, &note), 0);
    assert_true(serves(&t, t.files.cert));
    net_rig_send(&t.net, &before, "two\n");
    client_until(&t.net.loop, &before, "two\n");
    net_tls_figures(t.tls, &f);
    assert_true(f.reloads == 1 && f.not_after_s - f.not_before_s == 100060);
    net_client_close(&before);
    tls_rig_done(&t);
}

/* ---- sessions ---- */

/* The session of the first connection, offered by the second. */
static bool resumes(struct tls_rig *t, int version, bool new_keys)
{
    struct client c;
    tls_open(t, &c);
    SSL_set_max_proto_version(c.tls, version);
    line_back(t, &c);
    SSL_SESSION *session = SSL_get1_session(c.tls);
    SSL_shutdown(c.tls);
    net_client_close(&c);
    if (new_keys)
        net_tls_new_ticket_keys(t->tls);
    tls_open(t, &c);
    SSL_set_max_proto_version(c.tls, version);
    SSL_set_session(c.tls, session);
    SSL_SESSION_free(session);
    line_back(t, &c);
    bool reused = SSL_session_reused(c.tls);
    net_client_close(&c);
    return reused;
}

static void sessions(void **state)
{
    (void)state;
    struct tls_rig t;
    tls_rig_init(&t, "");
    tls_rig_start(&t);
    assert_true(resumes(&t, TLS1_3_VERSION, false));
    assert_true(resumes(&t, TLS1_2_VERSION, false));
    assert_int_equal(handshakes(&t, NET_TLS_RESUMED), 2);
    assert_false(resumes(&t, TLS1_3_VERSION, true));
    assert_false(resumes(&t, TLS1_2_VERSION, true));
    tls_rig_done(&t);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_kinds_of_listeners),
        cmocka_unit_test(no_certificate),
        cmocka_unit_test(end_without_notice),
        cmocka_unit_test(silent_client),
        cmocka_unit_test(slow_handshake),
        cmocka_unit_test(stalled_handshakes_are_shed),
        cmocka_unit_test(client_leaves_in_the_handshake),
        cmocka_unit_test(other_protocol),
        cmocka_unit_test(no_common_protocol),
        cmocka_unit_test(names_of_the_client),
        cmocka_unit_test(clients_without_a_valid_certificate),
        cmocka_unit_test(reload_refuses_bad_files),
        cmocka_unit_test(reload_replaces),
        cmocka_unit_test(sessions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
