// SPDX-License-Identifier: Apache-2.0
// HF-4: beanstalkd and Holdfast get the same commands and must give the same replies. HF_SEED repeats a run;
// HF_BEANSTALK_COMMANDS makes it longer. Intended differences are listed in docs/apis/beanstalk.md; each of them is one
// line of `same` here.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import { Beanstalk, fieldsOf, listOf, startBeanstalkd, startBeanstalk } from '../lib/beanstalk.mjs';
import { stopServer, until } from '../lib/server.mjs';

const seed = Number(process.env.HF_SEED ?? Date.now() % 1_000_000_000);
const commands = Number(process.env.HF_BEANSTALK_COMMANDS ?? 4000);

// mulberry32
function random(state) {
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

const KEPT = ['default', 'a', 'b.c', 'x-1(2)$;/+_']; // some connection always watches them
const PRIORITIES = [0, 1, 5, 1023, 1024, 65536, 4294967295];
const ABSENT = 987654321;
const MALFORMED = [
  'put', 'put 1', 'put 1 2 3', 'put -1 0 1 1', 'put 4294967296 0 1 1', 'put 1 4294967296 1 1', 'put 1 0 4294967296 1',
  'put a b c d', 'put 0,0,10,1', 'delete', 'delete ', 'delete x', 'delete -1', 'delete 1 2', 'delete 18446744073709551616', 'delete 1x',
  'release 1', 'release 1 2', 'release 1 2 3 4', 'release x 2 3', 'release 1 -2 3', 'bury 1', 'bury 1 2 3', 'bury x 1', 'touch', 'touch x', 'touch 1 ',
  'use', 'use ', 'use  a', 'use a ', 'use -a', 'use a b', 'use a~', 'use é', `use ${'a'.repeat(201)}`, 'watch', 'watch -', 'watch a,b', `watch ${'b'.repeat(201)}`,
  'ignore', 'ignore ', 'ignore -a', 'peek', 'peek ', 'peek x', 'peek-readyx', 'peek-ready ', 'peek-delayed 1', 'peek-buried ', 'peek-nothing',
  'kick', 'kick ', 'kick x', 'kick 99999999999999999999999', 'kick-job', 'kick-job x', 'kick-job 1 1', 'reserve ', 'reservex', 'reserve-with-timeout', 'reserve-job', 'reserve-job x', 'reserve-job 1 ',
  'stats ', 'statsx', 'stats-job', 'stats-job x', 'stats-job 1 ', 'stats-tube', 'stats-tube ', 'stats-tube -', 'stats-tube a b',
  'list-tubes ', 'list-tubesx', 'list-tube', 'list-tube-used ', 'list-tubes-watched x', 'pause-tube', 'pause-tube a', 'pause-tube a x', 'pause-tube a 1 ', 'pause-tube a -1',
  '', ' ', 'PUT 1 1 1 1', 'Reserve', ' stats', '\0', 'stats\0', 'use a\0b', 'hello', '\n', 'use a\n', `z${'y'.repeat(400)}`,
];

/** Both servers with the same connections; jobs are identified by the order of their puts. */
class Pair {
  constructor(theirs, ours, next) {
    Object.assign(this, { ports: [theirs, ours], next, jobs: [], conns: [], log: [], tick: 0, polls: 0 });
  }
  async open(i) {
    this.conns[i] = await Promise.all(this.ports.map((port) => Beanstalk.connect(port)));
    // Holdfast closes a connection whose first command is unknown; beanstalkd does not.
    this.compare('list-tube-used', await Promise.all(this.conns[i].map((side) => side.ask('list-tube-used'))));
    this.conns[i].waiting = false;
    this.conns[i].reserved = [];
  }
  pick = (list) => list[Math.floor(this.next() * list.length)];
  chance = (percent) => this.next() * 100 < percent;

  /** An id for each server: of a job that this connection reserved, or one that was put, mostly a late
   * one; or of none. */
  id(conn) {
    if (this.chance(4) || !this.jobs.length) return [ABSENT, ABSENT];
    if (this.chance(40) && conn.reserved.length) return this.pick(conn.reserved.slice(-3)).ids;
    const from = this.chance(85) ? Math.max(0, this.jobs.length - 12) : 0;
    return this.jobs[from + Math.floor(this.next() * (this.jobs.length - from))].ids;
  }

  /** [bytes for beanstalkd, bytes for Holdfast]. */
  command(conn) {
    const { pick, chance } = this;
    const both = (text) => [`${text}\r\n`, `${text}\r\n`];
    const byId = (text) => this.id(conn).map((id) => `${text.replace('ID', id)}\r\n`);
    const delay = () => (chance(75) ? 0 : 1000 + Math.floor(this.next() * 1e6));
    const tube = () => (chance(80) ? pick(KEPT) : `t${Math.floor(this.next() * 6)}`);
    const put = () => {
      const body = chance(5) ? 'z'.repeat(3000) : Array.from({ length: Math.floor(this.next() * 12) }, () => pick(['a', 'b', '\r', '\n', '\0', 'ÿ'])).join('');
      return both(`put ${pick(PRIORITIES)} ${delay()} ${pick([100, 1000, 86400])} ${body.length}\r\n${body}`);
    };
    const kinds = [
      [24, put],
      [2, () => Array(2).fill('put 1 0 100 3\r\nabcde')], // no CRLF where it must be
      [1, () => both(`put 1 0 100 70000\r\n${'k'.repeat(70000)}`)],
      [14, () => both(`reserve-with-timeout 0`)],
      [4, () => byId('reserve-job ID')],
      [10, () => byId('delete ID')],
      [7, () => byId(`release ID ${pick(PRIORITIES)} ${delay()}`)],
      [7, () => byId(`bury ID ${pick(PRIORITIES)}`)],
      [3, () => byId('touch ID')],
      [4, () => both(`use ${tube()}`)],
      [4, () => both(`watch ${tube()}`)],
      [4, () => both(`ignore ${tube()}`)],
      [3, () => byId('peek ID')],
      [4, () => both(pick(['peek-ready', 'peek-delayed', 'peek-buried']))],
      [4, () => both(`kick ${pick([0, 1, 2, 3, 1000])}`)],
      [3, () => byId('kick-job ID')],
      [2, () => both('stats')],
      [6, () => byId('stats-job ID')],
      [4, () => both(`stats-tube ${tube()}`)],
      [2, () => both('list-tubes')],
      [2, () => both(pick(['list-tube-used', 'list-tubes-watched']))],
      [2, () => both(`pause-tube ${pick([...KEPT, 'unused'])} ${chance(60) ? 0 : 1000}`)],
      [8, () => both(pick(MALFORMED))],
    ];
    let at = this.next() * kinds.reduce((sum, [weight]) => sum + weight, 0);
    return kinds.find(([weight]) => (at -= weight) < 0)[1]();
  }

  jobOf(side, id) {
    return this.jobs.find((job) => job.ids[side] === id);
  }

  /** The reply, with ids replaced by positions in the list of jobs, and lists sorted. */
  plain(side, text, { line, data, tail }) {
    const inserted = line.match(/^INSERTED (\d+)$/);
    if (inserted) return ['INSERTED'];
    const job = line.match(/^(RESERVED|FOUND) (\d+) (\d+)$/);
    if (job) return [job[1], this.jobs.indexOf(this.jobOf(side, Number(job[2]))), data.toString('latin1'), tail];
    if (!data) return [line];
    if (text.startsWith('list-')) return ['OK', ...listOf(data).sort(), tail];
    return ['OK', this.same(side, text, fieldsOf(data)), tail];
  }

  same(side, text, fields) {
    const f = { ...fields };
    if (text.startsWith('stats-job')) {
      const job = this.jobOf(side, Number(f.id));
      f.id = this.jobs.indexOf(job);
      if (job.moved) delete f.delay; // of a job that was released or kicked: see the page
      delete f['time-left'];
      delete f.age;
    } else if (text.startsWith('stats-tube')) {
      delete f['pause-time-left'];
      // beanstalkd deletes an unused tube and its counts at once, Holdfast within a second.
      if (!KEPT.includes(f.name)) for (const key of ['total-jobs', 'cmd-delete', 'cmd-pause-tube', 'pause']) delete f[key];
    } else {
      for (const key of ['pid', 'version', 'rusage-utime', 'rusage-stime', 'uptime', 'id', 'os', 'binlog-max-size', 'cmd-stats', 'total-connections']) delete f[key];
    }
    return f;
  }

  note(text, [theirs, ours]) {
    const inserted = [theirs, ours].map(({ line }) => line.match(/^INSERTED (\d+)$/));
    if (inserted[0] && inserted[1]) this.jobs.push({ ids: inserted.map((m) => Number(m[1])) });
    const moved = text.match(/^(?:release|kick-job) (\d+)/);
    if (moved && this.jobOf(0, Number(moved[1]))) this.jobOf(0, Number(moved[1])).moved = true;
    if (text.startsWith('kick ')) for (const job of this.jobs) job.moved = true;
  }

  compare(text, answers) {
    this.note(text, answers);
    this.near(text, answers);
    const [theirs, ours] = answers.map((answer, side) => this.plain(side, text, answer));
    this.log.push(`${answers.conn ?? ''} ${JSON.stringify(text.slice(0, 100))} ${answers.map((a) => a.line).join(' | ')}`);
    assert.deepEqual(ours, theirs, `seed ${seed}, command ${this.tick}: ours, then theirs\n${this.log.slice(-(process.env.HF_LOG ?? 25)).join('\n')}`);
  }

  /** Time passes between the two replies. */
  near(text, answers) {
    if (!text.startsWith('stats-') || !answers.every((a) => a.data)) return;
    const [theirs, ours] = answers.map((a) => fieldsOf(a.data));
    for (const key of ['age', 'time-left', ...(KEPT.includes(ours.name) ? ['pause-time-left'] : [])])
      if (key in theirs) assert.ok(Math.abs(theirs[key] - ours[key]) <= 2, `seed ${seed}: ${key} is ${ours[key]}, theirs ${theirs[key]}`);
  }

  async answers(conn, text = '') {
    const late = Symbol('late');
    const both = conn.map((side) => Promise.race([side.answer(), new Promise((resolve) => setTimeout(resolve, 60_000, late).unref())]));
    const got = await Promise.all(both);
    const silent = got.indexOf(late);
    assert.equal(silent, -1, `seed ${seed}: ${['they', 'we'][silent]} do not answer ${JSON.stringify(text.slice(0, 100))}\n${this.log.slice(-(process.env.HF_LOG ?? 25)).join('\n')}`);
    got.conn = this.conns.indexOf(conn);
    return got;
  }

  /** A waiting connection gets its job from both servers, or from neither. */
  async wakes() {
    for (const conn of this.conns) {
      if (!conn.waiting) continue;
      if (!conn.some((side) => side.answers.length)) continue;
      conn.waiting = false;
      this.compare('reserve', await this.answers(conn));
    }
  }

  async step() {
    const free = this.conns.map((conn, i) => i).filter((i) => !this.conns[i].waiting);
    const i = this.pick(free.slice(1).length ? free.filter((n) => n > 0) : free);
    const conn = this.conns[i];
    if (i > 0 && this.chance(2)) return this.reconnect(i);
    const count = this.chance(80) ? 1 : 1 + Math.floor(this.next() * 6);
    const sent = Array.from({ length: count }, () => this.command(conn));
    conn.forEach((side, n) => side.write(sent.map((both) => both[n]).join('')));
    for (const [theirs] of sent) {
      this.tick++;
      const answers = await this.answers(conn, theirs);
      const reserved = answers[0].line.match(/^RESERVED (\d+)/);
      this.compare(theirs, answers);
      if (reserved) conn.reserved.push(this.jobOf(0, Number(reserved[1])));
    }
  }

  /** The jobs that the connection had reserved become ready again. */
  async reconnect(i) {
    const open = this.conns.length;
    await Promise.all(this.conns[i].map((side) => side.close()));
    await until('both have seen the end', async () => {
      const stats = await Promise.all(this.conns[0].map((side) => side.stats('stats')));
      return stats.every((s) => Number(s['current-connections']) === open - 1);
    });
    this.log.push(`reconnect ${i}`);
    await this.open(i);
  }
}

describe(`beanstalkd and us (seed ${seed})`, () => {
  let theirs, ours;
  before(async () => {
    console.log(`# seed ${seed}`);
    [theirs, ours] = await Promise.all([startBeanstalkd(), startBeanstalk({ backend: 'memory' })]);
  });
  after(async () => {
    await theirs?.stop();
    if (ours) await stopServer(ours);
  });

  test(`HF-4 ${commands} random commands get the same replies`, async () => {
    const pair = new Pair(theirs.port, ours.beanstalk, random(seed));
    for (let i = 0; i < 4; i++) await pair.open(i);
    for (const tube of KEPT) pair.compare('watch', await Promise.all(pair.conns[0].map((side) => side.ask(`watch ${tube}`))));
    while (pair.tick < commands) await pair.step();
    const seen = new Set(pair.log.flatMap((l) => l.split(' ')));
    for (const word of ['RELEASED', 'BURIED', 'DELETED', 'TOUCHED', 'KICKED', 'PAUSED', 'NOT_IGNORED', 'JOB_TOO_BIG', 'EXPECTED_CRLF'])
      assert.ok(seen.has(word), `${word} never came`);
    for (const conn of pair.conns) for (const side of conn) await side.close();
  });
});
