/* SPDX-License-Identifier: Apache-2.0 */
#include "base/budget.h"

#include "base/check.h"

#define RESERVE_SHARE 8       /* the part of the budget that is left for the own shares */
#define SHARED_SHARE 2        /* the part that is always there for what is beyond them */
#define PROGRESS_SHARE 64     /* the part of what an account holds that counts as progress */
#define DISPLACE_FACTOR 4     /* an account displaces those that hold this many times as much */
#define IDLE_MS_MAX (1 << 20) /* so that the product with the bytes held cannot overflow */
#define ENLIST_STEPS 16       /* how far an account looks for its place in a list */
#define MACHINE_SHARE 8
#define DEFAULT_BYTES_MAX (UINT64_C(2) << 30)

const char *budget_kind_name(enum budget_kind kind)
{
    static const char *const names[] = {
#define BUDGET_NAME(name, word) [BUDGET_##name] = (word),
        BUDGET_KIND_TABLE(BUDGET_NAME)
#undef BUDGET_NAME
    };
    return names[kind];
}

const char *budget_shed_name(enum budget_shed reason)
{
    static const char *const names[] = {
#define BUDGET_NAME(name, word) [BUDGET_SHED_##name] = (word),
        BUDGET_SHED_TABLE(BUDGET_NAME)
#undef BUDGET_NAME
    };
    return names[reason];
}

void budget_init(struct budget *b, uint64_t total)
{
    *b = (struct budget){.figures.total = total, .large_limit = total};
    if (total != BUDGET_NO_LIMIT)
        b->large_limit = total - total / RESERVE_SHARE;
    for (unsigned i = 0; i < BUDGET_CLASSES; i++)
        link_init(&b->waiting[i]);
}

uint64_t budget_default(uint64_t machine_bytes, uint64_t least)
{
    uint64_t share = machine_bytes / MACHINE_SHARE;
    if (share > DEFAULT_BYTES_MAX)
        share = DEFAULT_BYTES_MAX;
    return share > least ? share : least;
}

/* ---- the lists of those that wait ---- */

static unsigned class_of(uint64_t held)
{
    return held ? 63u - (unsigned)__builtin_clzll(held) : 0;
}

static uint64_t idle_ms(const struct budget_account *a, uint64_t now_ms)
{
    uint64_t idle = now_ms > a->progress_ms ? now_ms - a->progress_ms : 0;
    return idle < IDLE_MS_MAX ? idle : IDLE_MS_MAX;
}

static uint64_t progress_of(struct link *l)
{
    return LINK_OWNER(l, struct budget_account, link)->progress_ms;
}

/* Behind those that have gone longer without progress. */
static struct link *place_from_front(struct link *head, uint64_t progress_ms)
{
    struct link *at = head->next;
    for (int i = 0; i < ENLIST_STEPS && at != head && progress_of(at) <= progress_ms; i++)
        at = at->next;
    return at;
}

/* Before those that have made progress since. */
static struct link *place_from_end(struct link *head, uint64_t progress_ms)
{
    struct link *at = head;
    for (int i = 0; i < ENLIST_STEPS && at->prev != head && progress_of(at->prev) > progress_ms;
         i++)
        at = at->prev;
    return at;
}

/* Nearly always the progress was just now, and the place is at the end. An account that comes with
 * an older progress (it began to wait or changed its magnitude without any) looks for its place at
 * a few accounts only, so the order can be wrong. An idle account looks from the front, which
 * ensures that no account that is not idle is before it, now or later: those that come later are
 * put behind it. One that becomes idle in the list can be behind accounts whose last progress is
 * later, but not for longer than BUDGET_IDLE_MS: then they are idle, too, or have made progress and
 * have been moved to the end. */
static void enlist(struct budget_account *a)
{
    struct budget *b = a->budget;
    unsigned class = class_of(a->held);
    struct link *head = &b->waiting[class];
    struct link *before = idle_ms(a, b->now_ms) >= BUDGET_IDLE_MS
                              ? place_from_front(head, a->progress_ms)
                              : place_from_end(head, a->progress_ms);
    link_append(before, &a->link);
    b->classes |= UINT64_C(1) << class;
}

static void held_set(struct budget_account *a, uint64_t held)
{
    bool moves = a->waits && class_of(held) != class_of(a->held);
    a->held = held;
    if (!moves)
        return;
    link_remove(&a->link);
    enlist(a);
}

void budget_waits(struct budget_account *a, bool waits)
{
    if (a->waits == waits)
        return;
    a->waits = waits;
    link_remove(&a->link);
    if (waits)
        enlist(a);
}

void budget_progress(struct budget_account *a, uint64_t bytes, uint64_t now_ms)
{
    a->budget->now_ms = now_ms;
    a->moved += bytes;
    if (a->moved < a->held / PROGRESS_SHARE)
        return;
    a->moved = 0;
    a->progress_ms = now_ms;
    if (!a->waits)
        return;
    link_remove(&a->link);
    enlist(a);
}

/* ---- shedding ---- */

