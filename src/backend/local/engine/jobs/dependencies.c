/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs that depend on others (ops/jobs/dependencies.c has the rules).
 *
 * A node exists for each job that depends on others, until it is removed, and for each job on which
 * a job depends. An edge leads from a parent to a dependent that still waits for it. Each edge is
 * in two lists, that of its parent and that of its dependent, so that either can be emptied from
 * the front, and the number of edges of a dependent is the number of parents that it waits for.
 *
 * When a job on which others depend ends, its node is put on the work list. The end of each step
 * and each tick remove edges of these nodes, at most a slice of them, each with a record, and
 * settle the dependents that wait for no other parent. So the last ack and the change of its
 * dependent are in one frame, and a parent with 10,000 dependents takes ten slices. A dependent
 * that is no longer blocked (cancelled, expired, removed) drops its edges in the same way.
 *
 * How a parent ended is known from its state. Before that is lost (a requeue, a removal) while
 * edges are left, it gets a record (dependencies_secure). */
#include "backend/local/engine/engine_impl.h"

void dependencies_init(struct engine *e)
{
    slab_init(&e->deps.nodes, sizeof(struct dependency_node));
    slab_init(&e->deps.edges, sizeof(struct dependency_edge));
    map64_init(&e->deps.by_seq);
}

void dependencies_done(struct engine *e)
{
    slab_done(&e->deps.nodes);
    slab_done(&e->deps.edges);
    map64_done(&e->deps.by_seq);
}

uint64_t dependencies_bytes(const struct engine *e)
{
    return slab_bytes(&e->deps.nodes) + slab_bytes(&e->deps.edges) + map64_bytes(&e->deps.by_seq);
}

/* --- the work list --- */

static void work_add(struct engine *e, uint32_t handle)
{
    struct dependency_node *n = dependency_node_at(e, handle);
    if (n->working)
        return;
    n->working = true;
    n->work_prev = e->deps.work_last;
    n->work_next = 0;
    if (e->deps.work_last)
        dependency_node_at(e, e->deps.work_last)->work_next = handle;
    else
        e->deps.work_first = handle;
    e->deps.work_last = handle;
}

static void work_remove(struct engine *e, uint32_t handle)
{
    struct dependency_node *n = dependency_node_at(e, handle);
    if (!n->working)
        return;
    if (n->work_prev)
        dependency_node_at(e, n->work_prev)->work_next = n->work_next;
    else
        e->deps.work_first = n->work_next;
    if (n->work_next)
        dependency_node_at(e, n->work_next)->work_prev = n->work_prev;
    else
        e->deps.work_last = n->work_prev;
    n->working = false;
}

/* --- nodes and edges --- */

static uint32_t node_need(struct engine *e, uint64_t seq)
{
    uint32_t handle = map64_get(&e->deps.by_seq, seq);
    if (handle)
        return handle;
    handle = slab_take(&e->deps.nodes);
    if (handle && map64_put(&e->deps.by_seq, seq, handle) != 0) {
        slab_give(&e->deps.nodes, handle);
        return 0;
    }
    if (handle)
        dependency_node_at(e, handle)->seq = seq;
    return handle;
}

static void node_drop_unused(struct engine *e, uint32_t handle)
{
    const struct dependency_node *n = dependency_node_at(e, handle);
    if (n->is_dependent || n->children || n->parents)
        return;
    work_remove(e, handle);
    map64_drop(&e->deps.by_seq, n->seq);
    slab_give(&e->deps.nodes, handle);
}

static void edge_link(struct engine *e, uint32_t parent, uint32_t child)
{
    uint32_t handle = slab_take(&e->deps.edges);
    struct dependency_node *p = dependency_node_at(e, parent), *c = dependency_node_at(e, child);
    CHECK(handle);
    *dependency_edge_at(e, handle) = (struct dependency_edge){
        .parent = parent, .child = child, .child_next = p->children, .parent_next = c->parents};
    if (p->children)
        dependency_edge_at(e, p->children)->child_prev = handle;
    if (c->parents)
        dependency_edge_at(e, c->parents)->parent_prev = handle;
    p->children = c->parents = handle;
    c->waits++;
}

