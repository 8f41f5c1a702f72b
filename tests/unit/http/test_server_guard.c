/* SPDX-License-Identifier: Apache-2.0 */
/* Safety without tokens: Host, Origin, Sec-Fetch-Site, prefetches, and where the server listens. */
#include "unit/http/http_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static const char *const hosts[] = {"jobs.example", NULL};
static const char *const origins[] = {"https://app.example", "http://dev.example:3000", NULL};

static void guarded(struct http_rig *r)
{
    http_rig_init(r);
    r->config.hosts = hosts;
    r->config.origins = origins;
    http_rig_start(r);
}

static void host_names(void **state)
{
    (void)state;
    static const struct {
        const char *host;
        unsigned status;
    } rows[] = {
        {"localhost", 200},
        {"LocalHost:8000", 200},
        {"127.0.0.1", 200},
        {"127.0.0.1:80", 200},
        {"127.255.0.9:1", 200},
        {"[::1]", 200},
        {"[::1]:8000", 200},
        {"jobs.example", 200},
        {"JOBS.example:443", 200},
        {"evil.example", 421},
        {"localhost.evil.example", 421},
        {"127.0.0.1.evil.example", 421},
        {"xlocalhost", 421},
        {"jobs.example.evil", 421},
        {"127.0.0", 421},
        {"127.0.0.256", 421},
        {"127.0.0.1.1", 421},
        {"128.0.0.1", 421},
        {"0.0.0.0", 421},
        {"[::2]", 421},
        {"[::ffff:127.0.0.1]", 421},
    };
    struct http_rig r;
    struct client c;
    char request[256];
    guarded(&r);
    peer_open(&r, &c);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        snprintf(request, sizeof request, "GET /now HTTP/1.1\r\nHost: %s\r\n\r\n", rows[i].host);
        expect_status(&r, &c, request, rows[i].status);
    }
    expect_status(&r, &c, "GET http://evil.example/now HTTP/1.1\r\nHost: evil.example\r\n\r\n",
                  421);
    expect_status(&r, &c, "GET http://localhost/now HTTP/1.1\r\nHost: localhost\r\n\r\n", 200);
    expect_status(&r, &c,
                  "GET /now HTTP/1.0\r\nHost: evil.example\r\nConnection: keep-alive\r\n\r\n", 421);
    http_rig_end(&r, &c);
}

static void origins_and_sites(void **state)
{
    (void)state;
    static const struct {
        const char *headers; /* Host is localhost:8000 */
        unsigned status;
    } rows[] = {
        {"", 200},
        {"Origin: http://localhost:8000\r\n", 200},
        {"Origin: https://localhost:8000\r\n", 200},
        {"Origin: HTTP://LOCALHOST:8000\r\n", 200},
        {"Origin: http://localhost\r\n", 403},
        {"Origin: http://localhost:8001\r\n", 403},
        {"Origin: http://localhost:80000\r\n", 403},
        {"Origin: ftp://localhost:8000\r\n", 403},
        {"Origin: http://127.0.0.1:8000\r\n", 403},
        {"Origin: null\r\n", 403},
        {"Origin:\r\n", 403},
        {"Origin: https://evil.example\r\n", 403},
        {"Origin: https://app.example\r\n", 200},
        {"Origin: http://app.example\r\n", 403},
        {"Origin: https://app.example.evil\r\n", 403},
        {"Origin: http://dev.example:3000\r\n", 200},
        {"Sec-Fetch-Site: same-origin\r\n", 200},
        {"Sec-Fetch-Site: none\r\n", 200},
        {"Sec-Fetch-Site: cross-site\r\n", 403},
        {"Sec-Fetch-Site: same-site\r\n", 403},
        {"Sec-Fetch-Site: new-word\r\n", 403},
        {"Origin: https://app.example\r\nSec-Fetch-Site: cross-site\r\n", 200},
        {"Origin: http://localhost:8000\r\nSec-Fetch-Site: cross-site\r\n", 403},
        {"Origin: https://evil.example\r\nSec-Fetch-Site: same-origin\r\n", 403},
        {"Origin: https://app.example\r\nOrigin: https://evil.example\r\n", 403},
        {"Sec-Fetch-Site: none\r\nSec-Fetch-Site: cross-site\r\n", 403},
    };
    struct http_rig r;
    struct client c;
    char request[512];
    guarded(&r);
    peer_open(&r, &c);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        snprintf(request, sizeof request, "GET /now HTTP/1.1\r\nHost: localhost:8000\r\n%s\r\n",
                 rows[i].headers);
        expect_status(&r, &c, request, rows[i].status);
        snprintf(request, sizeof request,
                 "POST /echo HTTP/1.1\r\nHost: localhost:8000\r\n%sContent-Length: 2\r\n\r\nhi",
                 rows[i].headers);
        expect_status(&r, &c, request, rows[i].status);
    }
    http_rig_end(&r, &c);
}

