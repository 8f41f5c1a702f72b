/* SPDX-License-Identifier: Apache-2.0 */
/* The end of the control socket means that the supervisor, and with it the whole tree, has
 * ended. By then all output is in the pipes; it is read before they are closed. */
#include "cli/work/targets/command.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/work/targets/environment.h"
#include "cli/work/targets/supervisor.h"

enum { INPUT, OUTPUT, ERRORS, PROGRESS, CONTROL, PIPES };
#define READ_BYTES 65536
#define DRAIN_BYTES_MAX ((size_t)4 << 20) /* more than a pipe can hold */
#define LINE_BYTES_MAX 4096               /* of progress */

struct command_run {
    const struct work_plan *plan;
    struct target_owner owner;
    pid_t supervisor;
    uv_pipe_t pipes[PIPES];
    size_t open; /* handles that are not closed yet */
    bool over;   /* the handles are being closed */
    uv_write_t input;
    struct buf output;
    uint64_t output_bytes;
    struct buf line; /* incomplete line of progress */
    char message[sizeof(struct supervisor_message)];
    size_t message_len;
    int start_error; /* errno */
    int status;      /* of waitpid */
    bool has_status;
    bool by_itself; /* it ended before it was terminated */
    bool abandoned; /* some processes could not be killed */
    bool abandon;   /* the owner does not wait for the end */
    char text[256]; /* sentence for the end */
    char buffer[READ_BYTES];
};

/* ---- the end ---- */

static struct target_end end_of(struct command_run *c)
{
    struct target_end end = {.output = buf_span(&c->output),
                             .output_bytes = c->output_bytes,
                             .by_itself = c->by_itself,
                             .abandoned = c->abandoned};
    if (c->start_error) {
        snprintf(c->text, sizeof c->text, "the command %.100s cannot be started: %s",
                 c->plan->command[0], strerror(c->start_error));
        end.verdict = (struct verdict){.verb = WORK_PROBLEM, .type = "not started"};
        end.error = c->text;
    } else if (!c->has_status) {
        end.verdict = (struct verdict){.verb = WORK_PROBLEM, .type = "no status"};
        end.error = "the supervisor of the command ended before the command";
    } else {
        end.verdict = verdict_of_exit(&c->plan->exits, c->status);
    }
    return end;
}

static void closed_cb(uv_handle_t *handle)
{
    struct command_run *c = handle->data;
    if (--c->open > 0)
        return;
    struct target_end end = end_of(c);
    if (!c->abandon)
        c->owner.ended(c->owner.ctx, &end);
    buf_done(&c->output);
    buf_done(&c->line);
    mem_free(c);
}

/* ---- what the command writes ---- */

static void output_take(struct command_run *c, struct span bytes)
{
    size_t room = WORK_RESULT_BYTES_MAX - c->output.len;
    c->output_bytes += bytes.len;
    if (buf_append(&c->output, bytes.at, bytes.len < room ? bytes.len : room) < 0)
        return; /* the result is shown as truncated */
}

static void progress_take(struct command_run *c, struct span bytes)
{
    for (size_t i = 0; i < bytes.len; i++) {
        if (bytes.at[i] == '\n') {
            c->owner.progress(c->owner.ctx, buf_span(&c->line));
            buf_clear(&c->line);
        } else if (c->line.len < LINE_BYTES_MAX) {
            (void)!buf_append(&c->line, &bytes.at[i], 1);
        }
    }
}

/* The last line may have no line break. */
static void progress_end(struct command_run *c)
{
    if (c->line.len > 0)
        progress_take(c, SPAN_LITERAL("\n"));
}

static void message_take(struct command_run *c, const struct supervisor_message *m)
{
    if (m->what == SUPERVISOR_NOT_STARTED)
        c->start_error = m->value;
    if (m->what == SUPERVISOR_ABANDONED)
        c->abandoned = true;
    if (m->what == SUPERVISOR_ENDED || m->what == SUPERVISOR_TERMINATED) {
        c->status = m->value;
        c->has_status = true;
        c->by_itself = m->what == SUPERVISOR_ENDED;
    }
}

static void control_take(struct command_run *c, struct span bytes)
{
    for (size_t i = 0; i < bytes.len; i++) {
        c->message[c->message_len++] = bytes.at[i];
        if (c->message_len < sizeof c->message)
            continue;
        struct supervisor_message m;
        memcpy(&m, c->message, sizeof m);
        message_take(c, &m);
        c->message_len = 0;
    }
}

static void bytes_take(struct command_run *c, int which, struct span bytes)
{
    if (which == OUTPUT)
        output_take(c, bytes);
    else if (which == ERRORS)
        c->owner.errors(c->owner.ctx, bytes);
    else if (which == PROGRESS)
        progress_take(c, bytes);
    else
        control_take(c, bytes);
}

static void drain(struct command_run *c, int which)
{
    uv_os_fd_t fd;
    ssize_t len;
    size_t sum = 0;
    if (uv_is_closing((uv_handle_t *)&c->pipes[which]) ||
        uv_fileno((uv_handle_t *)&c->pipes[which], &fd) != 0)
        return;
    while (sum < DRAIN_BYTES_MAX && (len = read(fd, c->buffer, sizeof c->buffer)) > 0) {
        bytes_take(c, which, span_of(c->buffer, (size_t)len));
        sum += (size_t)len;
    }
}

static void pipes_close(struct command_run *c)
{
    c->over = true;
    for (int i = 0; i < PIPES; i++) {
        if (!uv_is_closing((uv_handle_t *)&c->pipes[i]))
            uv_close((uv_handle_t *)&c->pipes[i], closed_cb);
    }
}

