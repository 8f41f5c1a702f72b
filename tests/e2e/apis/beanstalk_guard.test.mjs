// SPDX-License-Identifier: Apache-2.0
// HF-19: bytes of other protocols run no command on the port of beanstalk and no request on the port of HTTP; a command
// that is never completed is not kept for ever.
import assert from 'node:assert/strict';
import net from 'node:net';
import { after, before, describe, test } from 'node:test';

import { Beanstalk, startBeanstalk } from '../lib/beanstalk.mjs';
import { Client } from '../lib/client.mjs';
import { logged, stopServer, until } from '../lib/server.mjs';

/** Commands that would run if the bytes before them were skipped. */
const COMMANDS = '\r\nput 0 0 60 6\r\nforged\r\nreserve-with-timeout 0\r\ndelete 1\r\nkick 10\r\npause-tube default 3600\r\n';
const request = (line, body = COMMANDS) => `${line}\r\nHost: 127.0.0.1\r\nContent-Type: text/plain\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
const bytes = (...list) => Buffer.from(list).toString('latin1');

const HTTP = {
  'POST': request('POST / HTTP/1.1'),
  'lower case': request('post / http/1.1'),
  'mixed case': request('Post /a?b=c HTTP/1.0'),
  'a proxy request': request('GET http://127.0.0.1/ HTTP/1.1'),
  'CONNECT': request('CONNECT 127.0.0.1:80 HTTP/1.1'),
  'OPTIONS *': request('OPTIONS * HTTP/1.1'),
  'a WebSocket handshake': request('GET /chat HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=='),
  'HTTP/0.9': `GET /x${COMMANDS}`,
  'HTTP/2': `PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n${COMMANDS}`,
  'lines that end in LF': `POST / HTTP/1.1\nHost: a\n\n${COMMANDS}`,
  'a long path': request(`POST /${'a'.repeat(3000)} HTTP/1.1`),
  // A page of the same origin (whose name now resolves to this address) chooses the method.
  ...Object.fromEntries(
    ['use', 'watch', 'ignore', 'put', 'reserve', 'reserve-with-timeout', 'delete', 'kick', 'peek', 'stats', 'list-tubes', 'pause-tube', 'quit', 'use-x', 'XPUT'].map((method) => [`the method ${method}`, request(`${method} /x HTTP/1.1`)]),
  ),
  'the method use and a long path': request(`use /${'a'.repeat(300)} HTTP/1.1`),
  'the method use and a path that ends at the longest line': request(`use /${'a'.repeat(224 - 16)} HTTP/1.1`),
  'the method use and lines that end in LF': `use /x HTTP/1.1\nHost: a\n\n${COMMANDS}`,
};
const BINARY = {
  'TLS': bytes(0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3) + COMMANDS,
  'SSL 2': bytes(0x80, 0x2e, 1, 0, 2) + COMMANDS,
  'STUN': bytes(0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42) + COMMANDS,
  'a byte beyond ASCII': bytes(0xe2, 0x82, 0xac) + COMMANDS,
};
const UNKNOWN = {
  'an unknown command': ['hello', 'UNKNOWN_COMMAND'],
  'a command in capitals': ['PUT 0 0 60 1', 'UNKNOWN_COMMAND'],
  'an empty line': ['', 'UNKNOWN_COMMAND'],
  'a line of SMTP': ['EHLO localhost', 'UNKNOWN_COMMAND'],
  'a line of Redis': ['*1', 'UNKNOWN_COMMAND'],
  'a line that is too long': ['z'.repeat(300), 'BAD_FORMAT'],
  'a known command that is too long': [`use ${'a'.repeat(300)}`, 'BAD_FORMAT'],
  'a line of RTSP': ['use rtsp://x RTSP/1.0', 'BAD_FORMAT'],
  'a put without its numbers': ['put 1', 'BAD_FORMAT'],
  'two spaces': ['use  a', 'BAD_FORMAT'],
  'no number': ['reserve-job x', 'BAD_FORMAT'],
  'a zero byte': ['stats\0', 'BAD_FORMAT'],
};

/** Everything that the server replies until it closes. The pieces are written to the socket one by one. */
function exchange(port, pieces) {
  return new Promise((resolve, reject) => {
    const socket = net.connect(port, '127.0.0.1').setNoDelay(true);
    let said = '';
    const limit = setTimeout(() => {
      reject(new Error(`the server keeps the connection open; it said ${JSON.stringify(said)}`));
      socket.destroy();
    }, 60_000);
    socket.on('data', (chunk) => (said += chunk.toString('latin1')));
    socket.on('error', (error) => (['ECONNRESET', 'EPIPE'].includes(error.code) ? undefined : reject(error)));
    socket.on('close', () => {
      clearTimeout(limit);
      resolve(said);
    });
    socket.on('connect', async () => {
      for (const piece of pieces) {
        if (socket.destroyed) return;
        socket.write(piece, 'latin1');
        await new Promise((next) => setImmediate(next));
      }
    });
  });
}

describe('other protocols on the port of beanstalk', () => {
  let server, api, control, victim;
  const began = Date.now();
  const counted = async (protocol) => Number((await api.get('/metrics')).text.match(new RegExp(`^holdfast_beanstalk_cross_protocol_total\\{protocol="${protocol}"\\} (\\d+)$`, 'm'))[1]);
  /** Nothing was put, reserved, deleted, kicked or paused. */
  const untouched = async () => {
    const stats = await control.stats('stats');
    assert.deepEqual(
      Object.fromEntries(['total-jobs', 'current-jobs-ready', 'cmd-put', 'cmd-reserve-with-timeout', 'cmd-delete', 'cmd-kick', 'cmd-pause-tube', 'cmd-use', 'cmd-watch', 'cmd-stats-tube'].map((key) => [key, stats[key]])),
      { 'total-jobs': '1', 'current-jobs-ready': '1', 'cmd-put': '1', 'cmd-reserve-with-timeout': '0', 'cmd-delete': '0', 'cmd-kick': '0', 'cmd-pause-tube': '0', 'cmd-use': '0', 'cmd-watch': '0', 'cmd-stats-tube': '0' },
    );
    const { jobs } = (await api.get('/v1/jobs')).json;
    assert.deepEqual(jobs.map((job) => [job.seq, job.state]), [[victim, 'ready']]);
  };
  before(async () => {
    server = await startBeanstalk({ backend: 'memory' });
    api = new Client(server);
    control = await Beanstalk.connect(server.beanstalk);
    victim = await control.put('victim');
    assert.equal(victim, 1); // COMMANDS would delete it
  });
  after(async () => {
    await control?.close();
    api?.close();
    if (server) await stopServer(server);
  });

  for (const [protocol, cases] of Object.entries({ http: HTTP, binary: BINARY })) {
    test(`HF-19 ${protocol}: the connection is closed and nothing runs, however the bytes are cut`, async () => {
      let closed = 0;
      for (const [name, text] of Object.entries(cases)) {
        const cuts = [[text], [...text.slice(0, 400), text.slice(400)], [text.slice(0, 3), text.slice(3)], [text.slice(0, -COMMANDS.length), COMMANDS]];
        for (const pieces of cuts) assert.equal(await exchange(server.beanstalk, pieces), '', name);
        await untouched();
        closed += cuts.length;
      }
      await until('all are counted', async () => (await counted(protocol)) === closed);
    });
  }

  test('HF-19 an unknown first line gets the reply of beanstalkd, and nothing after it runs', async () => {
    for (const [name, [line, answer]] of Object.entries(UNKNOWN)) {
      const text = `${line}${COMMANDS}`;
      // The client could lose the reply only if bytes were unread when the server closes.
      assert.equal(await exchange(server.beanstalk, [`${line}\r\n`]), `${answer}\r\n`, name);
      for (const pieces of [[text], [...text], [text.slice(0, 1), text.slice(1)]]) assert.match(await exchange(server.beanstalk, pieces), new RegExp(`^(${answer}\r\n)?$`), name);
      await untouched();
    }
    await until('all are counted', async () => (await counted('unknown')) === Object.keys(UNKNOWN).length * 4);
  });

  test('HF-19 the log reports it once a minute, without the bytes that were sent', async () => {
    await logged(server, /beanstalk_cross_protocol/);
    const minutes = (Date.now() - began) / 60_000;
    assert.ok(server.stderr.match(/beanstalk_cross_protocol/g).length <= 1 + minutes);
    assert.doesNotMatch(server.stderr, /forged|Content-Type|aaaa/);
  });

  test('HF-19 unusual first commands are accepted', async () => {
    for (const [line, answer] of [
      ['use /x', 'USING /x'],
      ['use HTTP/1.1', 'USING HTTP/1.1'],
      ['watch HTTP/2.0', 'WATCHING 2'],
      ['list-tube-used', 'USING default'],
      [`ignore ${'a'.repeat(200)}`, 'WATCHING 1'],
    ]) {
      const w = await Beanstalk.connect(server.beanstalk);
      assert.equal(await w.line(line), answer, line);
      // Later malformed and unknown commands are answered, even if they look like HTTP.
      for (const later of ['put 1', 'use rtsp://x RTSP/1.0', 'stats\0']) assert.equal(await w.line(later), 'BAD_FORMAT', later);
      for (const later of ['hello', 'GET / HTTP/1.1', '\x16\x03\x01', '']) assert.equal(await w.line(later), 'UNKNOWN_COMMAND', later);
      assert.match(await w.line('list-tube-used'), /^USING /);
      await w.close();
    }
  });
});

describe('other protocols on the port of HTTP', () => {
  let server, api;
  before(async () => {
    server = await startBeanstalk({ backend: 'memory' });
    api = new Client(server);
    assert.equal((await api.post('/v1/queues/default/jobs', { payload: 1 })).status, 201);
  });
  after(async () => {
    api?.close();
    if (server) await stopServer(server);
  });

  test('HF-19 beanstalk, TLS and HTTP/2 are refused, and no request after them runs', async () => {
    const body = '{"payload":2}';
    const smuggled = `\r\nPOST /v1/queues/default/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
    for (const first of ['put 0 0 60 6\r\nforged\r\n', 'reserve\r\n', 'delete 1\r\n', 'stats\r\n', 'quit\r\n', 'use /x\r\n', ...Object.values(BINARY), 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n']) {
      const text = first + smuggled;
      for (const pieces of [[text], [...text]]) {
        const said = await exchange(server.port, pieces);
        assert.match(said, /^(HTTP\/1\.1 (400|501|505) [^]*)?$/, JSON.stringify(first));
        assert.equal(said.match(/^HTTP\/1\.1/gm)?.length ?? 0, said ? 1 : 0, said);
      }
    }
    const { jobs } = (await api.get('/v1/jobs')).json;
    assert.deepEqual(jobs.map((job) => [job.seq, job.state]), [[1, 'ready']]);
  });
});

