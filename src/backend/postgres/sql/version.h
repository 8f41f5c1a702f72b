/* SPDX-License-Identifier: Apache-2.0 */
/* The version of the schema, and the numbers of this store that both its statements and its C code
 * use. */
#pragma once

/* Of the tables in sql/schema.sql. A database with another one is refused. 1 was a draft. */
#define PG_SCHEMA_VERSION 6

/* In the column flags of a job, above the bits of core/jobs/job.h: it runs in a queue with limits
 * at the claim, and therefore occupies a slot (index job_slot). */
#define FLAG_SLOT 256

/* At most about as many ready jobs are loaded for the claims of one unit from queues with groups.
 */
#define GROUP_ROWS 4000

/* Ready jobs that the groups of a queue keep back are counted up to this number. */
#define LIMITED_SHOWN 10000
