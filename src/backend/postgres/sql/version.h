/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Of the tables in sql/schema.sql. A database with another one is refused. 1 was a draft. */
#define PG_SCHEMA_VERSION 3
