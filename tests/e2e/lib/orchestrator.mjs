// SPDX-License-Identifier: Apache-2.0
// Requests of the orchestrator API that several test files make.
import { status } from './expect.mjs';
import { freshQueue } from './suite.mjs';

export const makeQueue = async (api, more = {}) => status(await api.post('/api/queues', { name: freshQueue('orc'), ...more }), 201);
export const add = async (api, queue, more = {}) => status(await api.post('/api/queue-items', { queue_id: queue.id, ...more }), 201);
export const item = async (api, id) => status(await api.get(`/api/queue-items/${id}`), 200);
export const put = (api, id, body) => api.put(`/api/queue-items/${id}`, body);
export const next = (api, queue, more = '') => api.get(`/api/queue-items/next?queue_id=${queue.id}${more}`);
export const advance = async (api, ms) => status(await api.post('/v1/test/clock', { advance_ms: ms }), 200);
