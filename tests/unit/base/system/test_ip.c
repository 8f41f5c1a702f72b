/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses: both ends of every special block, and the addresses right outside. */
#include "base/system/ip.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct ip_address ip(const char *text)
{
    struct ip_address a;
    if (ip_parse(span_text(text), &a) != 0)
        fail_msg("%s is not an address", text);
    return a;
}

static const struct {
    const char *text;
    const char *why; /* NULL = public */
} classes[] = {
    {"0.0.0.0", "unspecified"},
    {"0.255.255.255", "unspecified"},
    {"1.0.0.0", NULL},
    {"9.255.255.255", NULL},
    {"10.0.0.0", "private"},
    {"10.255.255.255", "private"},
    {"11.0.0.0", NULL},
    {"100.63.255.255", NULL},
    {"100.64.0.0", "carrier-grade NAT"},
    {"100.127.255.255", "carrier-grade NAT"},
    {"100.128.0.0", NULL},
    {"126.255.255.255", NULL},
    {"127.0.0.0", "loopback"},
    {"127.0.0.1", "loopback"},
    {"127.255.255.255", "loopback"},
    {"128.0.0.0", NULL},
    {"169.253.255.255", NULL},
    {"169.254.0.0", "link-local"},
    {"169.254.169.254", "link-local"},
    {"169.254.255.255", "link-local"},
    {"169.255.0.0", NULL},
    {"172.15.255.255", NULL},
    {"172.16.0.0", "private"},
    {"172.31.255.255", "private"},
    {"172.32.0.0", NULL},
    {"191.255.255.255", NULL},
    {"192.0.0.0", "reserved"},
    {"192.0.0.192", "reserved"},
    {"192.0.0.255", "reserved"},
    {"192.0.1.0", NULL},
    {"192.0.2.0", "documentation"},
    {"192.0.2.255", "documentation"},
    {"192.0.3.0", NULL},
    {"192.88.98.255", NULL},
    {"192.88.99.0", "reserved"},
    {"192.88.99.255", "reserved"},
    {"192.88.100.0", NULL},
    {"192.167.255.255", NULL},
    {"192.168.0.0", "private"},
    {"192.168.255.255", "private"},
    {"192.169.0.0", NULL},
    {"198.17.255.255", NULL},
    {"198.18.0.0", "benchmarking"},
    {"198.19.255.255", "benchmarking"},
    {"198.20.0.0", NULL},
    {"198.51.99.255", NULL},
    {"198.51.100.0", "documentation"},
    {"198.51.100.255", "documentation"},
    {"198.51.101.0", NULL},
    {"203.0.112.255", NULL},
    {"203.0.113.0", "documentation"},
    {"203.0.113.255", "documentation"},
    {"203.0.114.0", NULL},
    {"223.255.255.255", NULL},
    {"224.0.0.0", "multicast"},
    {"239.255.255.255", "multicast"},
    {"240.0.0.0", "reserved"},
    {"255.255.255.255", "reserved"},
    {"::", "unspecified"},
    {"::1", "loopback"},
    {"::2", "reserved"},
    {"::127.0.0.1", "reserved"},
    {"::fffe:0:0", "reserved"},
    {"::ffff:127.0.0.1", "loopback"},
    {"::ffff:10.1.2.3", "private"},
    {"::ffff:8.8.8.8", NULL},
    {"64:ff9b::8.8.8.8", NULL},
    {"64:ff9b::127.0.0.1", "loopback"},
    {"64:ff9b::a00:1", "private"},
    {"64:ff9b:1::1", "private"},
    {"64:ff9b:1:ffff:ffff:ffff:ffff:ffff", "private"},
    {"100::1", "reserved"},
    {"1fff:ffff::1", "reserved"},
    {"2000::1", NULL},
    {"2001::1", "tunnel"},
    {"2001:0:ffff:ffff:ffff:ffff:ffff:ffff", "tunnel"},
    {"2001:1::1", "reserved"},
    {"2001:1ff:ffff::1", "reserved"},
    {"2001:200::1", NULL},
    {"2001:db7:ffff::1", NULL},
    {"2001:db8::1", "documentation"},
    {"2001:db8:ffff::1", "documentation"},
    {"2001:db9::1", NULL},
    {"2002:7f00:1::1", "loopback"},
    {"2002:a00:1::1", "private"},
    {"2002:808:808::1", NULL},
    {"2606:4700::1111", NULL},
    {"3ffe:ffff::1", NULL},
    {"3fff::1", "documentation"},
    {"3fff:fff:ffff::1", "documentation"},
    {"3fff:1000::1", NULL},
    {"4000::1", "reserved"},
    {"fbff::1", "reserved"},
    {"fc00::1", "private"},
    {"fdff:ffff::1", "private"},
    {"fe00::1", "reserved"},
    {"fe80::1", "link-local"},
    {"febf:ffff::1", "link-local"},
    {"fec0::1", "private"},
    {"feff:ffff::1", "private"},
    {"ff00::1", "multicast"},
    {"ff02::1", "multicast"},
    {"ffff:ffff::1", "multicast"},
};