static void command_over(struct command_run *c)
{
    if (c->over)
        return;
    for (int i = OUTPUT; i <= PROGRESS; i++)
        drain(c, i);
    progress_end(c);
    (void)waitpid(c->supervisor, NULL,
                  0); /* it has closed its socket, which means that it has ended */
    pipes_close(c);
}

static void alloc_cb(uv_handle_t *handle, size_t wanted, uv_buf_t *ret)
{
    struct command_run *c = handle->data;
    (void)wanted;
    *ret = uv_buf_init(c->buffer, sizeof c->buffer);
}

static void read_cb(uv_stream_t *stream, ssize_t len, const uv_buf_t *bytes)
{
    struct command_run *c = stream->data;
    int which = (int)((uv_pipe_t *)stream - c->pipes);
    if (len > 0)
        bytes_take(c, which, span_of(bytes->base, (size_t)len));
    else if (len < 0 && which == CONTROL)
        command_over(c);
    else if (len < 0)
        uv_close((uv_handle_t *)stream, closed_cb);
    if (len < 0 && which == PROGRESS)
        progress_end(c);
}

static void input_cb(uv_write_t *request, int status)
{
    struct command_run *c = request->data;
    (void)status; /* a command need not read its input */
    if (!uv_is_closing((uv_handle_t *)&c->pipes[INPUT]))
        uv_close((uv_handle_t *)&c->pipes[INPUT], closed_cb);
}

/* ---- the start ---- */

/* The runner's and the command's end of each pipe, -1 = not open. */
struct pipe_ends {
    int ours[PIPES], theirs[PIPES];
};

static void ends_close(int fds[PIPES])
{
    for (int i = 0; i < PIPES; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
    }
}

static bool ends_open(struct pipe_ends *e)
{
    int pair[2];
    for (int i = 0; i < PIPES; i++)
        e->ours[i] = e->theirs[i] = -1;
    for (int i = 0; i < PIPES; i++) {
        int rc = i == CONTROL ? socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)
                              : pipe2(pair, O_CLOEXEC);
        if (rc != 0)
            return false;
        e->ours[i] = i == INPUT ? pair[1] : pair[0];
        e->theirs[i] = i == INPUT ? pair[0] : pair[1];
    }
    return true;
}

static void pipes_begin(struct command_run *c, uv_loop_t *loop, const struct pipe_ends *e,
                        struct span payload)
{
    uv_buf_t all = uv_buf_init((char *)payload.at, (unsigned)payload.len);
    for (int i = 0; i < PIPES; i++) {
        (void)uv_pipe_init(loop, &c->pipes[i], 0);
        c->pipes[i].data = c;
        c->open++;
        if (uv_pipe_open(&c->pipes[i], e->ours[i]) != 0)
            close(e->ours[i]);
        else if (i != INPUT)
            (void)uv_read_start((uv_stream_t *)&c->pipes[i], alloc_cb, read_cb);
    }
    c->input.data = c;
    if (uv_write(&c->input, (uv_stream_t *)&c->pipes[INPUT], &all, 1, input_cb) != 0)
        uv_close((uv_handle_t *)&c->pipes[INPUT], closed_cb);
}

static pid_t fork_with(const struct work_plan *plan, char **environment, const struct pipe_ends *e)
{
    return supervisor_start(&(struct supervisor_setup){
        .argv = plan->command,
        .environment = environment,
        .input = e->theirs[INPUT],
        .output = e->theirs[OUTPUT],
        .errors = e->theirs[ERRORS],
        .progress = e->theirs[PROGRESS],
        .control = e->theirs[CONTROL],
        .kill_after_ms = plan->kill_after_ms,
        .files = plan->files,
    });
}

int command_start(uv_loop_t *loop, const struct work_plan *plan, struct work_job *job,
                  struct target_owner owner, struct command_run **ret, struct err_note *note)
{
    struct pipe_ends ends;
    char **environment;
    struct command_run *c = mem_alloc(sizeof *c);
    if (!c || environment_of(job, &plan->to, environ, &environment) < 0) {
        mem_free(c);
        return err_note_set(note, -ERR_NOMEM, "out of memory");
    }
    memset(c, 0, offsetof(struct command_run, buffer));
    c->plan = plan;
    c->owner = owner;
    c->supervisor = -1;
    if (ends_open(&ends))
        c->supervisor = fork_with(plan, environment, &ends);
    int error = errno;
    ends_close(ends.theirs);
    if (c->supervisor < 0) {
        ends_close(ends.ours);
        mem_free(c);
        return err_note_set(note, -ERR_IO, "no process could be created for the command: %s",
                            strerror(error));
    }
    pipes_begin(c, loop, &ends, job->payload);
    *ret = c;
    return 0;
}

void command_terminate(struct command_run *c, int64_t kill_after_ms)
{
    struct supervisor_message m = {SUPERVISOR_TERMINATE, (int32_t)kill_after_ms};
    uv_os_fd_t fd;
    if (c->over || uv_fileno((uv_handle_t *)&c->pipes[CONTROL], &fd) != 0)
        return;
    (void)!send(fd, &m, sizeof m, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)kill(c->supervisor, SIGCONT); /* its command may have stopped it */
}

bool command_has_ended(const struct command_run *c)
{
    return c->has_status;
}

void command_abandon(struct command_run *c)
{
    c->abandon = true;
    if (!c->over)
        pipes_close(c);
}
