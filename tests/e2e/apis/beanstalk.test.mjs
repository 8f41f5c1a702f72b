// SPDX-License-Identifier: Apache-2.0
// HF-4: beanstalkd's protocol on its own port, over the same queues as HTTP.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { symlinkSync } from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';

import { has, only, storesOf } from '../lib/backend.mjs';
import { Beanstalk, listOf, listening, startBeanstalk } from '../lib/beanstalk.mjs';
import { Client } from '../lib/client.mjs';
import { freePort } from '../lib/ports.mjs';
import { binary, killServer, leanSanitizer, residentMiB, startServer, stopServer, temporaryDirectory, until } from '../lib/server.mjs';

let tubes = 0;
const freshTube = () => `t${process.pid}-${++tubes}`;
const ID = (line) => Number(line.match(/^(?:RESERVED|FOUND|INSERTED) (\d+)/)?.[1]);

test('a put that would exceed the number of queues gets OUT_OF_MEMORY', async () => {
  const server = await startBeanstalk({ args: ['--limits-auto-queues', '2'] });
  const w = await Beanstalk.connect(server.beanstalk);
  for (const [tube, answer] of [['one', 'INSERTED'], ['two', 'INSERTED'], ['three', 'OUT_OF_MEMORY'], ['three', 'OUT_OF_MEMORY'], ['two', 'INSERTED']]) {
    assert.equal(await w.line(`use ${tube}`), `USING ${tube}`);
    assert.match(await w.line('put 0 0 60 1\r\nx'), new RegExp(`^${answer}`), tube);
  }
  await w.close();
  await stopServer(server);
});