/* The page http://localhost:8000 is not of this server if it speaks TLS there. */
static void origins_with_tls(void **state)
{
    (void)state;
    struct http_rig r;
    struct client c;
    guarded(&r);
    peer_open(&r, &c);
    bool tls = r.config.net.stream == &net_stream_tls;
    expect_status(&r, &c,
                  "GET /now HTTP/1.1\r\nHost: localhost:8000\r\n"
                  "Origin: https://localhost:8000\r\n\r\n",
                  200);
    expect_status(&r, &c,
                  "GET /now HTTP/1.1\r\nHost: localhost:8000\r\n"
                  "Origin: http://localhost:8000\r\n\r\n",
                  tls ? 403 : 200);
    expect_status(&r, &c,
                  "GET /claim HTTP/1.1\r\nHost: localhost:8000\r\n"
                  "Referer: http://localhost:8000/page\r\n\r\n",
                  tls ? 403 : 200);
    http_rig_end(&r, &c);
}

static void cors(void **state)
{
    (void)state;
    struct http_rig r;
    struct client c;
    char head[2048];
    guarded(&r);
    peer_open(&r, &c);
    peer_send(&r, &c,
              "OPTIONS /echo HTTP/1.1\r\nHost: localhost\r\n"
              "Origin: https://app.example\r\nAccess-Control-Request-Method: POST\r\n\r\n");
    assert_int_equal(peer_head(&r, &c, head, sizeof head), 204);
    assert_non_null(strstr(head, "Access-Control-Allow-Origin: https://app.example\r\n"));
    assert_non_null(strstr(head, "Access-Control-Allow-Methods: POST, OPTIONS\r\n"));
    assert_non_null(strstr(head, "Vary: Origin\r\n"));
    peer_send(&r, &c,
              "OPTIONS /echo HTTP/1.1\r\nHost: localhost\r\n"
              "Origin: http://localhost\r\n\r\n");
    assert_int_equal(peer_head(&r, &c, head, sizeof head), 204);
    assert_null(strstr(head, "Access-Control"));
    peer_send(&r, &c,
              "OPTIONS /echo HTTP/1.1\r\nHost: localhost\r\n"
              "Origin: https://evil.example\r\n\r\n");
    assert_int_equal(peer_head(&r, &c, head, sizeof head), 403);
    assert_null(strstr(head, "Access-Control"));
    http_rig_end(&r, &c);
}

static void prefetch(void **state)
{
    (void)state;
    struct http_rig r;
    struct client c;
    char head[2048];
    guarded(&r);
    peer_open(&r, &c);
    peer_send(&r, &c, GET("/claim"));
    assert_int_equal(peer_head(&r, &c, head, sizeof head), 200);
    assert_non_null(strstr(head, "Cache-Control: no-store\r\n"));
    peer_until(&r, &c, "now");
    c.len = 0;
    expect_status(&r, &c, "GET /claim HTTP/1.1\r\nHost: localhost\r\nSec-Purpose: prefetch\r\n\r\n",
                  403);
    expect_status(&r, &c,
                  "GET /claim HTTP/1.1\r\nHost: localhost\r\nPurpose: Prefetch;prerender\r\n\r\n",
                  403);
    expect_status(&r, &c, "GET /now HTTP/1.1\r\nHost: localhost\r\nSec-Purpose: prefetch\r\n\r\n",
                  200);
    assert_int_equal(r.handled, 2);
    http_rig_end(&r, &c);
}

