/* SPDX-License-Identifier: Apache-2.0 */
/* What an operator should do when the store of a running process has failed for good. */
#pragma once

/* For one of -ERR_…; never NULL. */
const char *fatal_advice(int error);