for (const backend of storesOf(['memory', 'sqlite'])) {
  describe(`the API on ${backend}`, () => {
    let server, api, c;
    const open = () => Beanstalk.connect(server.beanstalk);
    /** A connection that uses and watches only its own tube. */
    const worker = async (tube = freshTube()) => {
      const w = await open();
      assert.equal(await w.line(`use ${tube}`), `USING ${tube}`);
      assert.equal(await w.line(`watch ${tube}`), 'WATCHING 2');
      assert.equal(await w.line('ignore default'), 'WATCHING 1');
      w.tube = tube;
      return w;
    };
    const job = async (id) => (await api.get(`/v1/jobs/${id}`)).json;
    before(async () => {
      server = await startBeanstalk({ backend, args: ['--auto-create=false'] });
      api = new Client(server);
      c = await open();
    });
    after(async () => {
      api.close();
      await c.close();
      await stopServer(server);
    });

    test('HF-4 put, reserve, delete; /v1 shows each step', async () => {
      const w = await worker();
      const body = Buffer.from([0, 13, 10, 255, 65, 13]);
      const id = await w.put(body, { pri: 7, ttr: 120 });
      let seen = await job(id);
      assert.equal(seen.state, 'ready');
      assert.equal(seen.seq, id);
      assert.equal(seen.priority, -7);
      assert.equal(seen.queue, w.tube);
      const reserved = await w.ask('reserve');
      assert.equal(reserved.line, `RESERVED ${id} ${body.length}`);
      assert.deepEqual(reserved.data, body);
      seen = await job(id);
      assert.equal(seen.state, 'running');
      assert.equal(await w.line(`delete ${id}`), 'DELETED');
      assert.equal((await api.get(`/v1/jobs/${id}`)).status, 404);
      assert.equal(await w.line(`delete ${id}`), 'NOT_FOUND');
      await w.close();
    });

    test('HF-4 a job is enqueued by HTTP, reserved and buried here, dead in HTTP, then requeued and acked by HTTP', async () => {
      const w = await worker();
      assert.equal((await api.put(`/v1/queues/${w.tube}`, {})).status, 201);
      const made = await api.post(`/v1/queues/${w.tube}/jobs`, { payload: { to: 'ann' } });
      assert.equal(made.status, 201);
      const { id, seq } = made.json;
      const reserved = await w.ask('reserve-with-timeout 5');
      assert.equal(ID(reserved.line), seq);
      assert.deepEqual(JSON.parse(reserved.data), { to: 'ann' });
      assert.equal((await job(id)).state, 'running');
      assert.equal(await w.line(`bury ${seq} 9`), 'BURIED');
      const dead = await job(id);
      assert.equal(dead.state, 'dead');
      assert.equal(dead.reason, 'rejected');
      assert.equal(dead.priority, -9);
      assert.equal((await w.stats(`stats-job ${seq}`)).state, 'buried');
      assert.equal((await w.ask('peek-buried')).line, `FOUND ${seq} ${reserved.data.length}`);
      assert.equal((await api.post(`/v1/jobs/${id}/requeue`, {})).status, 200);
      assert.equal((await job(id)).state, 'ready');
      assert.equal(await w.line('peek-buried'), 'NOT_FOUND');
      const claimed = await api.post(`/v1/queues/${w.tube}/claim`, { worker: 'http' });
      assert.equal(claimed.json.jobs[0].id, id);
      assert.equal((await w.stats(`stats-job ${seq}`)).state, 'reserved');
      assert.equal(await w.line(`delete ${seq}`), 'NOT_FOUND'); // another's
      assert.equal((await api.post(`/v1/jobs/${id}/ack`, { token: claimed.json.jobs[0].token })).status, 200);
      assert.equal((await job(id)).state, 'done');
      assert.equal(await w.line(`peek ${seq}`), 'NOT_FOUND');
      assert.equal(await w.line(`delete ${seq}`), 'NOT_FOUND');
      assert.equal(await w.line(`stats-job ${seq}`), 'NOT_FOUND');
      await w.close();
    });

    test('HF-4 the end of the time to run makes the job ready, and DEADLINE_SOON comes a second earlier', async () => {
      const [w, other] = [await worker(), await open()];
      const id = await w.put('x', { ttr: 2 });
      const began = Date.now();
      assert.equal(ID((await w.ask('reserve')).line), id);
      assert.equal(await w.line('reserve'), 'DEADLINE_SOON'); // the reply comes after a wait
      assert.ok(Date.now() - began >= 990, 'not at once');
      assert.equal(await w.line('reserve-with-timeout 0'), 'DEADLINE_SOON');
      assert.equal(await w.line(`touch ${id}`), 'TOUCHED');
      assert.equal(await w.line('reserve-with-timeout 0'), 'TIMED_OUT');
      await other.ask(`watch ${w.tube}`);
      assert.equal(ID((await other.ask('reserve')).line), id); // the lease of w expired
      const stats = await c.stats(`stats-job ${id}`);
      assert.deepEqual([stats.timeouts, stats.reserves, stats.ttr], ['1', '2', '2']);
      assert.equal(await w.line(`delete ${id}`), 'NOT_FOUND');
      assert.equal(await w.line(`touch ${id}`), 'NOT_FOUND');
      assert.equal(await w.line(`release ${id} 0 0`), 'NOT_FOUND');
      assert.equal(await other.line(`delete ${id}`), 'DELETED');
      assert.ok(Number((await c.stats('stats'))['job-timeouts']) >= 1);
      await Promise.all([w.close(), other.close()]);
    });

    test('HF-4 a connection may delete a job whose time to run has ended', async () => {
      const w = await worker();
      const id = await w.put('x', { ttr: 1 });
      assert.equal(ID((await w.ask('reserve')).line), id);
      await until('it is ready again', async () => (await c.stats(`stats-job ${id}`)).state === 'ready');
      assert.equal(await w.line(`delete ${id}`), 'DELETED');
      await w.close();
    });

    test('HF-4 the jobs of a connection that closes are ready again, uncounted', async () => {
      const [w, other] = [await worker(), await open()];
      const ids = [await w.put('1'), await w.put('2'), await w.put('3')];
      for (const id of ids) assert.equal(ID((await w.ask('reserve')).line), id);
      assert.equal((await c.stats(`stats-tube ${w.tube}`))['current-jobs-reserved'], '3');
      await w.close();
      await until('they are ready', async () => (await c.stats(`stats-tube ${w.tube}`))['current-jobs-ready'] === '3');
      const stats = await c.stats(`stats-job ${ids[0]}`);
      assert.deepEqual([stats.reserves, stats.releases, stats.timeouts], ['1', '0', '0']);
      await other.ask(`watch ${w.tube}`);
      for (const id of ids) assert.equal(ID((await other.ask('reserve')).line), id);
      const seen = await job(ids[0]);
      assert.deepEqual([seen.attempts, seen.failures, seen.crashes], [1, 0, 0]); // nothing was counted against it
      await other.close();
    });

    test('HF-4 release with priority and delay, kick, and the figures of the job', async () => {
      const w = await worker();
      const id = await w.put('x', { pri: 5 });
      await w.ask('reserve');
      assert.equal(await w.line(`release ${id} 3 100`), 'RELEASED');
      let stats = await w.stats(`stats-job ${id}`);
      assert.deepEqual([stats.state, stats.pri, stats.delay, stats.releases], ['delayed', '3', '100', '1']);
      assert.ok(Number(stats['time-left']) >= 90);
      assert.equal((await job(id)).state, 'scheduled');
      assert.equal((await w.ask('peek-delayed')).line, `FOUND ${id} 1`);
      assert.equal(await w.line('kick 10'), 'KICKED 1');
      stats = await w.stats(`stats-job ${id}`);
      assert.deepEqual([stats.state, stats.kicks], ['ready', '1']);
      await w.ask('reserve');
      assert.equal(await w.line(`bury ${id} 4294967295`), 'BURIED');
      const later = await w.put('later', { delay: 50 });
      assert.equal(await w.line('kick 10'), 'KICKED 1'); // the buried one only
      assert.equal((await w.stats(`stats-job ${later}`)).state, 'delayed');
      assert.equal(await w.line(`kick-job ${later}`), 'KICKED');
      assert.equal((await w.stats(`stats-job ${id}`)).pri, '4294967295');
      assert.equal(ID((await w.ask('reserve')).line), later); // by priority
      await w.close();
    });

    test('HF-4 kick takes hundreds, oldest buried first', async () => {
      const w = await worker();
      const ids = [];
      for (let i = 0; i < 250; i++) ids.push(await w.put('x'));
      for (const id of ids) await w.ask(`reserve-job ${id}`);
      for (const id of [...ids].reverse()) assert.equal(await w.line(`bury ${id} 1`), 'BURIED');
      assert.equal(await w.line('kick 201'), 'KICKED 201');
      const stats = await w.stats(`stats-tube ${w.tube}`);
      assert.deepEqual([stats['current-jobs-ready'], stats['current-jobs-buried']], ['201', '49']);
      // Elsewhere those of one millisecond stand in the order of their puts.
      const left = ID((await w.ask('peek-buried')).line);
      assert.ok(has('ends_in_order') ? left === ids[48] : ids.slice(0, 60).includes(left));
      assert.equal((await api.get(`/v1/queues/${w.tube}/stats`)).json.counts.dead, 49);
      await w.close();
    });

    test('HF-4 pause-tube delays reserves for its time', async () => {
      const w = await worker();
      const id = await w.put('x');
      const began = Date.now();
      assert.equal(await w.line(`pause-tube ${w.tube} 2`), 'PAUSED');
      const stats = await w.stats(`stats-tube ${w.tube}`);
      assert.deepEqual([stats.pause, stats['cmd-pause-tube']], ['2', '1']);
      assert.equal(await w.line('reserve-with-timeout 0'), 'TIMED_OUT');
      assert.ok((await api.get(`/v1/queues/${w.tube}`)).json.paused_until);
      assert.equal(ID((await w.ask('reserve')).line), id); // when the pause is over
      assert.ok(Date.now() - began >= 1990);
      assert.equal((await w.stats(`stats-tube ${w.tube}`)).pause, '0');
      assert.equal(await w.line('pause-tube unused-tube 1'), 'NOT_FOUND');
      await w.close();
    });

    test('HF-4 a tube exists as long as a connection or a job refers to it', async () => {
      const w = await worker();
      const tubes = async () => listOf((await c.ask('list-tubes')).data);
      assert.ok((await tubes()).includes(w.tube));
      assert.ok((await tubes()).includes('default'));
      const id = await w.put('x');
      await w.close();
      await until('no connection uses it', async () => (await c.stats(`stats-tube ${w.tube}`))['current-using'] === '0');
      assert.ok((await tubes()).includes(w.tube), 'it has a job');
      assert.equal((await api.get(`/v1/queues/${w.tube}`)).status, 200);
      assert.equal(await c.line(`delete ${id}`), 'DELETED');
      assert.ok(!(await tubes()).includes(w.tube));
      assert.equal(await c.line(`stats-tube ${w.tube}`), 'NOT_FOUND');
      await until('its queue is deleted, too', async () => (await api.get(`/v1/queues/${w.tube}`)).status === 404);
    });

    test('HF-4 an empty queue of another API is a tube and is kept; names that no tube may have are not listed', async () => {
      const queue = freshTube();
      assert.equal((await api.put(`/v1/queues/${queue}`, { max_attempts: 2 })).status, 201);
      assert.equal((await api.put(`/v1/queues/${encodeURIComponent('no tube é')}`, {})).status, 201);
      const list = listOf((await c.ask('list-tubes')).data);
      assert.ok(list.includes(queue));
      assert.ok(!list.some((name) => name.startsWith('no tube')));
      const w = await worker(queue);
      const id = await w.put('x');
      await w.ask('reserve');
      assert.equal(await w.line(`delete ${id}`), 'DELETED');
      assert.equal((await job(id)).state, 'done'); // its queue keeps done jobs
      await w.close();
      const stats = await c.stats(`stats-tube ${queue}`);
      assert.equal(stats['total-jobs'], '1');
      assert.equal((await api.get(`/v1/queues/${queue}`)).json.policy.max_attempts, 2);
    });

    test('HF-4 puts create their tube even if auto_create is off, with a policy without a limit of attempts', async () => {
      const w = await worker();
      await w.put('x');
      const { policy } = (await api.get(`/v1/queues/${w.tube}`)).json;
      assert.deepEqual([policy.max_crashes, policy.keep_done, policy.lease_end], [0, 0, 'requeue']);
      await w.close();
    });

    test('HF-4 a waiting reserve gets the next job from any API', async () => {
      const w = await worker();
      w.write('reserve\r\n');
      await until('it waits', async () => (await c.stats(`stats-tube ${w.tube}`))['current-waiting'] === '1');
      assert.equal((await api.put(`/v1/queues/${w.tube}`, {})).status, 201);
      const made = await api.post(`/v1/queues/${w.tube}/jobs`, { payload: 1 });
      assert.equal(ID((await w.answer()).line), made.json.seq);
      const began = Date.now();
      assert.equal(await w.line('reserve-with-timeout 1'), 'TIMED_OUT');
      assert.ok(Date.now() - began >= 900);
      await w.close();
    });

    test('HF-4 several tubes: priority, then age', async () => {
      const [a, b] = [await worker(), await worker()];
      const later = await a.put('a', { pri: 10 });
      const sooner = await b.put('b', { pri: 9 });
      const same = await b.put('c', { pri: 10 });
      await a.ask(`watch ${b.tube}`);
      assert.deepEqual([ID((await a.ask('reserve')).line), ID((await a.ask('reserve')).line), ID((await a.ask('reserve')).line)], [sooner, later, same]);
      await Promise.all([a.close(), b.close()]);
    });

    test('HF-4 commands in one write are answered in order', async () => {
      const w = await worker();
      let text = '';
      for (let i = 0; i < 500; i++) text += `put 0 0 60 ${String(i).length}\r\n${i}\r\n`;
      w.write(`${text}list-tube-used\r\nreserve\r\nnonsense\r\nstats-tube ${w.tube}\r\n`);
      const ids = [];
      for (let i = 0; i < 500; i++) ids.push(ID((await w.answer()).line));
      assert.deepEqual(ids, [...ids].sort((x, y) => x - y));
      assert.equal((await w.answer()).line, `USING ${w.tube}`);
      const reserved = await w.answer();
      assert.equal(reserved.line, `RESERVED ${ids[0]} 1`);
      assert.equal(reserved.data.toString(), '0');
      assert.equal((await w.answer()).line, 'UNKNOWN_COMMAND');
      assert.match((await w.answer()).data.toString(), /current-jobs-ready: 499\ncurrent-jobs-reserved: 1\n/);
      await w.close();
    });

    test('HF-4 reserves in one write take the jobs in order; a delete between them need not wait', async () => {
      const w = await worker();
      const ids = [];
      for (let i = 0; i < 250; i++) ids.push(await w.put(`job ${i}`));
      w.write('reserve\r\n'.repeat(150));
      for (let i = 0; i < 150; i++) {
        const { line, data } = await w.answer();
        assert.equal(ID(line), ids[i]);
        assert.equal(data.toString(), `job ${i}`);
      }
      w.write(ids.slice(0, 100).map((id) => `delete ${id}\r\nreserve-with-timeout 0\r\n`).join('') + `reserve-with-timeout 0\r\ndelete ${ids[249]}\r\ndelete ${ids[249]}\r\n`);
      for (let i = 0; i < 100; i++) {
        assert.equal((await w.answer()).line, 'DELETED');
        assert.equal(ID((await w.answer()).line), ids[150 + i]);
      }
      assert.equal((await w.answer()).line, 'TIMED_OUT');
      assert.equal((await w.answer()).line, 'DELETED'); // known only from an answer of the same write
      assert.equal((await w.answer()).line, 'NOT_FOUND');
      const stats = await c.stats(`stats-tube ${w.tube}`);
      assert.deepEqual([stats['current-jobs-reserved'], stats['current-jobs-ready'], stats['cmd-delete']], ['149', '0', '101']);
      w.write('reserve\r\nreserve\r\nlist-tube-used\r\n');
      await until('they wait', async () => (await c.stats(`stats-tube ${w.tube}`))['current-waiting'] === '1');
      await c.ask(`use ${w.tube}`);
      const next = [await c.put('a'), await c.put('b')];
      assert.deepEqual([ID((await w.answer()).line), ID((await w.answer()).line)], next);
      assert.equal((await w.answer()).line, `USING ${w.tube}`);
      await c.ask('use default');
      await w.close();
    });

    test('HF-4 bytes may arrive one by one', async () => {
      const w = await worker();
      for (const byte of 'put 0 0 60 5\r\nhe\r\no\r\nreserve-with-timeout 1\r\n') {
        w.write(byte);
        await new Promise((resolve) => setImmediate(resolve));
      }
      const id = ID((await w.answer()).line);
      const { line, data } = await w.answer();
      assert.equal(line, `RESERVED ${id} 5`);
      assert.equal(data.toString(), 'he\r\no');
      await w.close();
    });

    test('HF-4 malformed and too long commands are refused, and the connection stays open', async () => {
      const w = await worker();
      const long = 'z'.repeat(70_000);
      for (const [sent, answer] of [
        ['put 0 0 1 65536\r\n' + 'k'.repeat(65536), 'JOB_TOO_BIG'],
        ['put 0 0 1 5\r\nabcdefg'.slice(0, -2) + 'xx', 'EXPECTED_CRLF'],
        ['put 0 0 1 1 z', 'BAD_FORMAT'],
        [long, 'BAD_FORMAT'],
        [`use ${'a'.repeat(201)}`, 'BAD_FORMAT'],
        [`use ${'a'.repeat(217)}`, 'BAD_FORMAT'],
        [`use ${'a'.repeat(218)}`, 'BAD_FORMAT'],
        [`use ${'a'.repeat(219)}`, 'BAD_FORMAT'],
        ['stats\0', 'BAD_FORMAT'],
        ['use a\rb', 'BAD_FORMAT'],
        ['pause-tube -a 1', 'BAD_FORMAT'],
        ['reserve-with-timeout x', 'BAD_FORMAT'],
        ['RESERVE', 'UNKNOWN_COMMAND'],
        ['', 'UNKNOWN_COMMAND'],
      ]) {
        w.write(answer === 'EXPECTED_CRLF' ? sent : `${sent}\r\n`);
        assert.equal((await w.answer()).line, answer, JSON.stringify(sent.slice(0, 40)));
      }
      assert.equal(await w.line('list-tube-used'), `USING ${w.tube}`);
      await w.close();
    });

    test('HF-4 a client that has closed its sending side still gets its replies; a waiting reserve gets TIMED_OUT', async () => {
      const w = await worker();
      w.socket.allowHalfOpen = true;
      w.write('put 0 0 60 1\r\nx\r\nreserve\r\nreserve\r\n');
      const id = ID((await w.answer()).line);
      assert.equal(ID((await w.answer()).line), id);
      w.socket.end();
      assert.equal((await w.answer()).line, 'TIMED_OUT');
      await w.closed;
      await until('the job is ready again', async () => (await c.stats(`stats-job ${id}`)).state === 'ready');
    });

    test('HF-4 reserves before the end of input keep their jobs', async () => {
      const w = await worker();
      w.socket.allowHalfOpen = true;
      w.write('put 0 0 60 1\r\nx\r\n'.repeat(20) + 'reserve\r\n'.repeat(3) + 'reserve-with-timeout 60\r\n'.repeat(18));
      w.socket.end();
      const lines = [];
      while (lines.at(-1) !== 'CLOSED') lines.push((await w.answer()).line);
      const ids = lines.slice(0, 20).map(ID);
      assert.deepEqual(lines.slice(20), [...ids.map((id) => `RESERVED ${id} 1`), 'TIMED_OUT', 'CLOSED']);
      await until('the jobs are ready again', async () => (await c.stats(`stats-tube ${w.tube}`))['current-jobs-ready'] === '20');
    });

    test('HF-4 a client that disconnects with much unread input behind its reserve is closed', async () => {
      const w = await worker();
      w.socket.allowHalfOpen = true;
      w.write('reserve\r\n' + `${'x'.repeat(100)}\r\n`.repeat(1300) + 'reserve\r\n'); // more than 128 KiB
      w.socket.end();
      await until('it is let go', () => w.ended);
      assert.deepEqual([w.answers.length, w.answers[0].line, w.answers[1].line, w.answers.at(-1).line], [1302, 'TIMED_OUT', 'UNKNOWN_COMMAND', 'TIMED_OUT']);
    });

    test('HF-4 an incomplete command before the end of input has no effect', async () => {
      const open = Number((await c.stats('stats'))['current-connections']);
      for (const half of ['put 0 0 60 100\r\nabc', 'put 0 0', 'reserve', 'use a\r', '\r', 'put 0 0 1 999999\r\nabc', 'x'.repeat(500)]) {
        const w = await Beanstalk.connect(server.beanstalk);
        w.write(half);
        w.socket.end();
        await w.closed;
      }
      await until('they are gone', async () => Number((await c.stats('stats'))['current-connections']) === open);
    });

    test('HF-4 quit closes the connection after the replies', async () => {
      const w = await worker();
      w.write('put 0 0 60 1\r\nx\r\nquit\r\nstats\r\n');
      assert.match((await w.answer()).line, /^INSERTED/);
      assert.equal((await w.answer()).line, 'CLOSED');
    });
  });
}

