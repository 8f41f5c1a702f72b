// SPDX-License-Identifier: Apache-2.0
// Requests that must be refused with 400, because two readers could take them for different requests.

const host = 'Host: localhost\r\n';

export const malformed = {
  'Content-Length with Transfer-Encoding': `POST /v1/queues/a/jobs HTTP/1.1\r\n${host}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
  'Content-Length twice': `POST /v1/queues/a/jobs HTTP/1.1\r\n${host}Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}`,
  'Content-Length with a sign': `POST /v1/queues/a/jobs HTTP/1.1\r\n${host}Content-Length: +2\r\n\r\n{}`,
  'Content-Length as a list': `POST /v1/queues/a/jobs HTTP/1.1\r\n${host}Content-Length: 2, 2\r\n\r\n{}`,
  'an unknown Transfer-Encoding': `POST /v1/queues/a/jobs HTTP/1.1\r\n${host}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n`,
  'a padded Transfer-Encoding': `POST /v1/queues/a/jobs HTTP/1.1\r\n${host}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n`,
  'Transfer-Encoding in HTTP/1.0': `POST /v1/queues/a/jobs HTTP/1.0\r\n${host}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
  'a folded header': `GET /healthz HTTP/1.1\r\n${host}X: a\r\n b\r\n\r\n`,
  'a bare LF': `GET /healthz HTTP/1.1\n${host}\r\n`,
  'a bare CR': `GET /healthz HTTP/1.1\r\n${host}X: a\rb\r\n\r\n`,
  'a space before the colon': `GET /healthz HTTP/1.1\r\nHost : localhost\r\n\r\n`,
  'a NUL': `GET /healthz HTTP/1.1\r\n${host}X: a\0b\r\n\r\n`,
  'no Host': 'GET /healthz HTTP/1.1\r\n\r\n',
  'two Hosts': `GET /healthz HTTP/1.1\r\n${host}${host}\r\n`,
  'a chunk size that overflows': `POST /v1/queues/a/jobs HTTP/1.1\r\n${host}Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n`,
  'a chunk size with a sign': `POST /v1/queues/a/jobs HTTP/1.1\r\n${host}Transfer-Encoding: chunked\r\n\r\n-1\r\n`,
  'two spaces in the request line': `GET  /healthz HTTP/1.1\r\n${host}\r\n`,
  'no version': `GET /healthz\r\n${host}\r\n`,
  'rubbish': '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n',
};
