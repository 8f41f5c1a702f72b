/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/api/beanstalk/bs_rig.h"

void bs_rig_init(struct bs_rig *r)
{
    *r = (struct bs_rig){0};
    broker_rig_loop(&r->broker);
    r->config = (struct beanstalk_config){
        .version = "1", .max_job_bytes = 1 << 20, .line_ms = 60000, .body_ms = 60000};
    net_config_default(&r->config.net);
    r->config.net.loop = &r->broker.loop;
    r->config.net.stream = stream_under_test(&r->config.net.stream_ctx);
}

/* The order of prepare handles as in src/server/serve.c. */
void bs_rig_start(struct bs_rig *r)
{
    struct err_note note = {""};
    struct backend *backend = NULL;
    struct backend_config config = {
        .loop = &r->broker.loop, .clock = clock_manual(&r->broker.clock), .seed = 7};
    assert_int_equal(beanstalk_new(&r->config, &r->api), 0);
    if (backend_open("memory:", &config, &backend, &note) != 0)
        fail_msg("%s", note.text);
    broker_rig_init_with(&r->broker, backend);
    beanstalk_serve(r->api, r->broker.broker);
    if (beanstalk_listen(r->api, "127.0.0.1:0", &note) != 0)
        fail_msg("%s", note.text);
}

static void count_cb(void *ctx)
{
    ++*(unsigned *)ctx;
}

void bs_rig_done(struct bs_rig *r)
{
    beanstalk_close(r->api, count_cb, &r->closed);
    BS_UNTIL(r, r->closed == 1);
    broker_rig_done(&r->broker);
}

void bs_rig_client(struct bs_rig *r, struct client *c)
{
    net_client_open(c, beanstalk_address(r->api, 0));
}

void bs_rig_begin(struct bs_rig *r, struct client *c)
{
    bs_rig_init(r);
    bs_rig_start(r);
    bs_rig_client(r, c);
}

void bs_rig_end(struct bs_rig *r, struct client *c)
{
    net_client_close(c);
    bs_rig_done(r);
}

void bs_rig_send(struct bs_rig *r, struct client *c, const char *text)
{
    client_send(&r->broker.loop, c, text, strlen(text));
}

void bs_rig_expect(struct bs_rig *r, struct client *c, const char *text, const char *reply)
{
    bs_rig_send(r, c, text);
    BS_UNTIL(r, client_poll(c) && (c->len >= strlen(reply) || c->eof || c->error));
    assert_string_equal(c->data, reply);
    client_drop(c, c->len);
}

uint64_t bs_rig_stat(struct bs_rig *r, const char *name)
{
    struct client c;
    char line[64];
    snprintf(line, sizeof line, "\n%s: ", name);
    bs_rig_client(r, &c);
    bs_rig_send(r, &c, "stats\r\nquit\r\n");
    client_until_eof(&r->broker.loop, &c);
    const char *at = strstr(c.data, line);
    assert_non_null(at);
    uint64_t value = strtoull(at + strlen(line), NULL, 10);
    net_client_close(&c);
    return value;
}
