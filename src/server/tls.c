/* SPDX-License-Identifier: Apache-2.0 */
#include "server/tls.h"

#include "base/check.h"
#include "base/system/clock.h"

#define LOOK_MS 2000                          /* between two looks at a file */
#define SETTLE_MS 500                         /* without a change, before the files are read */
#define UPKEEP_MS (UINT64_C(4) * 3600 * 1000) /* life of the keys of tickets */
#define EXPIRES_SOON_S (INT64_C(7) * 24 * 3600)

static int64_t now_s(void)
{
    struct clock clock = clock_system();
    return clock_now(&clock).wall.ms / 1000;
}

static void expiry_log(const struct server_tls *s)
{
    struct net_tls_figures f;
    net_tls_figures(s->tls, &f);
    int64_t left = f.not_after_s - now_s();
    if (left > EXPIRES_SOON_S)
        return;
    log_event(
        s->log, LOG_WARN, left > 0 ? "tls_certificate_expires" : "tls_certificate_expired",
        LOG_INT("seconds_left", left), LOG_TEXT("file", s->files->cert),
        LOG_TEXT("next", "replace the file by a new certificate; it is read when it changes"));
}

static void loaded_log(const struct server_tls *s)
{
    struct net_tls_figures f;
    net_tls_figures(s->tls, &f);
    log_event(s->log, LOG_INFO, "tls_certificate_loaded", LOG_TEXT("file", s->files->cert),
              LOG_INT("expires_in_s", f.not_after_s - now_s()));
    expiry_log(s);
}

bool server_tls_reload(struct server_tls *s, const struct net_tls_files *files)
{
    struct err_note note = {""};
    if (net_tls_reload(s->tls, files, &note) == 0)
        return true;
    log_event(s->log, LOG_ERROR, "tls_certificate_not_reloaded",
              LOG_TEXT("why", note.text[0] ? note.text : "out of memory"),
              LOG_TEXT("next", "the certificate in use is kept; correct the files"));
    return false;
}

/* ---- the files ---- */

static void settle_cb(uv_timer_t *timer)
{
    struct server_tls *s = timer->data;
    if (server_tls_reload(s, s->files))
        loaded_log(s);
}

static void changed_cb(uv_fs_poll_t *poll, int status, const uv_stat_t *before,
                       const uv_stat_t *after)
{
    struct server_tls *s = poll->data;
    (void)status, (void)before, (void)after;
    uv_timer_start(&s->settle, settle_cb, SETTLE_MS, 0);
}

void server_tls_watch(struct server_tls *s)
{
    const char *const paths[SERVER_TLS_FILES] = {s->files->cert, s->files->key,
                                                 s->files->client_ca};
    for (unsigned i = 0; i < SERVER_TLS_FILES; i++) {
        uv_fs_poll_stop(&s->polls[i]);
        if (paths[i][0] && uv_fs_poll_start(&s->polls[i], changed_cb, paths[i], LOOK_MS) != 0)
            log_event(s->log, LOG_WARN, "tls_file_not_watched", LOG_TEXT("file", paths[i]));
    }
}

/* ---- beginning and end ---- */

static void upkeep_cb(uv_timer_t *timer)
{
    struct server_tls *s = timer->data;
    net_tls_new_ticket_keys(s->tls);
    expiry_log(s);
}

int server_tls_open(struct server_tls *s, uv_loop_t *loop, const struct net_tls_files *files,
                    const struct log *log, struct err_note *note)
{
    s->log = log;
    s->files = files;
    if (!files->cert[0])
        return 0;
    int err = net_tls_new(files, log, &s->tls, note);
    if (err)
        return err;
    for (unsigned i = 0; i < SERVER_TLS_FILES; i++) {
        CHECK(uv_fs_poll_init(loop, &s->polls[i]) == 0);
        s->polls[i].data = s;
    }
    CHECK(uv_timer_init(loop, &s->settle) == 0 && uv_timer_init(loop, &s->upkeep) == 0);
    s->settle.data = s->upkeep.data = s;
    s->watching = true;
    uv_timer_start(&s->upkeep, upkeep_cb, UPKEEP_MS, UPKEEP_MS);
    server_tls_watch(s);
    loaded_log(s);
    return 0;
}

void server_tls_close(struct server_tls *s)
{
    if (!s->watching)
        return;
    s->watching = false;
    for (unsigned i = 0; i < SERVER_TLS_FILES; i++)
        uv_close((uv_handle_t *)&s->polls[i], NULL);
    uv_close((uv_handle_t *)&s->settle, NULL);
    uv_close((uv_handle_t *)&s->upkeep, NULL);
}

void server_tls_done(struct server_tls *s)
{
    net_tls_free(s->tls);
    s->tls = NULL;
}
