/* SPDX-License-Identifier: Apache-2.0 */
/* Files as answers: whole, bounded, cut short, given up. */
#include "unit/http/http_rig.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#define BYTES ((size_t)3 << 20)

static char byte_at(size_t i)
{
    return (char)('a' + (i * 7 + i / 4096) % 26);
}

/* A file without a name. */
static int file_of(size_t bytes)
{
    static char piece[4096];
    char path[] = "/tmp/holdfast-file-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(unlink(path), 0);
    for (size_t at = 0; at < bytes; at += sizeof piece) {
        for (size_t i = 0; i < sizeof piece; i++)
            piece[i] = byte_at(at + i);
        assert_int_equal(write(fd, piece, sizeof piece), sizeof piece);
    }
    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    return fd;
}

static void open_parked(struct http_rig *r, struct client *c)
{
    http_rig_init(r);
    http_rig_start(r);
    peer_open(r, c);
    peer_send(r, c, GET("/park/0"));
    RIG_UNTIL(r, r->parked[0].x != NULL);
}

static void answer(struct http_rig *r, int fd, size_t bytes)
{
    struct http_exchange *x = r->parked[0].x;
    r->parked[0].x = NULL;
    http_answer_header(x, "Holdfast-Position", SPAN_LITERAL("7"));
    http_answer_file(x, fd, bytes, "application/octet-stream");
}

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

static void whole(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 131072, 131073, BYTES};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        struct http_rig r;
        struct client c;
        char head[2048], length[64];
        int fd = file_of(sizes[s]);
        open_parked(&r, &c);
        answer(&r, fd, sizes[s]);
        assert_int_equal(peer_head(&r, &c, head, sizeof head), 200);
        snprintf(length, sizeof length, "Content-Length: %zu\r\n", sizes[s]);
        assert_non_null(strstr(head, length));
        assert_non_null(strstr(head, "Holdfast-Position: 7\r\n"));
        assert_non_null(strstr(head, "Connection: close\r\n"));
        peer_until_eof(&r, &c);
        assert_int_equal(c.len, sizes[s]);
        for (size_t i = 0; i < c.len; i++)
            assert_int_equal(c.data[i], byte_at(i));
        RIG_UNTIL(&r, r.parked[0].sent == 1);
        assert_true(r.parked[0].whole && r.parked[0].gone == 0);
        assert_false(is_open(fd));
        http_rig_end(&r, &c);
    }
}

/* A client that reads nothing: no more than the write buffer waits for it. When it has sent its
 * last byte itself, nothing but the file comes all the same. */
static void slow(void **state)
{
    (void)state;
    struct http_rig r;
    struct client c;
    char head[2048];
    int small = 65536;
    http_rig_init(&r);
    r.config.net.write_buffer_bytes = 64 << 10;
    http_rig_start_with(&r, &c);
    assert_int_equal(setsockopt(c.fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small), 0);
    peer_send(&r, &c, GET("/park/0"));
    RIG_UNTIL(&r, r.parked[0].x != NULL);
    struct http_exchange *x = r.parked[0].x;
    answer(&r, file_of(8 * BYTES), 8 * BYTES);
    RIG_UNTIL(&r, http_stream_waiting(x) > 0);
    client_shutdown(&c);
    for (int i = 0; i < 200; i++) {
        http_rig_turn(&r);
        assert_true(http_stream_waiting(x) <= 128 << 10);
    }
    assert_int_equal(r.parked[0].sent, 0);
    assert_int_equal(peer_head(&r, &c, head, sizeof head), 200);
    peer_until_eof(&r, &c);
    assert_int_equal(c.len, 8 * BYTES);
    for (size_t i = 0; i < c.len; i++)
        assert_int_equal(c.data[i], byte_at(i));
    RIG_UNTIL(&r, r.parked[0].sent == 1);
    assert_true(r.parked[0].whole);
    http_rig_end(&r, &c);
}

/* The file is shorter than the head says: the connection is aborted, and `sent` says that the
 * answer was not complete. */
static void shorter_than_promised(void **state)
{
    (void)state;
    struct http_rig r;
    struct client c;
    char head[2048];
    int fd = file_of(200000);
    open_parked(&r, &c);
    answer(&r, fd, 200001);
    assert_int_equal(peer_head(&r, &c, head, sizeof head), 200);
    peer_until_eof(&r, &c);
    assert_int_equal(c.len, 200000);
    RIG_UNTIL(&r, r.parked[0].sent == 1);
    assert_false(r.parked[0].whole);
    assert_false(is_open(fd));
    http_rig_end(&r, &c);
}

static void client_gone(void **state)
{
    (void)state;
    struct http_rig r;
    struct client c;
    int fd = file_of(8 * BYTES);
    open_parked(&r, &c);
    answer(&r, fd, 8 * BYTES);
    peer_until(&r, &c, "\r\n\r\n");
    client_reset(&c);
    RIG_UNTIL(&r, r.parked[0].sent == 1);
    assert_false(r.parked[0].whole);
    assert_false(is_open(fd));
    http_rig_done(&r);
}

/* Gone before the answer was given. */
static void gone_before(void **state)
{
    (void)state;
    struct http_rig r;
    struct client c;
    int fd = file_of(BYTES);
    http_rig_init(&r);
    r.park_answers_when_gone = false;
    http_rig_start_with(&r, &c);
    peer_send(&r, &c, GET("/park/0"));
    RIG_UNTIL(&r, r.parked[0].x != NULL);
    client_reset(&c);
    RIG_UNTIL(&r, r.parked[0].gone == 1);
    answer(&r, fd, BYTES);
    RIG_UNTIL(&r, r.parked[0].sent == 1);
    assert_false(r.parked[0].whole);
    assert_false(is_open(fd));
    http_rig_done(&r);
}

/* The server ends in the middle of it. */
static void server_ends(void **state)
{
    (void)state;
    struct http_rig r;
    struct client c;
    int fd = file_of(8 * BYTES);
    open_parked(&r, &c);
    answer(&r, fd, 8 * BYTES);
    peer_until(&r, &c, "\r\n\r\n");
    http_rig_done(&r);
    assert_int_equal(r.parked[0].sent, 1);
    assert_false(r.parked[0].whole);
    assert_false(is_open(fd));
    net_client_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole),       cmocka_unit_test(slow),
        cmocka_unit_test(client_gone), cmocka_unit_test(shorter_than_promised),
        cmocka_unit_test(gone_before), cmocka_unit_test(server_ends),
    };
    return RUN_OVER_STREAMS(tests);
}
