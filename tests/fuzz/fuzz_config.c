/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration file: any bytes.
 *
 * What must hold: a refusal says why, in text without control characters; what is accepted has
 * policies and lists that the rest of the program can rely on, and comes back the same when it is
 * printed and read again. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/utf8.h"
#include "config/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void refusal_holds(const struct err_note *note)
{
    CHECK(note->text[0] != '\0');
    for (const char *c = note->text; *c; c++)
        CHECK((unsigned char)*c >= 0x20 && *c != 0x7f);
}

static void list_holds(const struct config_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        CHECK(list->items[i][0] != '\0');
    CHECK(!list->items[list->count]);
}

static void config_holds(const struct config *c)
{
    struct err_note note;
    CHECK(policy_check(&c->queue_defaults, &note) == 0);
    CHECK(c->listen.count > 0);
    list_holds(&c->listen);
    list_holds(&c->hosts);
    list_holds(&c->origins);
    CHECK(c->backend_url[0] != '\0' && !c->redis.use);
    CHECK(c->limits.body_bytes <= c->limits.large_body_bytes);
    for (size_t i = 0; i < c->label_count; i++)
        CHECK(c->labels[i].name[0] != '\0' && utf8_valid(span_text(c->labels[i].name)));
}

static void no_change(void *ctx, const char *key, bool reloadable)
{
    (void)reloadable;
    const struct config *c = ctx;
    /* What carries a password is not printed whole. */
    bool secret = strcmp(key, "backend") == 0 || strcmp(key, "queue_settings.redis_url") == 0;
    CHECK(secret && (strchr(c->backend, '@') || strchr(c->redis.url, '@')));
}

static void comes_back(struct config *c)
{
    char *text = NULL;
    size_t len = 0;
    struct config again;
    struct err_note note = {""};
    FILE *out = open_memstream(&text, &len);
    CHECK(out);
    CHECK(config_print(c, out) == 0);
    CHECK(fclose(out) == 0);
    int err = config_load_text(span_of(text, len), "again", &again, &note);
    if (err == -ERR_TOO_BIG) { /* escapes can make it longer than a file may be */
        free(text);
        return;
    }
    CHECK(err == 0);
    CHECK(config_diff(c, &again, no_change, c) == 0);
    config_done(&again);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct config c;
    struct err_note note = {""};
    int err = config_load_text(span_of(data, size), "fuzz", &c, &note);
    if (err < 0) {
        refusal_holds(&note);
        return 0;
    }
    config_holds(&c);
    comes_back(&c);
    config_done(&c);
    return 0;
}
