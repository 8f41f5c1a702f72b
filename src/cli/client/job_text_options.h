/* SPDX-License-Identifier: Apache-2.0 */
/* Options of the commands for the texts of a job, and what they become in a request; all from the
 * rows of core/jobs/job_texts.h. */
#pragma once

#include "cli/client/request.h"
#include "config/options.h"
#include "core/jobs/job_texts.h"

/* Options of a command that enqueues: --unique KEY, --header NAME=VALUE … */
#define JOB_OPTION_TEXT(name, letter, value, help) {name, letter, value, help, OPTION_TEXT},
#define JOB_OPTION_HEADERS(name, letter, value, help) {"header", letter, value, help, OPTION_LIST},
#define JOB_OPTION_OWN(name, letter, value, help)
#define JOB_OPTION(member, name, column, max, kind, events, letter, value, noun, help)             \
    JOB_OPTION_##kind(name, letter, value, help)
#define JOB_TEXT_OPTIONS JOB_TEXT_TABLE(JOB_OPTION)

/* … as members of its request. */
#define JOB_MEMBER_TEXT(name) {name, name, CLIENT_FIELD_TEXT},
#define JOB_MEMBER_HEADERS(name) {"header", name, CLIENT_FIELD_HEADERS},
#define JOB_MEMBER_OWN(name)
#define JOB_MEMBER(member, name, column, max, kind, ...) JOB_MEMBER_##kind(name)
#define JOB_TEXT_MEMBERS JOB_TEXT_TABLE(JOB_MEMBER)

/* Options of a list: only jobs with this text. */
#define JOB_LIST_TEXT(name, letter, value, noun)                                                   \
    {name, letter, value, "only jobs with this " noun, OPTION_TEXT},
#define JOB_LIST_HEADERS(name, letter, value, noun)
#define JOB_LIST_OWN(name, letter, value, noun)
#define JOB_LIST(member, name, column, max, kind, events, letter, value, noun, help)               \
    JOB_LIST_##kind(name, letter, value, noun)
#define JOB_LIST_OPTIONS JOB_TEXT_TABLE(JOB_LIST)

/* … as parameters of its request, and their names alone. */
#define JOB_PARAMETER_TEXT(name) {name, name, CLIENT_FIELD_TEXT},
#define JOB_PARAMETER_HEADERS(name)
#define JOB_PARAMETER_OWN(name)
#define JOB_PARAMETER(member, name, column, max, kind, ...) JOB_PARAMETER_##kind(name)
#define JOB_LIST_PARAMETERS JOB_TEXT_TABLE(JOB_PARAMETER)
#define JOB_NAME_TEXT(name) name,
#define JOB_NAME_HEADERS(name)
#define JOB_NAME_OWN(name)
#define JOB_NAME(member, name, column, max, kind, ...) JOB_NAME_##kind(name)
#define JOB_LIST_NAMES JOB_TEXT_TABLE(JOB_NAME)
