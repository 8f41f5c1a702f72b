/* SPDX-License-Identifier: Apache-2.0 */
/* The advice for the operator when the store of a running process has failed permanently. */
#pragma once

/* For one of -ERR_…; never NULL. */
const char *fatal_advice(int error);
