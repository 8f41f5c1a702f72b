/* SPDX-License-Identifier: Apache-2.0 */
/* What can be wrong with the counters by the hour. */
#include "backend/local/offline/check/check_impl.h"

/* A queue that is new has none; what is there must be of a queue. */
void check_hours(struct check *c)
{
    check_query(c, "SELECT DISTINCT printf('table hour has a row for queue %d, which does not"
                   " exist', h.queue) FROM hour h LEFT JOIN queues q ON q.number = h.queue"
                   " WHERE q.number IS NULL");
}
