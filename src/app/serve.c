/* SPDX-License-Identifier: Apache-2.0 */
#include "app/serve.h"

#include <stdio.h>
#include <unistd.h>

#include "app/config.h"

int serve_command(const struct command *cmd, const struct arguments *args)
{
    (void)cmd;
    struct config_sources sources = {
        .file = arguments_text(args, "config", NULL),
        .env = (const char *const *)environ,
        .flags = args,
    };
    struct config config;
    struct err_note note;
    if (config_load(&sources, &config, &note) < 0) {
        fprintf(stderr, "holdfast: %s\n", note.text);
        return EXIT_USAGE;
    }
    int status = EXIT_FAILED;
    if (!arguments_has(args, "print-config"))
        fputs("holdfast: the server is not part of this version yet\n", stderr);
    else if (config_print(&config, stdout) == 0)
        status = EXIT_DONE;
    config_done(&config);
    return status;
}
