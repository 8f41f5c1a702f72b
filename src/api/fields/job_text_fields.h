/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a table of fields for the texts of a job (core/jobs/job_texts.h). The target begins with
 * a struct job_texts, and AT(member) is an offset in it. */
#pragma once

#include "api/fields/fields.h"
#include "core/jobs/job_texts.h"

#define JOB_FIELD_TEXT(member, name, max) {name, FIELD_TEXT, AT(member), 0, max, NULL, 0},
#define JOB_FIELD_HEADERS(member, name, max) {name, FIELD_HEADERS, AT(member), 0, max, NULL, 0},
#define JOB_FIELD_OWN(member, name, max)
#define JOB_FIELD(member, name, column, max, kind, ...) JOB_FIELD_##kind(member, name, max)
/* Texts that a client gives with a job. */
#define JOB_TEXT_FIELDS JOB_TEXT_TABLE(JOB_FIELD)

#define JOB_FILTER_TEXT(member, name, max) {name, FIELD_TEXT, AT(member), FILTER_MIN, max, NULL, 0},
#define JOB_FILTER_HEADERS(member, name, max)
#define JOB_FILTER_OWN(member, name, max)
#define JOB_FILTER(member, name, column, max, kind, ...) JOB_FILTER_##kind(member, name, max)
/* Texts by which a list can be filtered. */
#define JOB_TEXT_FILTERS JOB_TEXT_TABLE(JOB_FILTER)