/* The first account of this magnitude, other than `self`. */
static struct budget_account *front_of(struct budget *b, unsigned class,
                                       const struct budget_account *self)
{
    struct link *head = &b->waiting[class], *l = head->next;
    if (l == head) {
        b->classes &= ~(UINT64_C(1) << class);
        return NULL;
    }
    if (l == &self->link)
        l = l->next;
    return l == head ? NULL : LINK_OWNER(l, struct budget_account, link);
}

/* after: what the account that asks will hold. */
static bool may_displace(uint64_t after, const struct budget_account *victim, uint64_t now_ms)
{
    return idle_ms(victim, now_ms) >= BUDGET_IDLE_MS || victim->held / DISPLACE_FACTOR >= after;
}

static struct budget_account *victim_for(const struct budget_account *self, uint64_t after,
                                         uint64_t now_ms)
{
    struct budget *b = self->budget;
    struct budget_account *best = NULL;
    uint64_t best_score = 0;
    uint64_t small = (UINT64_C(1) << class_of(BUDGET_OWN_BYTES)) - 1; /* nothing would be gained */
    b->now_ms = now_ms;
    for (uint64_t left = b->classes & ~small; left; left &= left - 1) {
        struct budget_account *a = front_of(b, (unsigned)__builtin_ctzll(left), self);
        uint64_t score = a ? a->held * (idle_ms(a, now_ms) + 1) : 0;
        if (score <= best_score || !may_displace(after, a, now_ms))
            continue;
        best = a;
        best_score = score;
    }
    return best;
}

/* A victim that gives nothing back at once is not chosen again: it waits no longer. */
static void shed(struct budget_account *victim)
{
    struct budget *b = victim->budget;
    budget_waits(victim, false);
    b->shedding = true;
    b->figures.shed[victim->shed(victim->ctx)]++;
    b->shedding = false;
}

/* What an account that holds this much has beyond its own share. */
static uint64_t beyond_own(uint64_t held)
{
    return held > BUDGET_OWN_BYTES ? held - BUDGET_OWN_BYTES : 0;
}

static bool within(uint64_t limit, uint64_t held, uint64_t more)
{
    return more <= limit && held <= limit - more;
}

static bool fits(const struct budget_account *a, uint64_t more)
{
    const struct budget *b = a->budget;
    uint64_t after = a->held + more, shared = beyond_own(after) - beyond_own(a->held);
    if (after <= BUDGET_OWN_BYTES)
        return within(b->figures.total, b->figures.held, more);
    return within(b->large_limit, b->figures.held, more) ||
           within(b->figures.total / SHARED_SHARE, b->shared, shared);
}

static bool room_make(const struct budget_account *a, uint64_t more, uint64_t now_ms)
{
    while (!fits(a, more)) {
        struct budget_account *victim =
            a->budget->shedding ? NULL : victim_for(a, a->held + more, now_ms);
        if (!victim)
            return false;
        shed(victim);
    }
    return true;
}

/* ---- charging ---- */

/* Before what the account holds changes. */
static void shared_set(const struct budget_account *a, uint64_t held)
{
    a->budget->shared += beyond_own(held) - beyond_own(a->held);
}

void budget_add(struct budget_account *a, enum budget_kind kind, uint64_t bytes)
{
    struct budget_figures *f = &a->budget->figures;
    f->held += bytes;
    f->by_kind[kind] += bytes;
    if (f->held > f->peak)
        f->peak = f->held;
    shared_set(a, a->held + bytes);
    held_set(a, a->held + bytes);
}

bool budget_take(struct budget_account *a, enum budget_kind kind, uint64_t bytes, uint64_t now_ms)
{
    bool was_small = a->held <= BUDGET_OWN_BYTES, small = a->held + bytes <= BUDGET_OWN_BYTES;
    if (!fits(a, bytes) && !room_make(a, bytes, now_ms) && !small) {
        a->budget->figures.refused++;
        return false;
    }
    bool grown = was_small && !small; /* its owner need not have told of its progress so far */
    if (grown) {
        a->moved = 0;
        a->progress_ms = a->budget->now_ms = now_ms;
    }
    budget_add(a, kind, bytes);
    if (grown && a->waits) {
        link_remove(&a->link);
        enlist(a);
    }
    return true;
}

void budget_give(struct budget_account *a, enum budget_kind kind, uint64_t bytes)
{
    struct budget_figures *f = &a->budget->figures;
    CHECK(a->held >= bytes && f->by_kind[kind] >= bytes);
    f->held -= bytes;
    f->by_kind[kind] -= bytes;
    shared_set(a, a->held - bytes);
    held_set(a, a->held - bytes);
}

void budget_move(struct budget_account *from, struct budget_account *to, uint64_t bytes)
{
    CHECK(from->budget == to->budget && from->held >= bytes);
    shared_set(from, from->held - bytes);
    shared_set(to, to->held + bytes);
    held_set(from, from->held - bytes);
    held_set(to, to->held + bytes);
}

/* ---- accounts ---- */

void budget_open(struct budget_account *a, struct budget *b, budget_shed_fn shed_fn, void *ctx,
                 uint64_t now_ms)
{
    *a = (struct budget_account){.budget = b, .shed = shed_fn, .ctx = ctx, .progress_ms = now_ms};
    link_init(&a->link);
}

void budget_close(struct budget_account *a)
{
    CHECK(a->held == 0);
    budget_waits(a, false);
}
