/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/postgres/connection/exec.h"

#include <errno.h>
#include <poll.h>

#include "base/system/clock.h"

/* Waits until a result can be read. False: it did not arrive in time. */
static bool await(PGconn *pg, int64_t patience_ms)
{
    uint64_t end_ns = clock_ns() + (uint64_t)patience_ms * 1000000;
    while (PQisBusy(pg)) {
        uint64_t now_ns = clock_ns();
        struct pollfd p = {.fd = PQsocket(pg), .events = POLLIN};
        if (now_ns >= end_ns || p.fd < 0)
            return false;
        int n = poll(&p, 1, (int)((end_ns - now_ns) / 1000000) + 1);
        if ((n < 0 && errno != EINTR) || (n > 0 && PQconsumeInput(pg) != 1))
            return false;
    }
    return true;
}

static bool in_copy(const PGresult *r)
{
    ExecStatusType s = PQresultStatus(r);
    return s == PGRES_COPY_IN || s == PGRES_COPY_OUT || s == PGRES_COPY_BOTH;
}

PGresult *pg_exec(PGconn *pg, const char *query, int64_t patience_ms)
{
    PGresult *last = NULL, *r;
    if (PQsendQuery(pg, query) != 1)
        return NULL;
    for (;;) {
        if (!await(pg, patience_ms)) {
            PQclear(last);
            return NULL;
        }
        r = PQgetResult(pg);
        if (!r)
            return last;
        PQclear(last);
        last = r;
        /* libpq would return the same result forever, and a later result must not hide an error. */
        if (in_copy(r) || PQresultStatus(r) == PGRES_FATAL_ERROR || PQstatus(pg) == CONNECTION_BAD)
            return last;
    }
}

const char *pg_text_at(const PGresult *r, int row, int col)
{
    const char *text = PQgetisnull(r, row, col) ? NULL : PQgetvalue(r, row, col);
    return text ? text : "";
}
