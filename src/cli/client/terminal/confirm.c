/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/client/terminal/confirm.h"

#include <stdarg.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "cli/client/answer.h"
#include "cli/client/terminal/show.h"
#include "cli/client/terminal/text.h"

static bool has_terminal(void)
{
    return isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
}

int client_confirm_possible(const struct client_session *s, const char *command)
{
    if (arguments_has(s->args, "yes") || has_terminal())
        return CLIENT_DONE;
    return client_complain(CLIENT_USAGE,
                           "`%s` asks for confirmation, and there is no terminal to ask on; add "
                           "--yes to run it without the question",
                           command);
}

bool client_confirm_wanted(const struct client_session *s)
{
    return !arguments_has(s->args, "yes") && has_terminal();
}

int64_t client_confirm_counts(struct client_session *s, const char *name, const char *path)
{
    struct client_members members;
    struct span object = {NULL, 0}, member, value;
    char count[CLIENT_COUNT_BYTES];
    int64_t sum = 0;
    (void)client_answer_find(client_answer(s), path, &object);
    client_members_open(&members, object, &s->arena);
    while (client_members_next(&members, &member, &value)) {
        const char *key = arena_text(&s->arena, member);
        int64_t jobs = key ? client_answer_int(object, key, 0) : 0;
        if (jobs <= 0)
            continue;
        if (sum == 0)
            client_print_text(stderr, span_text(name), CLIENT_TEXT_WHOLE);
        fprintf(stderr, "%s%s ", sum == 0 ? ": " : ", ", client_show_count(jobs, count));
        client_print_text(stderr, member, CLIENT_TEXT_WHOLE);
        sum += jobs;
    }
    if (sum > 0)
        fputc('\n', stderr);
    return sum;
}

/* Compares the whole line, apart from trailing spaces: any other text is not a confirmation. */
static bool is_yes(char *line)
{
    size_t len = strlen(line);
    while (len > 0 && strchr(" \t\r\n", line[len - 1]))
        len--;
    line[len] = '\0';
    return strcasecmp(line, "y") == 0 || strcasecmp(line, "yes") == 0;
}

int client_confirm(const char *format, ...)
{
    char text[1024], line[64];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    client_print_text(stderr, span_text(text), CLIENT_TEXT_WHOLE);
    fputs(" [y/N] ", stderr);
    fflush(stderr);
    bool answered = fgets(line, sizeof line, stdin) != NULL;
    if (!answered)
        fputc('\n', stderr);
    bool whole = answered && strlen(line) + 1 < sizeof line; /* a longer line is truncated */
    if (whole && is_yes(line))
        return CLIENT_DONE;
    return client_complain(CLIENT_REFUSED, "not confirmed; nothing was changed");
}