static void edge_unlink(struct engine *e, uint32_t handle)
{
    struct dependency_edge *edge = dependency_edge_at(e, handle);
    struct dependency_node *p = dependency_node_at(e, edge->parent),
                           *c = dependency_node_at(e, edge->child);
    if (edge->child_prev)
        dependency_edge_at(e, edge->child_prev)->child_next = edge->child_next;
    else
        p->children = edge->child_next;
    if (edge->child_next)
        dependency_edge_at(e, edge->child_next)->child_prev = edge->child_prev;
    if (edge->parent_prev)
        dependency_edge_at(e, edge->parent_prev)->parent_next = edge->parent_next;
    else
        c->parents = edge->parent_next;
    if (edge->parent_next)
        dependency_edge_at(e, edge->parent_next)->parent_prev = edge->parent_prev;
    slab_give(&e->deps.edges, handle);
    c->waits--;
}

/* Both lists are searched at once, so it takes no longer than the shorter one. */
static uint32_t edge_find(const struct engine *e, uint32_t parent, uint32_t child)
{
    uint32_t down = dependency_node_at(e, parent)->children,
             up = dependency_node_at(e, child)->parents;
    while (down && up) {
        if (dependency_edge_at(e, down)->child == child)
            return down;
        if (dependency_edge_at(e, up)->parent == parent)
            return up;
        down = dependency_edge_at(e, down)->child_next;
        up = dependency_edge_at(e, up)->parent_next;
    }
    return 0;
}

/* Whether the job waits for its parents; a purged one does not. */
static struct live *blocked_job(struct engine *e, uint64_t seq)
{
    struct live *l = jobs_find(e, (struct job_ref){seq, 0}, NULL);
    return l && l->job.state == STATE_BLOCKED ? l : NULL;
}

/* Whether its dependents are to be told of its end. */
static bool has_ended(const struct dependency_node *n)
{
    return n->ended != DEPENDENCY_END_NONE && n->children;
}

/* Whether there is work to do for this dependent. */
bool dependency_due(struct engine *e, const struct dependency_node *n)
{
    const struct live *l = jobs_by_seq(e, n->seq, NULL);
    if (!l || jobs_purged(e, l))
        return !l; /* a purged one follows when its slice removes it */
    if (l->job.state != STATE_BLOCKED)
        return n->parents != 0;
    return dependency_verdict(&n->dependent, n->waits) != VERDICT_WAIT;
}

/* --- applying records --- */

int dependencies_reserve(struct engine *e, size_t nodes, size_t edges)
{
    int err = slab_reserve(&e->deps.nodes, nodes);
    if (!err)
        err = slab_reserve(&e->deps.edges, edges);
    return err ? err : map64_reserve(&e->deps.by_seq, nodes);
}

int dependencies_load_put(struct engine *e, const struct rec_dependent_put *r)
{
    uint32_t handle = node_need(e, r->seq);
    if (!handle)
        return -ERR_NOMEM;
    struct dependency_node *n = dependency_node_at(e, handle);
    n->dependent = r->dependent;
    n->is_dependent = true;
    return 0;
}

static int take_put(struct engine *e, const struct rec_dependent_put *r)
{
    if (!jobs_by_seq(e, r->seq, NULL))
        return -ERR_CORRUPT;
    int err = dependencies_load_put(e, r);
    uint32_t handle = dependency_node_of(e, r->seq);
    if (!err && dependency_due(e, dependency_node_at(e, handle)))
        work_add(e, handle);
    return err;
}

static int take_gone(struct engine *e, uint64_t seq)
{
    uint32_t handle = dependency_node_of(e, seq);
    if (!handle || !dependency_node_at(e, handle)->is_dependent ||
        dependency_node_at(e, handle)->parents)
        return -ERR_CORRUPT;
    dependency_node_at(e, handle)->is_dependent = false;
    node_drop_unused(e, handle);
    return 0;
}

