/* SPDX-License-Identifier: Apache-2.0 */
/* What a connection with TLS is charged for is at least what OpenSSL allocates for it, and not much
 * more. */
#include <malloc.h>
#include <openssl/crypto.h>
#include <sys/socket.h>
#include <unistd.h>

#include "unit/base/support.h"
#include "unit/net/tls_client.h"
#include "unit/net/tls_files.h"

static size_t allocated;

static void *counted_malloc(size_t len, const char *file, int line)
{
    (void)file, (void)line;
    void *at = malloc(len);
    allocated += at ? malloc_usable_size(at) : 0;
    return at;
}

static void counted_free(void *at, const char *file, int line)
{
    (void)file, (void)line;
    allocated -= at ? malloc_usable_size(at) : 0;
    free(at);
}

static void *counted_realloc(void *at, size_t len, const char *file, int line)
{
    (void)file, (void)line;
    allocated -= at ? malloc_usable_size(at) : 0;
    void *moved = realloc(at, len);
    allocated += moved ? malloc_usable_size(moved) : 0;
    return moved;
}

struct pair {
    struct net_stream stream;
    SSL *client;
    int ends[2];
    bool first; /* OpenSSL also allocates what it keeps for the process */
};

/* The server's part of the handshake allocates; the client's is not counted. */
static size_t server_read(struct pair *p, ssize_t *ret)
{
    char bytes[16384];
    size_t before = allocated;
    *ret = net_stream_tls.read(&p->stream, bytes, sizeof bytes);
    return allocated - before; /* may wrap around: it is added up */
}

static void check(struct pair *p, size_t held, const char *when)
{
    size_t charged = net_stream_tls.held(&p->stream);
    print_message("%s: %zu bytes allocated, %zu charged\n", when, held, charged);
    assert_true(p->first || held <= charged);
}

static void one(struct pair *p, struct net_tls_service *service, int version)
{
    ssize_t n = 0;
    char byte;
    size_t held = 0, before = allocated;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, p->ends), 0);
    p->stream = (struct net_stream){.kind = &net_stream_tls, .fd = p->ends[0]};
    assert_int_equal(net_stream_tls.open(&p->stream, service), 0);
    held += allocated - before;
    p->client = tls_client_open(p->ends[1]);
    SSL_set_max_proto_version(p->client, version);
    for (int i = 0; i < 20 && !net_stream_tls.ready(&p->stream); i++) {
        (void)tls_client_recv(p->client, &byte, 1);
        held += server_read(p, &n);
        check(p, held, "handshake");
    }
    assert_true(net_stream_tls.ready(&p->stream));
    assert_int_equal(tls_client_send(p->client, "hello", 5), 5);
    held += server_read(p, &n);
    assert_int_equal(n, 5);
    struct iovec out = {.iov_base = (char[]){"world"}, .iov_len = 5};
    before = allocated;
    assert_int_equal(net_stream_tls.write(&p->stream, &out, 1), 5);
    held += allocated - before;
    check(p, held, "between requests");
    assert_true(2 * held > net_stream_tls.held(&p->stream)); /* not far too much */
    net_stream_tls.close(&p->stream);
    tls_client_close(p->client);
    close(p->ends[0]);
    close(p->ends[1]);
}

static void charged(void **state)
{
    (void)state;
    struct tls_files files;
    struct err_note note = {""};
    struct net_tls_service service = {.alpn = "test"};
    struct pair p;
    tls_files_make(&files);
    assert_int_equal(net_tls_new(&files.files, NULL, &service.tls, &note), 0);
    p.first = true;
    one(&p, &service, TLS1_3_VERSION);
    p.first = false;
    one(&p, &service, TLS1_3_VERSION);
    one(&p, &service, TLS1_2_VERSION);
    net_tls_free(service.tls);
    tls_files_remove(&files);
}

int main(void)
{
    if (CRYPTO_set_mem_functions(counted_malloc, counted_realloc, counted_free) != 1)
        return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(charged)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
