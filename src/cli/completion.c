/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/completion.h"

#include <ctype.h>
#include <string.h>

/* ---- the words a command takes ---- */

enum word_kind { WORD_LITERAL, WORD_COMMAND, WORD_DIR, WORD_FILE, WORD_OTHER };

/* The next word of cmd->args ("[COMMAND|config]"): words in small letters are literal, words in
 * capitals are placeholders. Advances *rest; false past the last. */
static bool args_word(const char **rest, const char **word, size_t *len, enum word_kind *kind)
{
    static const char breaks[] = " |[].";
    *rest += strspn(*rest, breaks);
    if (!**rest)
        return false;
    *word = *rest;
    *len = strcspn(*rest, breaks);
    *rest += *len;
    *kind = islower((unsigned char)**word)                      ? WORD_LITERAL
            : *len == 7 && strncmp(*word, "COMMAND", *len) == 0 ? WORD_COMMAND
            : *len == 3 && strncmp(*word, "DIR", *len) == 0     ? WORD_DIR
            : *len == 4 && strncmp(*word, "FILE", *len) == 0    ? WORD_FILE
            : *len == 6 && strncmp(*word, "BACKUP", *len) == 0  ? WORD_FILE
                                                                : WORD_OTHER;
    return true;
}

static void command_names(FILE *out)
{
    const struct command *cmd;
    for (size_t i = 0; (cmd = command_at(i)); i++)
        fprintf(out, " %s", cmd->name);
}

/* Prints the literal words, separated by spaces; returns which kind of name is allowed in
 * addition. */
static enum word_kind args_words(const struct command *cmd, FILE *out)
{
    const char *rest = cmd->args;
    const char *word;
    size_t len;
    enum word_kind kind;
    enum word_kind named = WORD_OTHER;
    while (args_word(&rest, &word, &len, &kind)) {
        if (kind == WORD_LITERAL)
            fprintf(out, " %.*s", (int)len, word);
        else if (kind == WORD_COMMAND)
            command_names(out);
        else if (kind != WORD_OTHER)
            named = kind;
    }
    return named;
}

static void choices_print(const struct option *o, FILE *out)
{
    const char *rest = o->argument;
    const char *word;
    size_t len;
    const char *between = "";
    while (option_choice(&rest, &word, &len)) {
        fprintf(out, "%s%.*s", between, (int)len, word);
        between = " ";
    }
}

static bool has_choices(const struct option *o)
{
    return o->kind == OPTION_CHOICE || o->kind == OPTION_SWITCH;
}

/* ---- bash ---- */

/* A case for the value of an option; a flag takes one only after '='. */
static void bash_value(const struct command *cmd, const struct option *o, FILE *out)
{
    char name[OPTION_NAME_MAX];
    if (o->kind == OPTION_FLAG)
        return;
    option_name(o, name);
    fprintf(out, "        %s:--%s=", cmd->name, name);
    if (o->kind != OPTION_SWITCH)
        fprintf(out, "|%s:--%s", cmd->name, name);
    if (o->letter)
        fprintf(out, "|%s:-%c", cmd->name, o->letter);
    fputc(')', out);
    if (has_choices(o)) {
        fputs(" _holdfast_words '", out);
        choices_print(o, out);
        fputs("'; return ;;\n", out);
    } else if (o->kind == OPTION_FILE || o->kind == OPTION_DIR) {
        fprintf(out, " _holdfast_names %s; return ;;\n", o->kind == OPTION_DIR ? "-d" : "-f");
    } else {
        fputs(" return ;;\n", out);
    }
}

static void bash_command(const struct command *cmd, FILE *out)
{
    char name[OPTION_NAME_MAX];
    fprintf(out, "        %s)\n            options='--help", cmd->name);
    for (size_t i = 0; i < cmd->option_count; i++)
        fprintf(out, " --%s", option_name(&cmd->options[i], name));
    fputs("'\n            words='", out);
    enum word_kind named = args_words(cmd, out);
    fputs("'\n", out);
    if (named == WORD_DIR || named == WORD_FILE)
        fprintf(out, "            names=%s\n", named == WORD_DIR ? "-d" : "-f");
    fputs("            ;;\n", out);
}

static void completion_bash(FILE *out)
{
    const struct command *cmd;
    fputs("# bash completion for holdfast; made by `holdfast completion bash`.\n"
          "\n"
          "_holdfast_words() {\n"
          "    mapfile -t COMPREPLY < <(compgen -W \"$1\" -- \"$cur\")\n"
          "}\n"
          "\n"
          "_holdfast_names() {\n"
          "    compopt -o filenames 2>/dev/null\n"
          "    mapfile -t COMPREPLY < <(compgen \"$1\" -- \"$cur\")\n"
          "}\n"
          "\n"
          "_holdfast() {\n"
          "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
          "    local command=${COMP_WORDS[1]} options='' words='' names=''\n"
          "    COMPREPLY=()\n"
          "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
          "        _holdfast_words '",
          out);
    command_names(out);
    fputs("'\n"
          "        return\n"
          "    fi\n"
          "    # bash makes a word of the = in --name=value.\n"
          "    if [ \"$cur\" = = ]; then\n"
          "        cur='' prev+='='\n"
          "    elif [ \"$prev\" = = ]; then\n"
          "        prev=${COMP_WORDS[COMP_CWORD-2]}=\n"
          "    fi\n"
          "    case $command:$prev in\n",
          out);
    for (size_t i = 0; (cmd = command_at(i)); i++) {
        for (size_t o = 0; o < cmd->option_count; o++)
            bash_value(cmd, &cmd->options[o], out);
    }
    fputs("    esac\n"
          "    case $command in\n",
          out);
    for (size_t i = 0; (cmd = command_at(i)); i++)
        bash_command(cmd, out);
    fputs("    esac\n"
          "    if [ \"${cur:0:1}\" = - ]; then\n"
          "        _holdfast_words \"$options\"\n"
          "    elif [ -n \"$names\" ]; then\n"
          "        _holdfast_names \"$names\"\n"
          "    else\n"
          "        _holdfast_words \"$words\"\n"
          "    fi\n"
          "}\n"
          "\n"
          "complete -F _holdfast holdfast\n",
          out);
}

