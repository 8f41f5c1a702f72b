/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/shared/dependencies.h"

#include "backend/shared/shared.h"
#include "base/check.h"
#include "base/mem.h"

static struct row *row_of(const struct job *j)
{
    return (struct row *)(uintptr_t)j;
}

/* --- the unit --- */

void unit_dependencies_init(struct unit *u)
{
    map64_init(&u->deps.parent_map);
}

void unit_dependencies_reset(struct unit *u)
{
    struct unit_dependencies *d = &u->deps;
    if (d->parent_count) {
        map64_done(&d->parent_map);
        map64_init(&d->parent_map);
    }
    d->open_count = d->wanted_count = d->wanted_key_count = d->parent_count = 0;
    d->known.count = d->added.count = d->told.count = 0;
    d->sorted = false;
}

void unit_dependencies_done(struct unit *u)
{
    struct unit_dependencies *d = &u->deps;
    map64_done(&d->parent_map);
    mem_free(d->open);
    mem_free(d->wanted);
    mem_free(d->wanted_keys);
    mem_free(d->parents);
    mem_free(d->known.at);
    mem_free(d->added.at);
    mem_free(d->told.at);
}

/* --- what to load --- */

static void want_open(struct unit *u, uint64_t seq)
{
    struct unit_dependencies *d = &u->deps;
    bool repeated = d->open_count && d->open[d->open_count - 1] == seq;
    if (seq && !repeated && unit_room(u, &d->open, &d->open_room, d->open_count, sizeof *d->open))
        d->open[d->open_count++] = seq;
}

static void want_parent(struct unit *u, uint64_t seq)
{
    struct unit_dependencies *d = &u->deps;
    if (seq && unit_room(u, &d->wanted, &d->wanted_room, d->wanted_count, sizeof *d->wanted))
        d->wanted[d->wanted_count++] = seq;
}

/* The job of the same commit may exist already. */
static void want_parent_key(struct unit *u, const struct op_enqueue *parent)
{
    struct unit_dependencies *d = &u->deps;
    if (parent->idempotency_key.len && unit_room(u, &d->wanted_keys, &d->wanted_key_room,
                                                 d->wanted_key_count, sizeof *d->wanted_keys))
        d->wanted_keys[d->wanted_key_count++] =
            hash128_of(u->s->facts.hash_key, parent->idempotency_key);
}

static void ask_enqueue(struct unit *u, const struct op_enqueue *list, size_t index)
{
    const struct op_depends *d = list[index].depends;
    want_open(u, list[index].member_of.seq);
    for (uint32_t i = 0; d && i < d->count && d->count <= LIMIT_DEPENDENCIES; i++) {
        const struct dependency_ref *ref = &d->parents[i];
        if (ref->job.seq)
            want_parent(u, ref->job.seq);
        else if (ref->index < index)
            want_parent_key(u, &list[ref->index]);
    }
}

void unit_dependencies_ask(struct unit *u)
{
    const struct op_enqueue *list;
    for (size_t i = 0; i < u->count; i++) {
        const struct op *op = u->turns[i].op;
        size_t count = turn_enqueues(&u->turns[i], &list);
        for (size_t k = 0; k < count; k++)
            ask_enqueue(u, list, k);
        if (op->kind != OP_DEPENDENCIES)
            continue;
        want_open(u, op->dependencies.job.seq);
        for (uint32_t k = 0;
             k < op->dependencies.count && op->dependencies.count <= LIMIT_DEPENDENCIES; k++)
            want_parent(u, op->dependencies.parents[k].seq);
    }
}

size_t unit_dependencies_each_new(struct unit *u, edge_fn fn)
{
    size_t n = 0;
    for (size_t i = 0; i < u->count; i++) {
        const struct op *op = u->turns[i].op;
        if (op->kind != OP_DEPENDENCIES || op->dependencies.count > LIMIT_DEPENDENCIES)
            continue;
        for (uint32_t k = 0; k < op->dependencies.count; k++, n++)
            fn(u, op->dependencies.job.seq, op->dependencies.parents[k].seq);
    }
    return n;
}

/* --- what was loaded --- */