test('HF-4 tubes are created and deleted on a store whose replies are late, out of order, or lost', async (t) => {
  const [backend] = storesOf(['fault+sqlite']);
  const server = await startBeanstalk({ backend });
  t.after(() => server.exit || stopServer(server));
  const c = await Beanstalk.connect(server.beanstalk);
  /** Repeats the command while the store does not answer; the first attempt may have succeeded. */
  const insist = async (command, wanted) => {
    const line = await until(command, async () => {
      const said = await c.line(command);
      return said === 'INTERNAL_ERROR' ? null : said;
    });
    assert.match(line, wanted);
  };
  for (let i = 0; i < 150; i++) {
    await insist(`use brief-${i}`, /^USING/);
    const id = await until('it is put', () => c.put('x').catch((error) => (/INTERNAL_ERROR/.test(error.message) ? null : Promise.reject(error))));
    await insist(`delete ${id}`, /^(DELETED|NOT_FOUND)$/);
  }
  // A tube whose deletion failed in the store is kept; most are deleted.
  await insist('use default', /^USING/);
  const api = new Client(server);
  const left = async () => (await api.get('/v1/queues?limit=1000')).json.queues.filter((one) => one.name.startsWith('brief-'));
  await until('tubes are gone', async () => (await left()).length < 100);
  api.close();
  await c.close();
  await stopServer(server);
});