static void every_boundary(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++) {
        struct ip_address a = ip(classes[i].text);
        const char *why = ip_not_public(&a);
        if ((why == NULL) != (classes[i].why == NULL) || (why && strcmp(why, classes[i].why) != 0))
            fail_msg("%s is %s, not %s", classes[i].text, why ? why : "public",
                     classes[i].why ? classes[i].why : "public");
    }
}

static void texts(void **state)
{
    (void)state;
    static const char *const bad[] = {"",          "127.1",      "0x7f.0.0.1", "2130706433",
                                      "1.2.3.4.5", "[::1]",      "::1%lo",     "1.2.3.256",
                                      "::g",       " 127.0.0.1", "1.2.3.4 "};
    struct ip_address a;
    char out[IP_TEXT_BYTES];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (ip_parse(span_text(bad[i]), &a) != -ERR_SYNTAX)
            fail_msg("\"%s\" is taken for an address", bad[i]);
    assert_int_equal(ip_parse(span_of("127.0.0.1\0x", 11), &a), -ERR_SYNTAX);
    a = ip("::ffff:192.0.2.7");
    assert_true(ip_is_v4(&a));
    ip_text(&a, out);
    assert_string_equal(out, "192.0.2.7");
    a = ip("2001:DB8:0:0::1");
    assert_false(ip_is_v4(&a));
    ip_text(&a, out);
    assert_string_equal(out, "2001:db8::1");
}

static bool in_block(const char *block, const char *address)
{
    struct ip_block b;
    struct ip_address a = ip(address);
    if (ip_block_parse(span_text(block), &b) != 0)
        fail_msg("%s is not a block", block);
    return ip_block_has(&b, &a);
}

static void blocks(void **state)
{
    (void)state;
    assert_true(in_block("10.0.0.0/8", "10.255.0.1"));
    assert_false(in_block("10.0.0.0/8", "11.0.0.1"));
    assert_true(in_block("10.1.2.3", "10.1.2.3"));
    assert_false(in_block("10.1.2.3", "10.1.2.4"));
    assert_true(in_block("172.16.0.0/12", "::ffff:172.31.0.1"));
    assert_true(in_block("0.0.0.0/0", "8.8.8.8"));
    assert_false(in_block("0.0.0.0/0", "2606::1"));
    assert_true(in_block("fd00::/9", "fd7f::1"));
    assert_false(in_block("fd00::/9", "fd80::1"));
    assert_true(in_block("::/0", "8.8.8.8"));
    assert_true(in_block("::1/128", "::1"));
    static const char *const bad[] = {"10.0.0.0/33", "10.0.0.1/8", "10.0.0.0/", "10.0.0.0/08",
                                      "fd00::/129",  "/8",         "host/8",    "10.0.0.0/-1"};
    struct ip_block b;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (ip_block_parse(span_text(bad[i]), &b) != -ERR_SYNTAX)
            fail_msg("\"%s\" is taken for a block", bad[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_boundary),
        cmocka_unit_test(texts),
        cmocka_unit_test(blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
