/* SPDX-License-Identifier: Apache-2.0 */
/* Names and JSON of events (events.c), and what each of them means (event_reference.c). */
#pragma once

#include <stdio.h>

#include "base/json/json.h"
#include "broker/broker.h"

/* The names of the kinds, in the order of enum event_kind; NULL-terminated. */
extern const char *const event_names[];
/* The rows of docs/reference/events.md. */
void events_reference(FILE *out);
/* Writes the data of one event as an object. */
void event_write(struct json_writer *w, const struct broker_event *event);
