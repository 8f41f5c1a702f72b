/* SPDX-License-Identifier: Apache-2.0 */
/* Which server a command talks to, and how it verifies it: the options and variables of every
 * command that is a client. */
#pragma once

#include "config/options.h"

struct client_endpoint {
    const char *server;     /* http://HOST:PORT, https://HOST:PORT or unix:/PATH */
    const char *cacert;     /* PEM file of authorities of the server; NULL = those of the system */
    const char *cert, *key; /* PEM files of the client's own certificate; NULL = none */
};

/* From the options, else the environment, else the defaults. The texts are borrowed. */
struct client_endpoint client_endpoint_of(const struct arguments *args);

/* Rows of a table of options. */
#define CLIENT_ENDPOINT_OPTIONS                                                                    \
    {"server", 's', "URL", "the server: http://HOST:PORT, https://… or unix:/PATH", OPTION_TEXT},  \
        {"cacert", 0, "FILE",                                                                      \
         "PEM file with the authority of the server's certificate, instead of those of the "       \
         "system",                                                                                 \
         OPTION_FILE},                                                                             \
        {"client_cert", 0, "FILE", "PEM file with a certificate of the client", OPTION_FILE},      \
    {                                                                                              \
        "client_key", 0, "FILE", "PEM file with the key of --client-cert", OPTION_FILE             \
    }
enum { CLIENT_ENDPOINT_OPTION_COUNT = 4 };
extern const struct option client_endpoint_options[CLIENT_ENDPOINT_OPTION_COUNT];
/* Whether this is one of them. */
bool client_endpoint_option(const char *name);