static int take_edge(struct engine *e, uint32_t child, uint64_t seq)
{
    int err = dependencies_reserve(e, 1, 1);
    uint32_t parent = err ? 0 : node_need(e, seq);
    if (!parent)
        return -ERR_NOMEM;
    edge_link(e, parent, child);
    return 0;
}

int dependencies_load_edge(struct engine *e, uint64_t child, uint64_t parent)
{
    uint32_t handle = dependency_node_of(e, child);
    if (!handle || !dependency_node_at(e, handle)->is_dependent || child == parent)
        return -ERR_CORRUPT;
    return take_edge(e, handle, parent);
}

static int take_new(struct engine *e, const struct rec_dependencies_new *r)
{
    uint32_t handle = dependency_node_of(e, r->seq);
    struct span list = r->parents;
    uint64_t previous = 0, seq;
    int err = handle && dependency_node_at(e, handle)->is_dependent ? 0 : -ERR_CORRUPT;
    for (uint32_t i = 0; !err && i < r->count; i++) {
        if (record_seq_next(&list, &previous, &seq) != 0)
            return -ERR_CORRUPT;
        err = take_edge(e, handle, seq);
    }
    if (!err)
        dependency_node_at(e, handle)->dependent.counts[DEPENDENCY_END_NONE] += r->count;
    return err;
}

static int take_end(struct engine *e, const struct rec_dependency_end *r)
{
    uint32_t child = dependency_node_of(e, r->seq), parent = dependency_node_of(e, r->parent);
    uint32_t edge = child && parent ? edge_find(e, parent, child) : 0;
    if (!edge)
        return -ERR_CORRUPT;
    struct dependency_node *n = dependency_node_at(e, child);
    edge_unlink(e, edge);
    if (r->how != DEPENDENCY_END_NONE)
        n->dependent.counts[r->how]++;
    if (r->last)
        dependency_node_at(e, parent)->recorded = false;
    if (dependency_due(e, n))
        work_add(e, child);
    node_drop_unused(e, parent);
    return 0;
}

int dependencies_load_parent(struct engine *e, uint64_t seq, uint8_t how)
{
    uint32_t handle = dependency_node_of(e, seq);
    if (!handle || !dependency_node_at(e, handle)->children)
        return -ERR_CORRUPT;
    dependency_node_at(e, handle)->ended = how;
    dependency_node_at(e, handle)->recorded = true;
    work_add(e, handle);
    return 0;
}

int dependencies_apply(struct engine *e, const struct record *r)
{
    switch ((int)r->kind) {
    case REC_DEPENDENT_PUT:
        return take_put(e, &r->dependent_put);
    case REC_DEPENDENT_GONE:
        return take_gone(e, r->dependent.seq);
    case REC_DEPENDENCIES_NEW:
        return take_new(e, &r->dependencies_new);
    case REC_DEPENDENCY_END:
        return take_end(e, &r->dependency_end);
    case REC_PARENT_ENDED:
        return dependencies_load_parent(e, r->dependent.seq, r->dependent.how);
    default:
        return -ERR_VERSION;
    }
}

/* --- jobs that end --- */

void dependencies_job_ended(struct engine *e, uint64_t seq, uint8_t state)
{
    uint32_t handle = dependency_node_of(e, seq);
    if (!handle)
        return;
    struct dependency_node *n = dependency_node_at(e, handle);
    if (n->children && n->ended == DEPENDENCY_END_NONE)
        n->ended = (uint8_t)dependency_end_of(state);
    if (n->children || n->parents || state == STATE_NONE)
        work_add(e, handle);
}

bool dependencies_secure_end(struct engine *e, uint64_t seq)
{
    uint32_t handle = dependency_node_of(e, seq);
    const struct dependency_node *n = handle ? dependency_node_at(e, handle) : NULL;
    if (!n || n->ended == DEPENDENCY_END_NONE || n->recorded || !n->children)
        return true;
    struct record rec = {.kind = REC_PARENT_ENDED, .dependent = {.seq = seq, .how = n->ended}};
    if (emit_reserve(e, record_bytes_max(&rec)) != 0)
        return false;
    engine_emit_silent(e, &rec);
    return true;
}

