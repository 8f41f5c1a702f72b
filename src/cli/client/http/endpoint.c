/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/client/http/endpoint.h"

#include <stdlib.h>
#include <string.h>

#include "cli/client/http/http.h"

const struct option client_endpoint_options[CLIENT_ENDPOINT_OPTION_COUNT] = {
    CLIENT_ENDPOINT_OPTIONS};

static const char *value(const struct arguments *args, const char *option, const char *variable,
                         const char *otherwise)
{
    const char *set = getenv(variable);
    return arguments_text(args, option, set && *set ? set : otherwise);
}

struct client_endpoint client_endpoint_of(const struct arguments *args)
{
    return (struct client_endpoint){
        .server = value(args, "server", "HOLDFAST_SERVER", CLIENT_SERVER_DEFAULT),
        .cacert = value(args, "cacert", "HOLDFAST_CACERT", NULL),
        .cert = value(args, "client_cert", "HOLDFAST_CLIENT_CERT", NULL),
        .key = value(args, "client_key", "HOLDFAST_CLIENT_KEY", NULL),
    };
}

bool client_endpoint_option(const char *name)
{
    for (size_t i = 0; i < CLIENT_ENDPOINT_OPTION_COUNT; i++)
        if (strcmp(name, client_endpoint_options[i].name) == 0)
            return true;
    return false;
}