/* Signs of a browser on a GET that changes something, and on one that reads. */
static void unsafe_gets(void **state)
{
    (void)state;
#define CHROME "User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36\r\n"
#define LANGUAGE "Accept-Language: en\r\n"
#define OWN "Referer: http://localhost:8000/page?a=b\r\n"
#define ALLOWED "Origin: https://app.example\r\n"
#define IMAGE "Accept: image/avif,image/webp,image/apng,*/*;q=0.8\r\n"
    static const struct {
        const char *headers; /* Host is localhost:8000 */
        unsigned status;
    } rows[] = {
        /* programs */
        {"", 200},
        {"User-Agent: curl/8.5.0\r\nAccept: */*\r\n", 200},
        {"Accept: application/json, text/plain, */*\r\n", 200},
        {"Accept: text/event-stream\r\n", 200},
        /* Node's fetch(), PowerShell, Java */
        {"User-Agent: node\r\nAccept: */*\r\n" LANGUAGE "Sec-Fetch-Mode: cors\r\n", 200},
        {"User-Agent: Mozilla/5.0 (Windows NT; en-US) WindowsPowerShell/5.1\r\n", 200},
        {"User-Agent: Java/17.0.9\r\nAccept: text/html, image/gif, image/jpeg, */*; q=.2\r\n", 200},
        /* own pages and allowed origins */
        {CHROME LANGUAGE "Sec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: cors\r\nSec-Fetch-Dest: "
                         "empty\r\nsec-ch-ua-mobile: ?0\r\n" OWN,
         200},
        {CHROME LANGUAGE "Accept: */*\r\n" OWN, 200},
        {CHROME LANGUAGE "Accept: */*\r\nSec-GPC: 1\r\n" OWN, 200},
        {CHROME LANGUAGE "Accept: text/event-stream\r\nReferer: http://localhost:8000\r\n", 200},
        {CHROME LANGUAGE "Referer: https://LOCALHOST:8000/\r\n", 200},
        {CHROME LANGUAGE "Referer: https://app.example/\r\n", 200},
        {CHROME LANGUAGE "Referer: http://dev.example:3000#x\r\n", 200},
        {CHROME LANGUAGE ALLOWED "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: cors\r\n", 200},
        {CHROME LANGUAGE ALLOWED "Referer: https://app.example/\r\n", 200},
        {CHROME LANGUAGE "Origin: http://localhost:8000\r\n", 200},
        {"Sec-Fetch-Site: none\r\n", 200},
        /* a foreign Referer */
        {"Referer: https://evil.example/\r\n", 403},
        {"Referer: http://localhost:8001/\r\n", 403},
        {"Referer: http://localhost/\r\n", 403},
        {"Referer: http://localhost:8000.evil.example/\r\n", 403},
        {"Referer: http://localhost:8000@evil.example/\r\n", 403},
        {"Referer: https://evil.example/?http://localhost:8000/\r\n", 403},
        {"Referer: https://evil.example#http://localhost:8000/\r\n", 403},
        {"Referer: ftp://localhost:8000/\r\n", 403},
        {"Referer: about:blank\r\n", 403},
        {"Referer:\r\n", 403},
        {OWN "Referer: https://evil.example/\r\n", 403},
        {"REFERER: https://evil.example/\r\nUser-Agent: curl/8.5.0\r\n", 403},
        /* elements and navigations */
        {IMAGE, 403},
        {"accept: IMAGE/*\r\n", 403},
        {IMAGE OWN, 403},
        {"Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n", 403},
        {"Accept: application/xml,application/xhtml+xml\r\n", 403},
        {"Accept: text/css,*/*;q=0.1\r\n", 403},
        {"Accept: video/webm,video/ogg;q=0.9\r\n", 403},
        {"Accept: audio/*\r\n", 403},
        {"Accept: */*\r\nAccept: image/png\r\n", 403},
        {"Upgrade-Insecure-Requests: 1\r\n", 403},
        /* other headers of browsers, without a page that is known */
        {"Sec-CH-UA: \"Chromium\";v=\"120\"\r\n", 403},
        {"Sec-Fetch-Mode: no-cors\r\n", 403},
        {"Sec-Fetch-Mode: navigate\r\n", 403},
        {"Sec-Fetch-Dest: image\r\n", 403},
        {"Sec-Fetch-Site: none\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-User: ?1\r\n", 403},
        {"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n", 403},
        {"Sec-GPC: 1\r\n", 403},
        {"SEC-Anything: 1\r\n", 403},
        {CHROME LANGUAGE "Accept: */*\r\n", 403},
        {"X-Purpose: preview\r\n" OWN, 403},
        {ALLOWED "Sec-Purpose: prefetch;prerender\r\n", 403},
        {"X-Moz: prefetch\r\n", 403},
    };
    struct http_rig r;
    struct client c;
    char request[1024];
    unsigned handled = 0;
    guarded(&r);
    peer_open(&r, &c);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        snprintf(request, sizeof request, "GET /claim HTTP/1.1\r\nHost: localhost:8000\r\n%s\r\n",
                 rows[i].headers);
        expect_status(&r, &c, request, rows[i].status);
        handled += rows[i].status == 200;
        assert_int_equal(r.handled, handled);
        snprintf(request, sizeof request, "GET /now HTTP/1.1\r\nHost: localhost:8000\r\n%s\r\n",
                 rows[i].headers);
        expect_status(&r, &c, request, 200);
        assert_int_equal(r.handled, ++handled);
    }
    http_rig_end(&r, &c);
}

