/* SPDX-License-Identifier: Apache-2.0 */
/* A main for the fuzz targets where libFuzzer is not linked: it feeds files, and on request random
 * mutations of them, to LLVMFuzzerTestOneInput.
 *
 *   fuzz_x [--runs N | --mutate SECONDS] [--seed N] [--save FILE] FILE|FOLDER…
 *
 * Every input is first run as it is, folders in the order of their names, so a run with --runs and
 * a seed repeats exactly. An input that breaks the target is written to the file of --save. Exit
 * status: 0 all inputs survived, 2 wrong usage; a target that breaks ends the process itself. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
__attribute__((weak)) int LLVMFuzzerInitialize(int *argc, char ***argv);
/* Present in programs linked with a sanitizer. */
__attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)(void));

enum {
    MUTANT_MAX = 64 * 1024, /* bytes; larger kept inputs run as they are, mutants are cut */
    STEPS_MAX = 8,          /* changes from a kept input to a mutant */
};

struct input {
    uint8_t *data;
    size_t size;
};

struct corpus {
    struct input *inputs;
    size_t count;
    size_t room;
};

struct options {
    uint64_t runs;     /* mutants to run; 0: none */
    uint64_t seconds;  /* time to spend on mutants; 0: see runs */
    uint64_t seed;     /* of the mutations */
    const char *save;  /* where a breaking input goes; NULL: nowhere */
    char **paths;      /* files and folders, in the order given */
    size_t path_count; /* how many */
};

/* What the target is working on, for the handler that runs when it breaks. */
static struct input current;
static const char *current_save;

static void *must_alloc(size_t size)
{
    void *memory = malloc(size ? size : 1);
    if (!memory) {
        fputs("driver: out of memory\n", stderr);
        exit(2);
    }
    return memory;
}

static void die_errno(const char *path)
{
    fprintf(stderr, "driver: %s: %s\n", path, strerror(errno));
    exit(2);
}

/* Runs inside signal handlers: system calls only. */
static void breaking_input_save(void)
{
    if (!current.data || !current_save)
        return;
    int fd = open(current_save, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
        return;
    if (write(fd, current.data, current.size) == (ssize_t)current.size) {
        static const char text[] = "driver: the breaking input is in the file of --save\n";
        if (write(STDERR_FILENO, text, sizeof(text) - 1) < 0)
            _exit(1);
    }
    close(fd);
}

static void abort_cb(int number)
{
    breaking_input_save();
    signal(number, SIG_DFL);
    raise(number);
}

/* Each run gets a copy of exactly its size, so that reading one byte too far is seen. */
static void target_run(const uint8_t *data, size_t size)
{
    current.data = must_alloc(size);
    current.size = size;
    if (size)
        memcpy(current.data, data, size);
    LLVMFuzzerTestOneInput(current.data, size);
    free(current.data);
    current.data = NULL;
}

/* ---- reading the corpus ---- */

static void corpus_add_file(struct corpus *corpus, const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0)
        die_errno(path);

    size_t size = (size_t)st.st_size;
    size_t got = 0;
    uint8_t *data = must_alloc(size);
    while (got < size) {
        ssize_t n = read(fd, data + got, size - got);
        if (n < 0)
            die_errno(path);
        if (n == 0)
            break;
        got += (size_t)n;
    }
    close(fd);

    if (corpus->count == corpus->room) {
        corpus->room = corpus->room ? corpus->room * 2 : 64;
        corpus->inputs = realloc(corpus->inputs, corpus->room * sizeof(*corpus->inputs));
        if (!corpus->inputs)
            die_errno("corpus");
    }
    corpus->inputs[corpus->count++] = (struct input){.data = data, .size = got};
}

static int not_hidden(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static void corpus_add(struct corpus *corpus, const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0)
        die_errno(path);
    if (!S_ISDIR(st.st_mode)) {
        corpus_add_file(corpus, path);
        return;
    }
    struct dirent **entries = NULL;
    int count = scandir(path, &entries, not_hidden, alphasort);
    if (count < 0)
        die_errno(path);
    for (int i = 0; i < count; i++) {
        size_t size = strlen(path) + strlen(entries[i]->d_name) + 2;
        char *below = must_alloc(size);
        snprintf(below, size, "%s/%s", path, entries[i]->d_name);
        corpus_add(corpus, below);
        free(below);
        free(entries[i]);
    }
    free(entries);
}

static void corpus_done(struct corpus *corpus)
{
    for (size_t i = 0; i < corpus->count; i++)
        free(corpus->inputs[i].data);
    free(corpus->inputs);
}

/* ---- mutation ---- */