static struct wparent *parent_find(const struct unit *u, uint64_t seq)
{
    uint32_t at = u->deps.parent_count ? map64_get(&u->deps.parent_map, seq) : 0;
    return at ? &u->deps.parents[at - 1] : NULL;
}

void unit_parent_loaded(struct unit *u, const struct wparent *p)
{
    struct unit_dependencies *d = &u->deps;
    if (p->seq == 0 || parent_find(u, p->seq) ||
        !unit_room(u, &d->parents, &d->parent_room, d->parent_count, sizeof *d->parents))
        return;
    d->parents[d->parent_count++] = *p;
    u->nomem |= map64_put(&d->parent_map, p->seq, (uint32_t)d->parent_count) != 0;
}

void unit_parent_settling(struct unit *u, uint64_t seq)
{
    struct wparent *p = parent_find(u, seq);
    if (p)
        p->settling = true;
}

bool dependent_right(const struct dependent *d)
{
    return dependent_fits(d, 0);
}

void unit_dependent_loaded(struct unit *u, uint64_t seq, const struct dependent *d)
{
    struct row *r = unit_row(u, seq);
    if (!r || r->dependent || !dependent_right(d))
        return;
    r->dependent = unit_alloc(u, sizeof *r->dependent);
    if (r->dependent)
        r->dependent->dependent = *d;
}

static void edge_add(struct unit *u, struct edge_list *list, uint64_t child, uint64_t parent)
{
    if (unit_room(u, &list->at, &list->room, list->count, sizeof *list->at))
        list->at[list->count++] = (struct wedge){.child = child, .parent = parent};
}

void unit_edge_loaded(struct unit *u, uint64_t child, uint64_t parent)
{
    edge_add(u, &u->deps.known, child, parent);
}

void unit_dependencies_wake(struct unit *u, queue_fn fn)
{
    struct span last = {NULL, 0};
    for (size_t i = 0; i < u->deps.parent_count; i++) {
        struct span queue = u->deps.parents[i].queue;
        if (queue.len && !span_equal(queue, last))
            fn(u, queue);
        last = queue.len ? queue : last;
    }
}

/* --- struct dependency_store --- */

static bool dependent_find(const struct ops *o, const struct job *j, struct dependent *ret,
                           uint32_t *ret_waits)
{
    const struct wdependent *d = row_of(j)->dependent;
    (void)o;
    if (!d)
        return false;
    *ret = d->dependent;
    *ret_waits = dependent_waits(&d->dependent);
    return true;
}

/* The state of a job that ended in this unit and was removed with its end, as queues do that keep
 * no such jobs. */
static uint8_t state_of_gone(const struct row *r, struct job_ref ref)
{
    bool ended = r->gone && r->end != DEPENDENCY_END_NONE &&
                 dependency_end_of(r->job.state) == (enum dependency_end)r->end;
    return ended && (!ref.hi || ref.hi == r->job.id_hi) ? r->job.state : STATE_NONE;
}

/* A job that ended in this unit will be settling after it, even if it was requeued. */
static uint8_t parent_state(struct ops *o, struct job_ref ref, bool *ret_settling)
{
    const struct unit *u = unit_of(o);
    const struct wparent *p = parent_find(u, ref.seq);
    const struct row *r = unit_row(u, ref.seq);
    *ret_settling = (p && p->settling) || (r && r->end);
    if (r)
        return unit_find(u, ref) ? r->job.state : state_of_gone(r, ref);
    return p && (!ref.hi || ref.hi == p->hi) ? p->state : STATE_NONE;
}

static bool dependency_prepare(struct ops *o, size_t dependents, size_t parents)
{
    (void)dependents, (void)parents;
    return !o->nomem;
}

static size_t dependency_bytes(size_t dependents, size_t parents)
{
    (void)dependents, (void)parents;
    return 0;
}

/* The row changes with it, so that stores that compare revisions of rows notice it. */
static struct wdependent *dependent_of(struct unit *u, struct row *r)
{
    if (!r->dependent)
        r->dependent = unit_alloc(u, sizeof *r->dependent);
    if (!r->dependent)
        return NULL;
    r->dependent->changed = r->changed = true;
    u->records++;
    return r->dependent;
}

