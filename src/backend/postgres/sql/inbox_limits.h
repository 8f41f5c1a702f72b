/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of the inbox (sql/inbox.sql, inbox.c). */
#pragma once

#define INBOX_BATCH 500              /* rows that one transaction of a node takes */
#define INBOX_BATCH_BYTES (8 << 20)  /* … and about how many bytes of payloads */
#define INBOX_REFUSED_MAX 10000      /* refusals that are kept */
#define INBOX_REFUSED_MS 604800000LL /* … and for how long: 7 days */
#define INBOX_KEPT_BYTES (64 << 10)  /* a refusal keeps payloads up to this size */
#define INBOX_COUNTED_MAX 10000      /* waiting rows are counted up to this number */
