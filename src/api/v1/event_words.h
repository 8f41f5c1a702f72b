/* SPDX-License-Identifier: Apache-2.0 */
/* Events in the words of the API. */
#pragma once

#include <stdio.h>

#include "base/json/json.h"
#include "broker/broker.h"

/* The names of the kinds, in the order of enum event_kind; NULL-terminated. */
extern const char *const event_words[];
/* The rows of docs/reference/events.md. */
void events_reference(FILE *out);
/* The data of one event, one object. */
void event_write(struct json_writer *w, const struct broker_event *event);