/* A start knows how parents ended from their states. */
static void boot_node(struct engine *e, uint32_t handle)
{
    struct dependency_node *n = dependency_node_at(e, handle);
    const struct live *l = jobs_by_seq(e, n->seq, NULL);
    if (n->children && n->ended == DEPENDENCY_END_NONE)
        n->ended = (uint8_t)dependency_end_of(l ? l->job.state : STATE_NONE);
    if (has_ended(n) || (n->is_dependent && dependency_due(e, n)))
        work_add(e, handle);
}

void dependencies_boot(struct engine *e)
{
    const struct map64_table *tables[] = {&e->deps.by_seq.now, &e->deps.by_seq.old};
    for (size_t t = 0; t < 2; t++)
        for (size_t i = 0; tables[t]->slots && i <= tables[t]->mask; i++)
            if (tables[t]->slots[i].value)
                boot_node(e, tables[t]->slots[i].value);
    e->deps.booted = true;
}

/* --- the work --- */

static bool edge_end(struct engine *e, uint32_t handle, uint8_t how)
{
    const struct dependency_edge *edge = dependency_edge_at(e, handle);
    const struct dependency_node *p = dependency_node_at(e, edge->parent);
    bool only = !edge->child_prev && !edge->child_next;
    struct record rec = {.kind = REC_DEPENDENCY_END,
                         .dependency_end = {.seq = dependency_node_at(e, edge->child)->seq,
                                            .parent = p->seq,
                                            .how = how,
                                            .last = only && p->recorded}};
    if (emit_reserve(e, record_bytes_max(&rec)) != 0)
        return false;
    engine_emit_silent(e, &rec);
    return true;
}

static bool settle(struct engine *e, uint64_t seq)
{
    struct live *l = blocked_job(e, seq);
    return !l || ops_dependent_settle(&e->ops, &l->job);
}

/* A dependent that has started is made ready again. */
static void defect_start_again(struct engine *e)
{
    struct live *l = jobs_find(e, (struct job_ref){e->deps.defect_seq, 0}, NULL);
    if (l && l->job.state == STATE_RUNNING &&
        ops_lease_taken_back(&e->ops, &l->job, REASON_RELEASED))
        e->deps.defect_seq = 0;
}

/* An edge of a parent that has ended. What it means for the dependent follows in the same frame. */
static bool tell_child(struct engine *e, struct dependency_node *n)
{
    uint64_t child = dependency_node_at(e, dependency_edge_at(e, n->children)->child)->seq;
    bool counts = blocked_job(e, child) != NULL;
    if (!edge_end(e, n->children, counts ? n->ended : DEPENDENCY_END_NONE) || !settle(e, child))
        return false;
    if (DEFECT(&e->config, DEFECT_CHILD_TWICE))
        e->deps.defect_seq = child;
    uint32_t handle = dependency_node_of(e, child);
    if (handle && !dependency_due(e, dependency_node_at(e, handle)) &&
        !has_ended(dependency_node_at(e, handle)))
        work_remove(e, handle); /* else it has dependents itself, which follow */
    return true;
}

/* The job was removed, and nothing is left of what it waited for. */
static bool forget(struct engine *e, uint64_t seq)
{
    struct record rec = {.kind = REC_DEPENDENT_GONE, .dependent = {.seq = seq}};
    if (emit_reserve(e, record_bytes_max(&rec)) != 0)
        return false;
    engine_emit_silent(e, &rec);
    return true;
}

/* One step for the node; it leaves the list when nothing is left to do. False: memory is short. */
static bool work_one(struct engine *e, uint32_t handle)
{
    struct dependency_node *n = dependency_node_at(e, handle);
    if (has_ended(n))
        return tell_child(e, n);
    if (n->is_dependent && n->parents && !blocked_job(e, n->seq))
        return edge_end(e, n->parents, DEPENDENCY_END_NONE);
    if (n->is_dependent && !n->parents && !jobs_by_seq(e, n->seq, NULL))
        return forget(e, n->seq);
    if (!settle(e, n->seq))
        return false;
    n = dependency_node_at(e, handle);
    if (!dependency_due(e, n) && !has_ended(n))
        work_remove(e, handle); /* else it has ended by its rule, and edges are left */
    return true;
}