static void dependent_put(struct ops *o, const struct job *j, const struct dependent *d)
{
    struct wdependent *w = dependent_of(unit_of(o), row_of(j));
    if (w)
        w->dependent = *d;
}

static void dependencies_add(struct ops *o, const struct job *j, const uint64_t *parents,
                             uint32_t count)
{
    struct unit *u = unit_of(o);
    struct wdependent *w = dependent_of(u, row_of(j));
    for (uint32_t i = 0; i < count; i++)
        edge_add(u, &u->deps.added, j->seq, parents[i]);
    if (w)
        w->dependent.counts[DEPENDENCY_END_NONE] += count;
}

static int map_edges(struct map64 *has, const struct edge_list *list, uint64_t child)
{
    int err = 0;
    for (size_t i = 0; !err && i < list->count; i++)
        if (list->at[i].child == child)
            err = map64_put(has, list->at[i].parent, 1);
    return err;
}

static uint32_t dependencies_without(struct ops *o, const struct job *j, uint64_t *parents,
                                     uint32_t count)
{
    const struct unit *u = unit_of(o);
    struct map64 has;
    uint32_t left = 0;
    map64_init(&has);
    int err = map_edges(&has, &u->deps.known, j->seq);
    if (!err)
        err = map_edges(&has, &u->deps.added, j->seq);
    for (uint32_t i = 0; !err && i < count; i++)
        if (!map64_get(&has, parents[i]))
            parents[left++] = parents[i];
    map64_done(&has);
    return err ? UINT32_MAX : left;
}

const struct dependency_store unit_dependency_store = {
    .find = dependent_find,
    .parent_state = parent_state,
    .prepare = dependency_prepare,
    .bytes = dependency_bytes,
    .put = dependent_put,
    .add = dependencies_add,
    .without = dependencies_without,
};

/* --- ends --- */

void unit_dependencies_moved(struct row *r, uint8_t from, uint8_t to)
{
    enum dependency_end end = dependency_end_of(to);
    if (r->end == DEPENDENCY_END_NONE && from != STATE_NONE && (STATE_BIT(from) & STATES_LIVE))
        r->end = (uint8_t)end;
}

static int by_edge(const void *a, const void *b)
{
    const struct wedge *x = a, *y = b;
    if (x->child != y->child)
        return x->child < y->child ? -1 : 1;
    return x->parent < y->parent ? -1 : x->parent > y->parent;
}

/* The loaded edges in order, each once. */
static void sort_known(struct edge_list *l)
{
    size_t n = 0;
    qsort(l->at, l->count, sizeof *l->at, by_edge);
    for (size_t i = 0; i < l->count; i++)
        if (n == 0 || by_edge(&l->at[n - 1], &l->at[i]) != 0)
            l->at[n++] = l->at[i];
    l->count = n;
}

void unit_edge_ends(struct unit *u, uint64_t child, uint64_t parent, uint8_t how)
{
    struct unit_dependencies *d = &u->deps;
    struct wedge key = {.child = child, .parent = parent};
    if (!d->sorted)
        sort_known(&d->known);
    d->sorted = true;
    struct wedge *e =
        d->known.count ? bsearch(&key, d->known.at, d->known.count, sizeof key, by_edge) : NULL;
    if (e)
        e->how = how;
}

static void tell(struct unit *u, const struct wedge *e)
{
    struct row *r = unit_row(u, e->child);
    bool waits = r && unit_row_there(r) && r->job.state == STATE_BLOCKED && r->dependent;
    if (!waits || e->how == DEPENDENCY_END_NONE)
        return;
    struct wdependent *d = dependent_of(u, r);
    if (!d)
        return;
    d->dependent.counts[e->how]++;
    u->nomem |= !ops_dependent_settle(unit_ops(u), &r->job);
}

void unit_dependencies_told(struct unit *u)
{
    struct unit_dependencies *d = &u->deps;
    if (!d->sorted)
        sort_known(&d->known);
    for (size_t i = 0; i < d->known.count && !u->nomem; i++)
        tell(u, &d->known.at[i]);
    struct edge_list told = d->told;
    d->told = d->known;
    d->known = told;
    d->known.count = 0;
}