test('HF-4 the server does not read from a client that does not read, and closes it', async () => {
  const server = await startBeanstalk({ backend: 'memory', args: ['--timeouts-write-ms', '500', '--limits-write-buffer-bytes', '64KiB'], env: leanSanitizer });
  const c = await Beanstalk.connect(server.beanstalk);
  await c.put('z'.repeat(60_000));
  const before = residentMiB(server);
  const slow = net.connect(server.beanstalk, '127.0.0.1');
  slow.on('error', () => {});
  slow.pause();
  const asked = 'peek-ready\r\n'.repeat(20_000); // 1.2 GB of replies
  slow.write(asked);
  await until('it is here', async () => (await c.stats('stats'))['total-connections'] === '2');
  await until('it is dropped', async () => (await c.stats('stats'))['current-connections'] === '1');
  assert.ok(residentMiB(server) - before < 40, `${residentMiB(server) - before} MiB more`);
  slow.destroy();
  await c.close();
  await stopServer(server);
});

test('HF-4 10,000 connections wait; each put wakes exactly one', async () => {
  const server = await startBeanstalk({ backend: 'memory', env: leanSanitizer });
  const c = await Beanstalk.connect(server.beanstalk);
  const count = 10_000;
  let answers = 0;
  const waiting = [];
  for (let i = 0; i < count; i++) {
    const s = net.connect(server.beanstalk, '127.0.0.1');
    s.on('data', () => answers++);
    s.on('error', () => {});
    s.write('reserve\r\n');
    waiting.push(s);
    if (i % 500 === 499) await until('they have come', async () => Number((await c.stats('stats'))['current-waiting']) === i + 1, 60_000);
  }
  for (let n = 1; n <= 20; n++) {
    await c.put(`job ${n}`);
    await until('one has it', () => answers === n);
    const stats = await c.stats('stats');
    assert.deepEqual([answers, Number(stats['current-waiting']), Number(stats['current-jobs-reserved'])], [n, count - n, n]);
  }
  for (const s of waiting) s.destroy();
  await until('all are gone', async () => (await c.stats('stats'))['current-connections'] === '1', 60_000);
  await until('their jobs are ready', async () => (await c.stats('stats'))['current-jobs-ready'] === '20');
  await c.close();
  await stopServer(server);
});