describe('incomplete commands', () => {
  let server, api, control;
  const incomplete = async () => Number((await api.get('/metrics')).text.match(/^holdfast_beanstalk_incomplete_total (\d+)$/m)[1]);
  before(async () => {
    server = await startBeanstalk({ backend: 'memory', args: ['--beanstalk-max-job-bytes', '8MiB', '--timeouts-head-ms', '500', '--timeouts-body-ms', '3s'] });
    api = new Client(server);
    control = await Beanstalk.connect(server.beanstalk);
  });
  after(async () => {
    await control?.close();
    api?.close();
    if (server) await stopServer(server);
  });

  test('HF-19 clients with incomplete lines and bodies are closed; idle and waiting clients stay', async () => {
    const [idle, used, waits] = await Promise.all([1, 2, 3].map(() => Beanstalk.connect(server.beanstalk)));
    assert.equal(await used.line('list-tube-used'), 'USING default');
    waits.write('reserve\r\n');
    await until('it waits', async () => (await control.stats('stats'))['current-waiting'] === '1');
    waits.write('use half a li'); // input after the reserve is not read, so it cannot be late
    const halves = ['p', 'put 0 0 60 1', 'use a\r', 'x'.repeat(500), 'GET / HTTP/1.1', 'put 0 0 60 5\r\nabc', 'put 0 0 60 5\r\nabcde', 'put 0 0 60 5\r\nabcde\r', 'put 0 0 60 9999999\r\nabc', 'list-tube-used\r\nput 0 0 60 5\r\nabc', 'list-tube-used\r\nuse'];
    const slow = await Promise.all(halves.map(async (half) => {
      const w = await Beanstalk.connect(server.beanstalk);
      w.write(half);
      return w;
    }));
    for (const [i, w] of slow.entries()) {
      await w.closed;
      const answers = w.answers.map(({ line }) => line);
      assert.deepEqual(answers, halves[i].startsWith('list') ? ['USING default'] : [], halves[i]);
    }
    await until('all are counted', async () => (await incomplete()) === halves.length);
    assert.equal((await control.stats('stats'))['total-jobs'], '0');
    for (const w of [idle, used]) assert.equal(await w.line('list-tube-used'), 'USING default');
    assert.equal(waits.ended, false);
    await control.put('x');
    assert.match((await waits.answer()).line, /^RESERVED /);
    await waits.closed; // now the server waits for the rest of its line
    await Promise.all([idle.close(), used.close()]);
  });

  test('HF-19 the jobs of a client that is closed become ready again', async () => {
    const w = await Beanstalk.connect(server.beanstalk);
    await w.ask('use held');
    await w.ask('watch held');
    const id = await w.put('mine');
    assert.match(await w.line('reserve-job ' + id), /^RESERVED/);
    w.write('dele');
    await w.closed;
    await until('it is ready', async () => (await control.stats(`stats-job ${id}`)).state === 'ready');
  });
});

