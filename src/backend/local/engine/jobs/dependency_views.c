/* SPDX-License-Identifier: Apache-2.0 */
/* What is shown of dependencies, and what checks them. */
#include "backend/local/engine/engine_impl.h"

/* --- views --- */

void dependencies_view(const struct engine *e, uint64_t seq, struct job_view *ret)
{
    uint32_t handle = dependency_node_of(e, seq);
    const struct dependency_node *n = handle ? dependency_node_at(e, handle) : NULL;
    if (!n || !n->is_dependent)
        return;
    ret->is_dependent = true;
    ret->dependent = n->dependent;
    ret->waits = n->waits;
}

int dependencies_view_parents(struct engine *e, uint64_t seq, struct job_view *ret)
{
    uint32_t handle = dependency_node_of(e, seq);
    const struct dependency_node *n = handle ? dependency_node_at(e, handle) : NULL;
    if (!n || n->waits == 0)
        return 0;
    struct job_ref *refs = arena_array(&e->out->arena, n->waits, sizeof(*refs));
    if (!refs)
        return -ERR_NOMEM;
    for (uint32_t at = n->parents; at; at = dependency_edge_at(e, at)->parent_next) {
        uint64_t parent = dependency_node_at(e, dependency_edge_at(e, at)->parent)->seq;
        const struct live *l = jobs_by_seq(e, parent, NULL);
        if (l)
            refs[ret->parent_count++] = (struct job_ref){parent, l->job.id_hi};
    }
    ret->parents = refs;
    return 0;
}

/* --- checks --- */

static int wrong(struct err_note *note, const char *what, uint64_t seq)
{
    return err_note_set(note, -ERR_CORRUPT, "job %llu %s", (unsigned long long)seq, what);
}

static int verify_node(struct engine *e, uint32_t handle, uint64_t *edges, struct err_note *note)
{
    const struct dependency_node *n = dependency_node_at(e, handle);
    const struct live *l = jobs_by_seq(e, n->seq, NULL);
    uint32_t waits = 0;
    for (uint32_t at = n->parents, before = 0; at;
         at = dependency_edge_at(e, at)->parent_next, waits++) {
        if (dependency_edge_at(e, at)->child != handle ||
            dependency_edge_at(e, at)->parent_prev != before)
            return wrong(note, "has a list of dependencies that is not sound", n->seq);
        before = at;
    }
    for (uint32_t at = n->children, before = 0; at;
         at = dependency_edge_at(e, at)->child_next, ++*edges) {
        if (dependency_edge_at(e, at)->parent != handle ||
            dependency_edge_at(e, at)->child_prev != before)
            return wrong(note, "has a list of dependents that is not sound", n->seq);
        before = at;
    }
    if (waits != n->waits || (n->parents && !n->is_dependent) ||
        (n->is_dependent && !dependent_fits(&n->dependent, waits)))
        return wrong(note, "has a wrong count of dependencies", n->seq);
    bool over = n->children && (!l || dependency_end_of(l->job.state) != DEPENDENCY_END_NONE);
    if (e->deps.booted && !e->config.still && !n->working &&
        (over || (n->is_dependent && dependency_due(e, n))))
        return wrong(note, "has ended for its dependents, but nothing will tell them", n->seq);
    return 0;
}

int dependencies_verify(const struct engine *engine, struct err_note *note)
{
    struct engine *e = (struct engine *)(uintptr_t)engine; /* a look-up keeps a memo */
    const struct map64_table *tables[] = {&e->deps.by_seq.now, &e->deps.by_seq.old};
    uint64_t edges = 0, nodes = 0;
    int err = 0;
    for (size_t t = 0; t < 2; t++)
        for (size_t i = 0; !err && tables[t]->slots && i <= tables[t]->mask; i++)
            if (tables[t]->slots[i].value) {
                err = verify_node(e, tables[t]->slots[i].value, &edges, note);
                nodes++;
            }
    if (!err && (edges != e->deps.edges.used || nodes != e->deps.nodes.used))
        err = err_note_set(note, -ERR_CORRUPT, "dependencies are miscounted");
    for (size_t n = 0; !err && n < e->queue_total; n++) {
        const struct queue *q = e->queues[n];
        for (uint32_t at = q ? q->lists[STATE_BLOCKED].head : 0; !err && at;
             at = live_at(e, at)->next) {
            uint32_t handle = dependency_node_of(e, live_at(e, at)->job.seq);
            if (!handle || !dependency_node_at(e, handle)->is_dependent)
                err = wrong(note, "is blocked, but depends on nothing", live_at(e, at)->job.seq);
        }
    }
    return err;
}

static uint64_t hash_node(const struct engine *e, const struct dependency_node *n)
{
    uint64_t h = state_mix(1, n->seq), edges = 0;
    h = state_mix(state_mix(h, n->dependent.rule), n->dependent.open);
    for (int i = 0; i < DEPENDENCY_END_COUNT; i++)
        h = state_mix(h, n->dependent.counts[i]);
    for (uint32_t at = n->parents; at; at = dependency_edge_at(e, at)->parent_next)
        edges += state_mix(2, dependency_node_at(e, dependency_edge_at(e, at)->parent)->seq);
    return state_mix(h, edges);
}

uint64_t dependencies_hash(const struct engine *e)
{
    const struct map64_table *tables[] = {&e->deps.by_seq.now, &e->deps.by_seq.old};
    uint64_t sum = 0;
    for (size_t t = 0; t < 2; t++)
        for (size_t i = 0; tables[t]->slots && i <= tables[t]->mask; i++) {
            uint32_t handle = tables[t]->slots[i].value;
            if (handle && dependency_node_at(e, handle)->is_dependent)
                sum += hash_node(e, dependency_node_at(e, handle));
            if (handle && dependency_node_at(e, handle)->recorded)
                sum += state_mix(3, dependency_node_at(e, handle)->seq);
        }
    return sum;
}