test('HF-4 SIGTERM: puts are refused, pending replies are sent, waiting clients are closed', async () => {
  const server = await startBeanstalk({ backend: 'sqlite' });
  const [c, idle, w] = [await Beanstalk.connect(server.beanstalk), await Beanstalk.connect(server.beanstalk), await Beanstalk.connect(server.beanstalk)];
  await c.put('x');
  await w.ask('watch other');
  await w.ask('ignore default');
  w.write('reserve-with-timeout 100\r\n');
  await until('it waits', async () => (await c.stats('stats'))['current-waiting'] === '1');
  server.process.kill('SIGTERM');
  assert.ok(['TIMED_OUT', 'CLOSED'].includes((await w.answer()).line));
  await Promise.all([idle.closed, w.closed, c.closed, server.exited]);
  await stopServer(server);
});

test('HF-4 SIGUSR1 starts drain mode: only puts are refused', async () => {
  const server = await startBeanstalk({ backend: 'memory' });
  const c = await Beanstalk.connect(server.beanstalk);
  const id = await c.put('x');
  assert.equal((await c.stats('stats')).draining, 'false');
  server.process.kill('SIGUSR1');
  await until('it drains', async () => (await c.stats('stats')).draining === 'true');
  assert.equal((await c.ask('put 0 0 60 1\r\nx')).line, 'DRAINING');
  assert.equal((await c.ask('reserve')).line, `RESERVED ${id} 1`);
  assert.equal(await c.line(`delete ${id}`), 'DELETED');
  await c.close();
  await stopServer(server);
});