/* ---- listening ------------------------------------------------------------------------------- */

static void addresses(void **state)
{
    (void)state;
    static const struct {
        const char *address;
        int result;
        const char *prefix;
    } rows[] = {
        {"127.0.0.1:0", 0, "http://127.0.0.1:"},
        {"127.0.0.2:0", 0, "http://127.0.0.2:"},
        {"localhost:0", 0, "http://127.0.0.1:"},
        {"[::1]:0", 0, "http://[::1]:"},
        {"0.0.0.0:0", -ERR_INVALID, "loopback"},
        {"192.168.1.1:80", -ERR_INVALID, "loopback"},
        {"[::]:0", -ERR_INVALID, "loopback"},
        {"[fe80::1]:0", -ERR_INVALID, "loopback"},
        {"[::ffff:127.0.0.1]:0", -ERR_INVALID, "loopback"},
        {"example.org:80", -ERR_INVALID, "loopback"},
        {"::1:80", -ERR_INVALID, "loopback"},
        {"127.0.0.1", -ERR_INVALID, "HOST:PORT"},
        {"", -ERR_INVALID, "HOST:PORT"},
        {":80", -ERR_INVALID, "HOST:PORT"},
        {"127.0.0.1:", -ERR_INVALID, "port"},
        {"127.0.0.1:65536", -ERR_INVALID, "port"},
        {"127.0.0.1:-1", -ERR_INVALID, "port"},
        {"127.0.0.1:80x", -ERR_INVALID, "port"},
        {"127.0.0.1:000080", -ERR_INVALID, "port"},
        {"unix:", -ERR_INVALID, "1 to 107 bytes"},
        {"unix:/no/such/folder/socket", -ERR_IO, "No such file"},
    };
    struct http_rig r;
    size_t listeners = 1;
    http_rig_init(&r);
    http_rig_start(&r);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct err_note note = {""};
        int result = http_server_listen(r.server, rows[i].address, &note);
        if (result != rows[i].result)
            fail_msg("%s: %d, %s", rows[i].address, result, note.text);
        const char *text = result == 0 ? http_server_address(r.server, listeners++) : note.text;
        assert_non_null(text);
        if (!strstr(text, rows[i].prefix))
            fail_msg("%s: %s", rows[i].address, text);
    }
    assert_null(http_server_address(r.server, listeners));
    for (size_t i = 0; i < listeners; i++) {
        struct client c;
        if (strstr(http_server_address(r.server, i), "127.0.0.2"))
            continue;
        net_client_open(&c, http_server_address(r.server, i));
        expect_status(&r, &c, GET("/now"), 200);
        net_client_close(&c);
    }
    assert_string_equal(r.last_peer, "::1");
    http_rig_done(&r);
}

static void port_in_use(void **state)
{
    (void)state;
    struct http_rig r;
    struct err_note note = {""};
    http_rig_init(&r);
    http_rig_start(&r);
    const char *taken = http_server_address(r.server, 0) + strlen("http://");
    assert_int_equal(http_server_listen(r.server, taken, &note), -ERR_LOCKED);
    assert_non_null(strstr(note.text, taken));
    http_rig_done(&r);
}

