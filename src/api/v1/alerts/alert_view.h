/* SPDX-License-Identifier: Apache-2.0 */
/* The view of an alert rule with the notices that it has raised; never its secret. The folder
 * v1/alerts has the endpoints of alert rules, notices and breakers; what it may use is in
 * v1_impl.h. */
#pragma once

#include "base/json/json.h"
#include "broker/broker.h"

void alert_view_write(struct json_writer *w, const struct alert_view *v);
