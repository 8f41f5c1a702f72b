/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/client/terminal/table.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/client/terminal/text.h"

#define GAP 2         /* spaces between columns */
#define LAST_LEAST 12 /* the last column is never shortened below this */
#define COLUMNS_MOST 16

static bool terminal_has_colour(void)
{
    const char *none = getenv("NO_COLOR");
    const char *term = getenv("TERM");
    return !(none && *none) && term && strcmp(term, "dumb") != 0;
}

struct client_screen client_screen_of(FILE *out)
{
    struct client_screen screen = {.terminal = isatty(fileno(out))};
    struct winsize size;
    if (!screen.terminal)
        return screen;
    screen.colour = terminal_has_colour();
    if (ioctl(fileno(out), TIOCGWINSZ, &size) == 0)
        screen.columns = size.ws_col;
    return screen;
}

void client_table_init(struct client_table *t, const struct client_column *columns, size_t count)
{
    CHECK(count > 0 && count <= COLUMNS_MOST);
    *t = (struct client_table){.columns = columns, .count = count};
    buf_init(&t->text);
    buf_init(&t->cells);
}

void client_table_done(struct client_table *t)
{
    buf_done(&t->text);
    buf_done(&t->cells);
}

static size_t cells_of(const struct client_table *t)
{
    return t->cells.len / sizeof(struct client_cell);
}

static struct client_cell cell_at(const struct client_table *t, size_t index)
{
    struct client_cell cell;
    memcpy(&cell, t->cells.data + index * sizeof cell, sizeof cell);
    return cell;
}

void client_table_add(struct client_table *t, struct span text)
{
    const struct client_column *column = &t->columns[cells_of(t) % t->count];
    struct client_cell cell = {.at = t->text.len};
    if (t->error == 0)
        t->error =
            client_text_show(&t->text, text, column->most ? column->most : CLIENT_TEXT_WHOLE);
    if (t->error < 0)
        return;
    cell.len = t->text.len - cell.at;
    cell.width = client_text_width(span_of(t->text.data + cell.at, cell.len));
    t->error = buf_append(&t->cells, &cell, sizeof cell);
}

void client_table_addf(struct client_table *t, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    client_table_add(t, span_text(text));
}

static void widths_find(const struct client_table *t, size_t widths[COLUMNS_MOST])
{
    for (size_t c = 0; c < t->count; c++)
        widths[c] = client_text_width(span_text(t->columns[c].title));
    size_t cells = cells_of(t);
    for (size_t i = 0; i < cells; i++) {
        size_t width = cell_at(t, i).width;
        if (width > widths[i % t->count])
            widths[i % t->count] = width;
    }
}

/* On a narrow screen the last column is shortened. */
static void last_column_cut(const struct client_table *t, size_t columns,
                            size_t widths[COLUMNS_MOST])
{
    size_t before = 0;
    for (size_t c = 0; c + 1 < t->count; c++)
        before += widths[c] + GAP;
    size_t room = columns > before + LAST_LEAST ? columns - before : LAST_LEAST;
    if (columns > 0 && widths[t->count - 1] > room)
        widths[t->count - 1] = room;
}

static int cell_print(struct buf *line, struct span text, size_t width, bool right, bool last)
{
    size_t own = client_text_width(text);
    size_t pad = own < width ? width - own : 0;
    int rc = right ? buf_printf(line, "%*s", (int)pad, "") : 0;
    if (rc == 0)
        rc = client_text_show(line, text, width);
    if (rc == 0 && !last)
        rc = buf_printf(line, "%*s", (int)(right ? GAP : pad + GAP), "");
    return rc;
}

static int titles_print(const struct client_table *t, const size_t *widths, bool bold,
                        struct buf *line)
{
    int rc = bold ? buf_append_text(line, "\033[1m") : 0;
    for (size_t c = 0; c < t->count && rc == 0; c++)
        rc = cell_print(line, span_text(t->columns[c].title), widths[c], t->columns[c].right,
                        c + 1 == t->count);
    return rc < 0 || !bold ? rc : buf_append_text(line, "\033[0m");
}

static int row_print(const struct client_table *t, const size_t *widths, size_t first,
                     struct buf *line)
{
    int rc = 0;
    for (size_t c = 0; c < t->count && rc == 0; c++) {
        struct client_cell cell = cell_at(t, first + c);
        struct span text = span_of(t->text.data ? t->text.data + cell.at : "", cell.len);
        rc = cell_print(line, text, widths[c], t->columns[c].right, c + 1 == t->count);
    }
    return rc;
}

static void line_out(struct buf *line, FILE *out)
{
    while (line->len > 0 && line->data[line->len - 1] == ' ')
        line->len--;
    fwrite(line->data ? line->data : "", 1, line->len, out);
    fputc('\n', out);
    buf_clear(line);
}

int client_table_print(const struct client_table *t, FILE *out, const struct client_screen *screen)
{
    size_t widths[COLUMNS_MOST] = {0};
    struct buf line;
    CHECK(t->count > 0);
    if (t->error < 0)
        return t->error;
    widths_find(t, widths);
    last_column_cut(t, screen->columns, widths);
    buf_init(&line);
    int rc = titles_print(t, widths, screen->colour, &line);
    if (rc == 0)
        line_out(&line, out);
    for (size_t i = 0; i + t->count <= cells_of(t) && rc == 0; i += t->count) {
        rc = row_print(t, widths, i, &line);
        if (rc == 0)
            line_out(&line, out);
    }
    buf_done(&line);
    return rc;
}