test('HF-4 off unless configured, and on loopback addresses only', async () => {
  const server = await startServer({ backend: 'memory' });
  assert.ok(!server.stdout.includes('beanstalk'));
  await stopServer(server);
  await assert.rejects(startServer({ backend: 'memory', args: ['--beanstalk', '0.0.0.0:0'] }), /loopback/);
  await assert.rejects(startServer({ backend: 'memory', listen: 'none' }), /no client could reach/);
});

test('HF-4 a Unix socket, and no HTTP at all', async () => {
  const socket = path.join(temporaryDirectory(), 'bs.sock');
  const server = await startServer({ backend: 'memory', listen: 'none', args: ['--beanstalk', `unix:${socket}`] });
  assert.equal(server.url, `beanstalk+unix:${socket}`);
  const c = await Beanstalk.connect(socket);
  assert.ok((await c.put('x')) > 0);
  await c.close();
  await stopServer(server);
});

test('HF-4 jobs survive a crash, and reserved jobs are ready at once', only('knows_its_death'), async () => {
  const server = await startBeanstalk({ backend: 'sqlite' });
  let c = await Beanstalk.connect(server.beanstalk);
  await c.ask('use t');
  await c.ask('watch t');
  const ids = [await c.put('1', { pri: 4, ttr: 77 }), await c.put('2', { delay: 500 }), await c.put('3'), await c.put('4')];
  await c.ask(`reserve-job ${ids[2]}`);
  assert.equal(await c.line(`bury ${ids[2]} 12`), 'BURIED');
  assert.equal(ID((await c.ask('reserve')).line), ids[0]);
  await killServer(server);
  const again = await startBeanstalk({ backend: 'sqlite', data: server.data });
  c = await Beanstalk.connect(again.beanstalk);
  const stats = await c.stats(`stats-job ${ids[0]}`);
  assert.deepEqual([stats.state, stats.pri, stats.ttr, stats.tube], ['ready', '4', '77', 't']);
  assert.equal((await c.stats(`stats-job ${ids[1]}`)).state, 'delayed');
  const buried = await c.stats(`stats-job ${ids[2]}`);
  assert.deepEqual([buried.state, buried.pri], ['buried', '12']);
  assert.ok((await c.put('5')) > ids[3]);
  await c.close();
  await stopServer(again);
});

