// SPDX-License-Identifier: Apache-2.0
// Imported first: the server is the one that users have, for its speed and because a library can be
// preloaded into it; the build with sanitizers allows neither.
import path from 'node:path';

process.env.HF_BIN ??= path.resolve(path.dirname(new URL(import.meta.url).pathname), '../../../build/release/holdfast');