size_t tick_dependencies(struct engine *e, size_t budget)
{
    size_t done = 0;
    if (DEFECT(&e->config, DEFECT_CHILD_TWICE) && e->deps.defect_seq)
        defect_start_again(e);
    while (e->deps.work_first && done < budget && work_one(e, e->deps.work_first))
        done++;
    return done;
}

/* --- struct dependency_store --- */

static bool engine_dependent_find(const struct ops *o, const struct job *j, struct dependent *ret,
                                  uint32_t *ret_waits)
{
    const struct engine *e = engine_of(o);
    uint32_t handle = dependency_node_of(e, j->seq);
    if (!handle || !dependency_node_at(e, handle)->is_dependent)
        return false;
    *ret = dependency_node_at(e, handle)->dependent;
    *ret_waits = dependency_node_at(e, handle)->waits;
    return true;
}

static uint8_t engine_parent_state(struct ops *o, struct job_ref ref, bool *ret_settling)
{
    struct engine *e = engine_of(o);
    const struct live *l = jobs_find(e, ref, NULL);
    uint32_t handle = l ? dependency_node_of(e, ref.seq) : 0;
    *ret_settling = handle && has_ended(dependency_node_at(e, handle));
    return l ? l->job.state : STATE_NONE;
}

static size_t engine_dependency_bytes(size_t dependents, size_t parents)
{
    return dependents * 256 + parents * BUF_VARINT_MAX;
}

static bool engine_dependency_prepare(struct ops *o, size_t dependents, size_t parents)
{
    struct engine *e = engine_of(o);
    return dependencies_reserve(e, dependents + parents, parents) == 0 &&
           buf_reserve(&e->deps.list, parents * BUF_VARINT_MAX) == 0 &&
           emit_reserve(e, engine_dependency_bytes(dependents, parents)) == 0;
}

static void engine_dependent_put(struct ops *o, const struct job *j, const struct dependent *d)
{
    struct record rec = {.kind = REC_DEPENDENT_PUT,
                         .dependent_put = {.seq = j->seq, .dependent = *d}};
    engine_emit_silent(engine_of(o), &rec);
}

static void engine_dependencies_add(struct ops *o, const struct job *j, const uint64_t *parents,
                                    uint32_t count)
{
    struct engine *e = engine_of(o);
    uint64_t previous = 0;
    buf_clear(&e->deps.list);
    for (uint32_t i = 0; i < count; i++)
        CHECK(record_seq_append(&e->deps.list, &previous, parents[i]) == 0);
    struct record rec = {
        .kind = REC_DEPENDENCIES_NEW,
        .dependencies_new = {.seq = j->seq, .count = count, .parents = buf_span(&e->deps.list)}};
    engine_emit_silent(e, &rec);
}

static uint32_t engine_dependencies_without(struct ops *o, const struct job *j, uint64_t *parents,
                                            uint32_t count)
{
    const struct engine *e = engine_of(o);
    const struct dependency_node *n = dependency_node_at(e, dependency_node_of(e, j->seq));
    struct map64 has;
    uint32_t left = 0;
    map64_init(&has);
    int err = map64_reserve(&has, n->waits);
    for (uint32_t at = n->parents; !err && at; at = dependency_edge_at(e, at)->parent_next)
        err = map64_put(&has, dependency_node_at(e, dependency_edge_at(e, at)->parent)->seq, 1);
    for (uint32_t i = 0; !err && i < count; i++)
        if (!map64_get(&has, parents[i]))
            parents[left++] = parents[i];
    map64_done(&has);
    return err ? UINT32_MAX : left;
}

const struct dependency_store engine_dependency_store = {
    .find = engine_dependent_find,
    .parent_state = engine_parent_state,
    .prepare = engine_dependency_prepare,
    .bytes = engine_dependency_bytes,
    .put = engine_dependent_put,
    .add = engine_dependencies_add,
    .without = engine_dependencies_without,
};
