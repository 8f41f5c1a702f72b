/* SPDX-License-Identifier: Apache-2.0 */
/* URLs of webhooks: what is let in, and which target it is. */
#include "core/alerts/webhook.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const struct {
    const char *url, *target;
    bool literal;
} good[] = {
    {"http://hooks.example/", "http://hooks.example:80", false},
    {"https://hooks.example", "https://hooks.example:443", false},
    {"HTTPS://Hooks.Example:8443/a?b=c", "https://hooks.example:8443", false},
    {"http://localhost:9/x", "http://localhost:9", false},
    {"http://localhost.:9/x", "http://localhost.:9", false},
    {"http://a_b-c.example?x=1", "http://a_b-c.example:80", false},
    {"http://127.0.0.1:65535/x@y:z", "http://127.0.0.1:65535", true},
    {"http://[::1]:8/", "http://[::1]:8", true},
    {"https://[2001:DB8::1]", "https://[2001:db8::1]:443", true},
    {"http://1password.example/", "http://1password.example:80", false},
};

static void taken(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        struct webhook_url u;
        struct err_note note = {""};
        char target[WEBHOOK_TARGET_BYTES];
        if (webhook_url_parse(span_text(good[i].url), &u, &note) != 0)
            fail_msg("%s: %s", good[i].url, note.text);
        assert_int_equal(webhook_target(&u, target), strlen(good[i].target));
        assert_string_equal(target, good[i].target);
        assert_int_equal(u.literal, good[i].literal);
    }
}

static const struct {
    const char *url, *word; /* that the note must have */
} bad[] = {
    {"", "http://"},
    {"ftp://hooks.example/", "http://"},
    {"file:///etc/passwd", "http://"},
    {"//hooks.example/", "http://"},
    {"http:/hooks.example/", "http://"},
    {"http://", "host"},
    {"http:///x", "host"},
    {"http://:80/", "host"},
    {"http://user@hooks.example/", "user"},
    {"http://user:word@hooks.example/", "user"},
    {"http://hooks.example:0/", "port"},
    {"http://hooks.example:65536/", "port"},
    {"http://hooks.example:/", "port"},
    {"http://hooks.example:80x/", "port"},
    {"http://hooks.example/#part", "fragment"},
    {"http://hooks.example/a b", "percent"},
    {"http://hooks.example/\t", "percent"},
    {"http://hooks.example\\@evil.example/", "percent"},
    {"http://h\xc3\xb6oks.example/", "percent"},
    {"http://127.1/", "host"},
    {"http://2130706433/", "host"},
    {"http://0x7f000001/", "host"},
    {"http://0177.0.0.1/", "host"},
    {"http://example.0x7f/", "host"},
    {"http://127.0.0.1./", "host"},
    {"http://::1/", "port"},
    {"http://[::1/", "]"},
    {"http://[hooks.example]/", "host"},
    {"http://[127.0.0.1]/", "host"},
    {"http://[fe80::1%25eth0]/", "host"},
    {"http://[::1]x/", "port"},
    {"http://a..b/", "host"},
    {"http://.a/", "host"},
    {"http://a%2eb/", "host"},
};

static void refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct webhook_url u;
        struct err_note note = {""};
        if (webhook_url_parse(span_text(bad[i].url), &u, &note) != -ERR_INVALID)
            fail_msg("%s is let in", bad[i].url);
        if (!strstr(note.text, bad[i].word))
            fail_msg("%s: \"%s\" does not speak of \"%s\"", bad[i].url, note.text, bad[i].word);
    }
}

static void long_ones(void **state)
{
    (void)state;
    char url[LIMIT_URL_BYTES + 2];
    struct webhook_url u;
    memset(url, 'a', sizeof url);
    memcpy(url, "http://h/", 9);
    assert_int_equal(webhook_url_parse(span_of(url, LIMIT_URL_BYTES), &u, NULL), 0);
    assert_int_equal(webhook_url_parse(span_of(url, LIMIT_URL_BYTES + 1), &u, NULL), -ERR_INVALID);
    /* The longest name there is fits a target. */
    for (size_t i = 7; i < 7 + 253; i++)
        url[i] = (i - 7) % 64 == 63 ? '.' : 'a';
    url[7 + 253] = '/';
    char target[WEBHOOK_TARGET_BYTES];
    assert_int_equal(webhook_url_parse(span_of(url, 7 + 254), &u, NULL), 0);
    assert_int_equal(u.host.len, 253);
    assert_int_equal(webhook_target(&u, target), 7 + 253 + 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(taken),
        cmocka_unit_test(refused),
        cmocka_unit_test(long_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
