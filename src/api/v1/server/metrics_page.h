/* SPDX-License-Identifier: Apache-2.0 */
/* The text of GET /metrics: its contents (struct page), and the table of families that writes it. A
 * new metric is a row of that table, in metrics_rows.c, with a function or a member of struct page.
 *
 * With a thousand queues it has several megabytes. A page is therefore written in slices,
 * between which the loop does its other work: page_write continues where the previous slice
 * ended. The figures of queues are copies that were taken before the first slice, so queues may
 * be created and deleted meanwhile. Histograms are read from the broker and omitted for a queue
 * that was deleted. */
#pragma once

#include "api/v1/server/metrics.h"
#include "api/v1/v1_impl.h"
#include "base/containers/arena.h"
#include "base/system/process.h"
#include "ops/jobs/why.h"

#define PAGE_QUEUES                                                                                \
    1000 /* queues shown, the first by name; a metric says how many more there are */

struct page_queue {
    struct span name;
    struct queue_counts counts;
    struct why_count waiting[WHY_COUNTS_MAX];
    uint32_t waiting_count;
};

struct page {
    struct metrics m;
    const struct native *n;
    struct arena arena;        /* holds the lists and their texts */
    struct page_queue *queues; /* room for PAGE_QUEUES */
    uint32_t queue_count;
    struct breaker_view *breakers;
    uint32_t breaker_count;
    uint64_t left_out; /* stores whose queues or breakers are missing, 1 << number */
    struct backend_figures backend;
    struct broker_figures broker;
    struct http_server_figures http;
    struct process_figures process;
    struct budget_figures memory;
    /* where the next slice begins */
    size_t row;
    uint32_t queue;
};

/* Writes about `bytes` more bytes (the lines of one queue or family are written together). true
 * when the page is complete or p->m.error is set. */
bool page_write(struct page *p, size_t bytes);
