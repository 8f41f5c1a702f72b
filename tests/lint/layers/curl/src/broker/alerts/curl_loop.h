/* SPDX-License-Identifier: Apache-2.0 */
#include <curl/curl.h>