struct folder {
    char path[64], socket[80], address[96];
};

static void folder_make(struct folder *f)
{
    snprintf(f->path, sizeof f->path, "/tmp/hf-http-XXXXXX");
    assert_non_null(mkdtemp(f->path));
    snprintf(f->socket, sizeof f->socket, "%s/s", f->path);
    snprintf(f->address, sizeof f->address, "unix:%s", f->socket);
}

static void unix_socket(void **state)
{
    (void)state;
    struct http_rig r;
    struct folder f;
    struct client c;
    struct stat st;
    struct err_note note = {""};
    folder_make(&f);
    http_rig_init(&r);
    r.config.net.connections_per_address = 0; /* does not count these */
    http_rig_start(&r);
    assert_int_equal(http_server_listen(r.server, f.address, &note), 0);
    assert_string_equal(http_server_address(r.server, 1), f.address);
    assert_int_equal(stat(f.socket, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    net_client_open(&c, f.address);
    expect_status(&r, &c, GET("/now"), 200);
    assert_string_equal(r.last_peer, "unix");
    peer_send(&r, &c, GET("/park/0"));
    RIG_UNTIL(&r, r.parked[0].taken == 1);
    net_client_close(&c);
    RIG_UNTIL(&r, r.parked[0].gone == 1);
    net_client_open(&c, f.address);
    peer_send(&r, &c, GET("/park/1"));
    client_shutdown(&c);
    assert_int_equal(peer_answer(&r, &c, NULL, 0), 100);
    assert_int_equal(r.parked[1].gone, 0);
    net_client_close(&c); /* after the probe: a Unix socket tells by itself */
    RIG_UNTIL(&r, r.parked[1].gone == 1);
    http_rig_done(&r);
    assert_int_equal(stat(f.socket, &st), -1); /* tidied up */
    rmdir(f.path);
}

static void unix_socket_left_over(void **state)
{
    (void)state;
    struct http_rig r;
    struct folder f;
    struct client c;
    struct err_note note = {""};
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    folder_make(&f);
    snprintf(un.sun_path, sizeof un.sun_path, "%s", f.socket);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&un, sizeof un), 0);
    assert_int_equal(listen(fd, 1), 0);
    http_rig_init(&r);
    http_rig_start(&r);
    assert_int_equal(http_server_listen(r.server, f.address, &note), -ERR_LOCKED);
    close(fd); /* its owner is no more, the file is */
    assert_int_equal(http_server_listen(r.server, f.address, &note), 0);
    assert_int_equal(http_server_listen(r.server, f.address, &note), -ERR_LOCKED);
    net_client_open(&c, f.address);
    expect_status(&r, &c, GET("/now"), 200);
    http_rig_end(&r, &c);
    rmdir(f.path);
}

/* A file that is no socket, and a socket that somebody else put there meanwhile. */
static void unix_socket_foreign(void **state)
{
    (void)state;
    struct http_rig r;
    struct folder f;
    struct stat st;
    struct err_note note = {""};
    folder_make(&f);
    int fd = open(f.socket, O_CREAT | O_WRONLY, 0600);
    http_rig_init(&r);
    http_rig_start(&r);
    assert_int_equal(http_server_listen(r.server, f.address, &note), -ERR_LOCKED);
    assert_int_equal(unlink(f.socket), 0);
    assert_int_equal(http_server_listen(r.server, f.address, &note), 0);
    assert_int_equal(unlink(f.socket), 0);
    close(fd);
    fd = open(f.socket, O_CREAT | O_WRONLY, 0600);
    http_rig_done(&r);
    assert_int_equal(stat(f.socket, &st), 0);
    close(fd);
    unlink(f.socket);
    rmdir(f.path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(host_names),
        cmocka_unit_test_not_tls(origins_and_sites),
        cmocka_unit_test(origins_with_tls),
        cmocka_unit_test_not_tls(cors),
        cmocka_unit_test(prefetch),
        cmocka_unit_test_not_tls(unsafe_gets),
        cmocka_unit_test(addresses),
        cmocka_unit_test(port_in_use),
        cmocka_unit_test(unix_socket),
        cmocka_unit_test(unix_socket_left_over),
        cmocka_unit_test(unix_socket_foreign),
    };
    return RUN_OVER_STREAMS(tests);
}
