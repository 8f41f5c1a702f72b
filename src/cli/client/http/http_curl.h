/* SPDX-License-Identifier: Apache-2.0 */
/* The server of a client, for requests that run on an event loop of the caller. */
#pragma once

#include <curl/curl.h>

#include "cli/client/http/http.h"

/* Why a call failed, for a person: the usual mistakes with TLS in words that say what to do,
 * anything else as libcurl said it. Returns `said`, or a text that is static. */
const char *client_curl_why(CURLcode code, const char *said);

/* Prepares a handle for a request to this path of the server: URL, socket, protocols, proxy and
 * the time limit to connect. Other options of the handle are not reset. -ERR_NOMEM. */
MUST_CHECK int client_curl_address(const struct client *c, CURL *curl, const char *path);