describe('a link named beanstalkd', () => {
  const link = path.join(temporaryDirectory(), 'beanstalkd');
  before(() => symlinkSync(binary, link));
  const run = (args) =>
    new Promise((resolve) => {
      const child = spawn(link, args, { stdio: ['ignore', 'pipe', 'pipe'] });
      let [out, err] = ['', ''];
      child.stdout.on('data', (chunk) => (out += chunk));
      child.stderr.on('data', (chunk) => (err += chunk));
      child.on('close', (code) => resolve({ code, out, err }));
    });
  const start = async (args) => {
    const port = await freePort();
    const child = spawn(link, ['-p', String(port), ...args], { stdio: 'ignore' });
    await listening(port, child);
    const c = await Beanstalk.connect(port);
    const stop = async (signal = 'SIGTERM') => {
      await c.close();
      const ended = new Promise((resolve) => child.once('exit', (code, sig) => resolve(code ?? sig)));
      child.kill(signal);
      return ended;
    };
    return { c, stop };
  };

  test('HF-4 -h and -v print their text and exit; wrong options are refused', async () => {
    const help = await run(['-h']);
    assert.equal(help.code, 0);
    assert.match(help.out, /^Use: beanstalkd/);
    const version = await run(['-v']);
    assert.match(version.out, /^beanstalkd holdfast-\d/);
    assert.equal((await run(['-Q'])).code, 2);
    assert.equal((await run(['-z', 'many'])).code, 2);
    assert.equal((await run(['word'])).code, 2);
    assert.match((await run(['-l', '0.0.0.0'])).err, /loopback/);
    assert.match((await run(['-u', 'no-such-user-here'])).err, /no user/);
  });

  test('HF-4 without -b jobs are in memory; -z limits them; -n -c -V -F -f are accepted', async () => {
    const { c, stop } = await start(['-l', '127.0.0.1', '-z', '10', '-n', '-c', '-V', '-F', '-f', '100', '-s', '4096']);
    assert.equal((await c.stats('stats'))['max-job-size'], '10');
    await c.put('0123456789');
    assert.equal((await c.ask('put 0 0 60 11\r\n01234567890')).line, 'JOB_TOO_BIG');
    assert.equal(await stop(), 0);
  });

  test('HF-4 with -b jobs survive a restart', async () => {
    const dir = temporaryDirectory();
    const first = await start(['-b', dir]);
    const id = await first.c.put('kept');
    assert.equal(await first.stop('SIGKILL'), 'SIGKILL');
    const second = await start(['-b', dir]);
    assert.equal((await second.c.ask(`peek ${id}`)).data.toString(), 'kept');
    assert.equal(await second.stop(), 0);
  });
});