/* splitmix64 */
static uint64_t random_next(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static size_t random_below(uint64_t *state, size_t limit)
{
    return limit ? (size_t)(random_next(state) % limit) : 0;
}

struct mutant {
    uint8_t data[MUTANT_MAX];
    size_t size;
};

static void mutant_insert(struct mutant *m, size_t at, const uint8_t *bytes, size_t size)
{
    if (size > MUTANT_MAX - m->size)
        size = MUTANT_MAX - m->size;
    memmove(m->data + at + size, m->data + at, m->size - at);
    memcpy(m->data + at, bytes, size);
    m->size += size;
}

static void mutant_remove(struct mutant *m, size_t at, size_t size)
{
    memmove(m->data + at, m->data + at + size, m->size - at - size);
    m->size -= size;
}

/* Numbers at the edges of integer types, little-endian, 1 to 8 bytes of them. */
static void mutant_put_edge(struct mutant *m, uint64_t *random)
{
    static const uint64_t edges[] = {0,          1,          0x7f,       0x80,
                                     0xff,       0x7fff,     0x8000,     0xffff,
                                     0x7fffffff, 0x80000000, 0xffffffff, INT64_MAX,
                                     UINT64_MAX, 1000,       4096,       UINT64_C(1) << 53};
    uint64_t edge = edges[random_below(random, sizeof(edges) / sizeof(edges[0]))];
    size_t width = (size_t)1 << random_below(random, 4);
    if (width > m->size)
        return;
    size_t at = random_below(random, m->size - width + 1);
    for (size_t i = 0; i < width; i++)
        m->data[at + i] = (uint8_t)(edge >> (8 * i));
}

static void mutant_step(struct mutant *m, const struct corpus *corpus, uint64_t *random)
{
    size_t at = random_below(random, m->size);
    size_t span = 1 + random_below(random, 16);
    uint8_t byte = (uint8_t)random_next(random);

    if (m->size == 0) {
        mutant_insert(m, 0, &byte, 1);
        return;
    }
    if (span > m->size - at)
        span = m->size - at;
    switch (random_below(random, 8)) {
    case 0:
        m->data[at] ^= (uint8_t)(1u << (byte & 7));
        break;
    case 1:
        m->data[at] = byte;
        break;
    case 2:
        mutant_insert(m, at, &byte, 1);
        break;
    case 3:
        mutant_remove(m, at, span);
        break;
    case 4: { /* a piece of itself, elsewhere */
        uint8_t piece[16];
        memcpy(piece, m->data + at, span);
        mutant_insert(m, random_below(random, m->size + 1), piece, span);
        break;
    }
    case 5:
        mutant_put_edge(m, random);
        break;
    case 6: /* cut short */
        m->size = at;
        break;
    default: { /* a piece of another input */
        const struct input *other = &corpus->inputs[random_below(random, corpus->count)];
        size_t from = random_below(random, other->size);
        size_t size = random_below(random, other->size - from + 1);
        mutant_insert(m, at, other->data + from, size);
    }
    }
}

static void mutant_run(const struct corpus *corpus, struct mutant *m, uint64_t *random)
{
    const struct input *from = &corpus->inputs[random_below(random, corpus->count)];
    m->size = from->size < MUTANT_MAX ? from->size : MUTANT_MAX;
    memcpy(m->data, from->data, m->size);
    for (size_t steps = 1 + random_below(random, STEPS_MAX); steps > 0; steps--)
        mutant_step(m, corpus, random);
    target_run(m->data, m->size);
}

static uint64_t mono_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec;
}

/* Returns how many mutants ran. */
static uint64_t mutants_run(const struct corpus *corpus, const struct options *options)
{
    uint64_t random = options->seed;
    uint64_t done = 0;
    uint64_t end = mono_s() + options->seconds;
    struct mutant *m = must_alloc(sizeof(*m));
    while (options->seconds ? mono_s() < end : done < options->runs) {
        mutant_run(corpus, m, &random);
        done++;
    }
    free(m);
    return done;
}

/* ---- the command line ---- */

static void usage_exit(void)
{
    fputs("usage: fuzz_x [--runs N | --mutate SECONDS] [--seed N] [--save FILE] FILE|FOLDER…\n",
          stderr);
    exit(2);
}

static uint64_t number_parse(const char *text)
{
    char *end;
    errno = 0;
    unsigned long long value = text ? strtoull(text, &end, 10) : 0;
    if (!text || errno || end == text || *end)
        usage_exit();
    return value;
}

static void options_parse(struct options *options, int argc, char **argv)
{
    options->paths = must_alloc((size_t)argc * sizeof(char *));
    for (int i = 1; i < argc; i++) {
        /* argv ends with NULL, so the value of a last option is NULL. */
        if (strcmp(argv[i], "--runs") == 0)
            options->runs = number_parse(argv[++i]);
        else if (strcmp(argv[i], "--mutate") == 0)
            options->seconds = number_parse(argv[++i]);
        else if (strcmp(argv[i], "--seed") == 0)
            options->seed = number_parse(argv[++i]);
        else if (strcmp(argv[i], "--save") == 0 && argv[i + 1])
            options->save = argv[++i];
        else if (argv[i][0] == '-')
            usage_exit();
        else
            options->paths[options->path_count++] = argv[i];
    }
}

int main(int argc, char **argv)
{
    struct options options = {.seed = 1};
    struct corpus corpus = {0};

    options_parse(&options, argc, argv);
    if (LLVMFuzzerInitialize)
        LLVMFuzzerInitialize(&argc, &argv);
    current_save = options.save;
    signal(SIGABRT, abort_cb);
    if (__sanitizer_set_death_callback)
        __sanitizer_set_death_callback(breaking_input_save);

    for (size_t i = 0; i < options.path_count; i++)
        corpus_add(&corpus, options.paths[i]);
    size_t kept = corpus.count;
    target_run(NULL, 0); /* the empty input belongs to every corpus */
    for (size_t i = 0; i < kept; i++)
        target_run(corpus.inputs[i].data, corpus.inputs[i].size);

    uint64_t mutants = 0;
    if (options.runs || options.seconds) {
        if (kept == 0) {
            fputs("driver: nothing to mutate: no input given\n", stderr);
            exit(2);
        }
        mutants = mutants_run(&corpus, &options);
    }
    printf("%zu inputs, %" PRIu64 " mutants from seed %" PRIu64 "\n", kept, mutants, options.seed);
    corpus_done(&corpus);
    free(options.paths);
    return 0;
}
