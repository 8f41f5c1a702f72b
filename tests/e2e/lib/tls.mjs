// SPDX-License-Identifier: Apache-2.0
// Certificates for tests, made with the openssl command.
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import tls from 'node:tls';

import { temporaryDirectory } from './server.mjs';

const openssl = (...args) => execFileSync('openssl', args, { stdio: ['ignore', 'pipe', 'pipe'], encoding: 'utf8' });
const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];

/** A certificate authority in its own directory: `file` is its certificate, `text` the same as PEM. */
export function authority(name = 'test authority') {
  const dir = temporaryDirectory();
  const at = (file) => path.join(dir, file);
  openssl('req', '-x509', ...newKey, '-days', '30', '-subj', `/CN=${name}`, '-keyout', at('ca.key'), '-out', at('ca.pem'));
  let count = 0;
  return {
    dir,
    file: at('ca.pem'),
    text: readFileSync(at('ca.pem'), 'utf8'),
    /** {cert, key}: files. A negative number of days gives a certificate that has expired. */
    issue({ san = 'DNS:localhost,IP:127.0.0.1', days = 10, stem = `cert${++count}` } = {}) {
      const files = { cert: at(`${stem}.pem`), key: at(`${stem}.key`) };
      openssl('req', ...newKey, '-subj', `/CN=${stem}`, '-keyout', files.key, '-out', at('request.pem'));
      writeFileSync(at('extensions'), `subjectAltName=${san}\n`);
      openssl('x509', '-req', '-in', at('request.pem'), '-CA', at('ca.pem'), '-CAkey', at('ca.key'), '-CAcreateserial', '-days', String(days), '-extfile', at('extensions'), '-out', files.cert);
      return files;
    },
  };
}

export const tlsArgs = (pair, ...more) => ['--tls-cert', pair.cert, '--tls-key', pair.key, ...more];

/** A connected socket, or an error. Options are those of tls.connect. */
export function connect(server, ca, options = {}) {
  return new Promise((resolve, reject) => {
    const socket = tls.connect({ host: '127.0.0.1', port: server.port, servername: 'localhost', ca: ca.text, ...options });
    socket.once('secureConnect', () => resolve(socket));
    socket.once('error', reject);
  });
}

/** Everything that the server sends until it closes. `pieces`: the size of the records of what is sent. */
export async function exchange(server, ca, text, { pieces = Infinity, ...options } = {}) {
  const socket = await connect(server, ca, options);
  let got = '';
  socket.setNoDelay(true);
  const ended = new Promise((resolve, reject) => {
    socket.on('data', (chunk) => (got += chunk.toString('latin1')));
    socket.on('close', () => resolve(got));
    socket.on('error', (e) => (got ? resolve(got) : reject(e)));
  });
  const bytes = Buffer.from(text, 'latin1');
  for (let i = 0; i < bytes.length && !socket.destroyed; i += pieces) socket.write(bytes.subarray(i, i + pieces));
  return ended;
}