/* ---- zsh ---- */

/* Escapes text inside single quotes, in a place where ':', '[' and ']' are special for zsh. */
static void zsh_text(const char *text, FILE *out)
{
    for (; *text; text++) {
        if (*text == '\'')
            fputs("'\\''", out);
        else if (strchr(":[]\\", *text))
            fprintf(out, "\\%c", *text);
        else
            fputc(*text, out);
    }
}

static void zsh_action(const struct option *o, FILE *out)
{
    if (has_choices(o)) {
        fputc('(', out);
        choices_print(o, out);
        fputc(')', out);
    } else if (o->kind == OPTION_FILE) {
        fputs("_files", out);
    } else if (o->kind == OPTION_DIR) {
        fputs("_files -/", out);
    } else {
        fputc(' ', out); /* a value of unknown kind is expected */
    }
}

static void zsh_option(const struct option *o, FILE *out)
{
    char name[OPTION_NAME_MAX];
    option_name(o, name);
    fputs(" \\\n                ", out);
    if (o->kind == OPTION_LIST)
        fputs("'*'", out);
    else if (o->letter)
        fprintf(out, "'(-%c --%s)'", o->letter, name);
    const char *value = o->kind == OPTION_FLAG ? "" : o->kind == OPTION_SWITCH ? "=-" : "=";
    if (o->letter)
        fprintf(out, "{-%c%s,--%s%s}", o->letter, o->kind == OPTION_FLAG ? "" : "+", name, value);
    else
        fprintf(out, "--%s%s", name, value);
    fputs("'[", out);
    zsh_text(o->doc, out);
    fputc(']', out);
    if (o->kind != OPTION_FLAG) {
        fputs(o->kind == OPTION_SWITCH ? "::" : ":", out);
        zsh_text(o->argument, out);
        fputc(':', out);
        zsh_action(o, out);
    }
    fputc('\'', out);
}

static void zsh_command(const struct command *cmd, FILE *out)
{
    fprintf(out, "        %s)\n            _arguments '--help[explain this command]'", cmd->name);
    for (size_t i = 0; i < cmd->option_count; i++)
        zsh_option(&cmd->options[i], out);
    fputs(" \\\n                '*:argument:", out);
    const char *rest = cmd->args;
    const char *word;
    size_t len;
    enum word_kind kind = WORD_OTHER;
    bool any = args_word(&rest, &word, &len, &kind);
    if (any && kind == WORD_DIR) {
        fputs("_files -/", out);
    } else if (any && kind == WORD_FILE) {
        fputs("_files", out);
    } else {
        fputc('(', out);
        args_words(cmd, out);
        fputs(" )", out);
    }
    fputs("'\n            ;;\n", out);
}

static void completion_zsh(FILE *out)
{
    const struct command *cmd;
    fputs("#compdef holdfast\n"
          "# zsh completion for holdfast; made by `holdfast completion zsh`.\n"
          "\n"
          "_holdfast() {\n"
          "    local -a commands\n"
          "    commands=(\n",
          out);
    for (size_t i = 0; (cmd = command_at(i)); i++) {
        fprintf(out, "        '%s:", cmd->name);
        zsh_text(cmd->summary, out);
        fputs("'\n", out);
    }
    fputs("    )\n"
          "    if (( CURRENT == 2 )); then\n"
          "        _describe command commands\n"
          "        return\n"
          "    fi\n"
          "    shift words\n"
          "    (( CURRENT-- ))\n"
          "    case $words[1] in\n",
          out);
    for (size_t i = 0; (cmd = command_at(i)); i++)
        zsh_command(cmd, out);
    fputs("    esac\n"
          "}\n"
          "\n"
          "# As a file of fpath it is the function's body; sourced, it has to register.\n"
          "if [ \"$funcstack[1]\" = _holdfast ]; then\n"
          "    _holdfast \"$@\"\n"
          "else\n"
          "    compdef _holdfast holdfast\n"
          "fi\n",
          out);
}

int completion_command(const struct command *cmd, const struct arguments *args)
{
    if (strcmp(args->words[0], "bash") == 0)
        completion_bash(stdout);
    else if (strcmp(args->words[0], "zsh") == 0)
        completion_zsh(stdout);
    else
        return command_usage(cmd);
    return EXIT_DONE;
}