describe('commands that take their time', () => {
  let server;
  const [headMs, bodyMs] = [2000, 4000];
  before(async () => {
    server = await startBeanstalk({ backend: 'memory', args: ['--beanstalk-max-job-bytes', '8MiB', '--timeouts-head-ms', String(headMs), '--timeouts-body-ms', String(bodyMs)] });
  });
  after(async () => {
    if (server) await stopServer(server);
  });

  /** A connection that sends this text and nothing more: the server closes it when the time limit has passed. */
  const begun = async (text) => {
    const w = await Beanstalk.connect(server.beanstalk);
    w.write(text);
    return w;
  };

  /**
   * attempt(w, pace) calls pace() after each step, and resolves to whether the server let it finish. If the server
   * closed the client correctly, because one of the two processes did not run for a long time, the attempt proves
   * nothing and is repeated.
   */
  const isServed = async (limitMs, attempt) => {
    for (let tries = 1; ; tries++) {
      const w = await Beanstalk.connect(server.beanstalk);
      let last = Date.now(), longest = 0;
      const pace = () => ([longest, last] = [Math.max(longest, Date.now() - last), Date.now()]);
      const served = await attempt(w, pace);
      pace();
      await w.close();
      if (served) return;
      assert.ok(longest > limitMs / 2, `given up, though no pause was longer than ${longest} ms`);
      assert.ok(tries < 10, `given up ${tries} times, the last time after a pause of ${longest} ms`);
    }
  };

  test('HF-19 lines without pauses between them are not late', () =>
    isServed(headMs, async (w, pace) => {
      // There is always an incomplete line, and each time another one.
      w.write('list-tube-used\r\nlist-tu');
      const late = await begun('use ');
      while (!late.ended) {
        const { line } = await w.answer();
        pace();
        if (line === 'CLOSED') return false;
        assert.equal(line, 'USING default');
        w.write('be-used\r\nlist-tu');
      }
      return true;
    }));

  test('HF-19 a large put that makes progress may take longer than the limit', () =>
    isServed(bodyMs, async (w, pace) => {
      const chunk = Buffer.alloc(64 << 10, 'k');
      let left = 8 << 20;
      w.write(`put 0 0 60 ${left}\r\n`);
      const late = await begun('put 0 0 60 5\r\nabc');
      while (!late.ended && !w.ended) {
        if (left > chunk.length) {
          await new Promise((resolve) => w.socket.write(chunk, resolve));
          left -= chunk.length;
          pace();
        }
        await new Promise((resolve) => setTimeout(resolve, 50)); // the pace of the client
      }
      w.socket.write(Buffer.alloc(left, 'k'));
      w.write('\r\n');
      const { line } = await w.answer();
      if (line === 'CLOSED') return false;
      assert.match(line, /^INSERTED /);
      return true;
    }));
});
