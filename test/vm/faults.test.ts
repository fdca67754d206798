// A failure and a kill -9 at every step of every operation that changes what exists: nothing may be left half.
import { readdirSync, writeFileSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { FAULT_POINTS, type FaultPoint } from '../../host-agent/src/lib/faults.ts';
import type { SandboxJson } from '../support/api.ts';
import {
  type Daemon,
  leftovers,
  makeDirectories,
  removeDirectories,
  spawnDaemon,
} from '../support/daemon.ts';
import { clockSkewS, NOW } from '../support/guest-clock.ts';
import { findViolations, listHoldings } from '../support/invariants.ts';
import { untilOwnTemplate } from '../support/templates.ts';
import { scaled } from '../support/time-scale.ts';
import { until } from '../support/until.ts';

t.setTimeout(scaled(900_000));
const isSoak = process.env.SOAK === '1';
const directories = await makeDirectories();
const faultsPath = join(directories.dataDir, 'faults');
const options = { onExit: 'keep', faultsPath } as const;
let daemon = await spawnDaemon(directories, options);
const bystander = await daemon.api.create({ memory_mib: 128 });
// What is made behind an answer would meet the faults.
await untilOwnTemplate(daemon, { memory_mib: 128 });
const source = await daemon.api.call<{ id: string }>('POST', `/sandboxes/${bystander.id}/snapshot`);

const archive = await (await fetch(`${daemon.url}/snapshots/${source.id}/export`)).bytes();
const importBody = async (body: NonNullable<RequestInit['body']>): Promise<void> => {
  const init = { method: 'POST', body, duplex: 'half' } as const;
  const response = await fetch(`${daemon.url}/snapshots/import`, init);
  if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`);
};

type Action = 'error' | 'kill';
type Case = {
  readonly name: string;
  readonly points: readonly FaultPoint[];
  /** Passes of the point before the one that fails. */
  readonly passes?: number;
  /** What is there before; its result goes to `run`. */
  readonly prepare?: () => Promise<string>;
  readonly run: (id: string) => Promise<unknown>;
  /** Points behind which the result stays, though nobody was told. */
  readonly keepsAfter?: readonly FaultPoint[];
  /** Points whose error the daemon works around. */
  readonly survives?: readonly FaultPoint[];
  /** Points behind the answer: what fails there is tried again by the daemon itself. */
  readonly isBehind?: readonly FaultPoint[];
  /** Tried again after an error, it works. */
  readonly isRepeatable?: boolean;
  readonly onlyInSoak?: readonly FaultPoint[];
  /** Whether the daemon has made one before an error, so that its template is not taken for the cause and removed. */
  readonly isProven?: boolean;
};

/** Those of networks are network/faults.test.ts's. */
const startPoints = FAULT_POINTS.filter(
  (point) => point.startsWith('start.') && !point.startsWith('start.network'),
);
const create = (memoryMib = 128) => daemon.api.create({ memory_mib: memoryMib });
const fork = (count: number) =>
  daemon.api.call<{ sandboxes: SandboxJson[] }>('POST', `/snapshots/${source.id}/fork?count=${count}`);
const takeSnapshot = () => daemon.api.call<{ id: string }>('POST', `/sandboxes/${bystander.id}/snapshot`);
/** A size that no template is there for yet. */
let newSizeMib = 128;

const CASES: readonly Case[] = [
  {
    name: 'create',
    points: startPoints,
    run: () => create(),
    keepsAfter: ['start.committed'],
    isProven: true,
  },
  {
    name: 'fork',
    points: startPoints,
    passes: 2,
    run: () => fork(4),
    keepsAfter: [],
    // A single commit for all four is passed once.
    onlyInSoak: [
      'start.recorded',
      'start.directories',
      'start.disk',
      'start.vm',
      'start.made',
      'start.committed',
    ],
  },
  {
    name: 'template',
    points: FAULT_POINTS.filter((point) => point.startsWith('template.')),
    run: () => {
      newSizeMib += 4;
      return create(newSizeMib);
    },
    survives: FAULT_POINTS.filter((point) => point.startsWith('template.')),
    onlyInSoak: ['template.booted'],
  },
  {
    name: 'snapshot',
    points: FAULT_POINTS.filter((point) => point.startsWith('snapshot.')),
    run: takeSnapshot,
    keepsAfter: ['snapshot.committed'],
  },
  {
    name: 'import',
    points: ['snapshot.recorded', 'snapshot.published', 'snapshot.committed'],
    run: () => importBody(archive),
    keepsAfter: ['snapshot.committed'],
    onlyInSoak: ['snapshot.recorded', 'snapshot.committed'],
  },
  {
    name: 'delete',
    points: FAULT_POINTS.filter(
      (point) => point.startsWith('delete.') && point !== 'delete.network-silenced',
    ),
    prepare: async () => (await create()).id,
    run: (id) => daemon.api.delete(id),
    isBehind: ['delete.killed', 'delete.network', 'delete.directories', 'delete.forgotten'],
    isRepeatable: true,
  },
  {
    name: 'delete of a snapshot',
    points: FAULT_POINTS.filter((point) => point.startsWith('snapshot-delete.')),
    prepare: async () => (await takeSnapshot()).id,
    run: (id) => daemon.api.call('DELETE', `/snapshots/${id}`),
    isRepeatable: true,
  },
  // The first create from a template: if it fails, the template is removed and it is booted; the error must come twice.
  { name: 'first create', points: ['start.agent'], run: () => create() },
];

for (const one of CASES) {
  t.test(one.name, async (t) => {
    for (const point of one.points) {
      if (!isSoak && one.onlyInSoak?.includes(point)) continue;
      for (const action of ['error', 'kill'] as const) await tryFault(t, one, point, action);
    }
  });
}

async function listLogs(): Promise<string[]> {
  return (await readdir(join(directories.dataDir, 'logs'))).sort();
}

function isTriedAgain(id: string): boolean {
  return daemon.log.some(
    ({ msg, sandbox }) => sandbox === id && msg?.startsWith('cannot remove all of a deleted sandbox'),
  );
}

async function tryFault(t: Test, one: Case, point: FaultPoint, action: Action): Promise<void> {
  const title = `${one.name}, ${action} at ${point}`;
  if (one.isProven === true && action === 'error') await daemon.api.delete((await create()).id);
  const before = await listHoldings(daemon);
  const id = (await one.prepare?.()) ?? '';
  const logsBefore = await listLogs();
  writeFileSync(
    faultsPath,
    `${point} ${action} ${one.name === 'fork' && point === 'start.committed' ? 0 : (one.passes ?? 0)}`,
  );
  const outcome = await one.run(id).then(
    () => 'done',
    (error: Error) => error.message,
  );
  const isBehind = one.isBehind?.includes(point) === true;
  if (isBehind) await (action === 'kill' ? daemon.exited : until(() => isTriedAgain(id)));
  // A template is finished behind the answer of the create that booted its guest.
  if (one.name === 'template' && action === 'kill') await daemon.exited;
  writeFileSync(faultsPath, '');
  const isKept =
    one.keepsAfter?.includes(point) === true || (one.name === 'fork' && point === 'start.committed');
  if (action === 'kill') {
    t.equal(await daemon.exited, null, `${title}: the daemon was killed`);
    daemon = await spawnDaemon(directories, options);
  } else if (one.survives?.includes(point)) {
    t.equal(outcome, 'done', `${title}: worked around`);
  } else if (isBehind) {
    t.equal(outcome, 'done', `${title}: answered before`);
  } else {
    t.match(outcome, new RegExp(`500: .*a fault was injected at ${point}`), title);
    if (one.isRepeatable === true) {
      // Behind the last step nothing is left to be done.
      await one.run(id);
    }
  }
  const after = await listHoldings(daemon);
  const added = [...after.sandboxes, ...after.snapshots].filter(
    (id) => !before.sandboxes.includes(id) && !before.snapshots.includes(id),
  );
  const isMade = action === 'kill' ? isKept : one.survives?.includes(point) === true;
  // A template is saved behind the step from which its create goes on: the kill may come after the commit.
  const mayBeMade = one.name === 'template' && action === 'kill' && added.length === 1;
  const count = isMade || mayBeMade ? (one.name === 'fork' ? 4 : 1) : 0;
  t.equal(added.length, count, `${title}: ${count} more than before`);
  t.same(
    (await listLogs()).filter((log) => !logsBefore.includes(log)),
    added.filter((made) => made.startsWith('sbx_')),
    `${title}: no log of what nobody heard of`,
  );
  t.same(await findViolations(daemon), [], `${title}: everything has its owner`);
  for (const id of added) {
    if (id.startsWith('snap_')) await daemon.api.call('DELETE', `/snapshots/${id}`);
    else {
      t.equal(await daemon.api.sh(id, 'echo usable'), 'usable');
      await daemon.api.delete(id);
    }
  }
  t.same(await listHoldings(daemon), before, `${title}: what was there is there`);
  t.equal(await daemon.api.sh(bystander.id, 'echo well'), 'well', `${title}: the bystander is well`);
}

t.test('a kill while an archive comes in, and one while it goes out', async (t) => {
  const before = await listHoldings(daemon);
  const root = join(directories.dataDir, 'snapshots');
  const count = () => readdirSync(root).length;
  const files = count();
  const half = new ReadableStream({
    start: (controller) => controller.enqueue(archive.subarray(0, archive.length / 2)),
  });
  const isCut = t.rejects(importBody(half));
  await until(() => count() > files, 'a directory of what comes in');
  await daemon.end('SIGKILL');
  await isCut;
  daemon = await spawnDaemon(directories, options);
  t.equal(count(), files, 'nothing half there');
  t.same(await findViolations(daemon), []);
  t.same(await listHoldings(daemon), before);

  const leaving = await fetch(`${daemon.url}/snapshots/${source.id}/export`);
  const reader = leaving.body!.getReader();
  await reader.read();
  await daemon.end('SIGKILL');
  const rest = async () => {
    while (!(await reader.read()).done);
  };
  await t.rejects(rest(), 'a client sees that it has not all of it');
  daemon = await spawnDaemon(directories, options);
  t.same(await listHoldings(daemon), before);
  t.same(await findViolations(daemon), []);
  t.same(await fetch(`${daemon.url}/snapshots/${source.id}/export`).then((all) => all.bytes()), archive);
});

t.test('an expired sandbox whose delete fails is deleted a little later', async (t) => {
  writeFileSync(faultsPath, 'delete.marked error');
  const { id } = await daemon.api.create({ memory_mib: 128, timeout_s: 1 });
  const isFailed = () =>
    daemon.log.some(({ msg, sandbox }) => sandbox === id && /cannot delete an expired/.test(msg ?? ''));
  for (let tries = 0; tries < scaled(300) && !isFailed(); tries++) await sleep(100);
  t.ok(isFailed(), 'it was tried');
  writeFileSync(faultsPath, '');
  const isListed = async () => (await daemon.api.list()).some((sandbox) => sandbox.id === id);
  for (let tries = 0; tries < scaled(300) && (await isListed()); tries++) await sleep(100);
  t.notOk(await isListed());
  t.same(await findViolations(daemon), []);
});

t.test('an unharmed fork of what was there all the time', async (t) => {
  const { sandboxes } = await fork(2);
  for (const { id } of sandboxes) t.equal(await daemon.api.sh(id, 'echo well'), 'well');
  // Its clock went on, or was stepped, whenever it stood still.
  const skewS = await clockSkewS(() => daemon.api.sh(bystander.id, NOW));
  t.ok(skewS < 5, `the bystander's clock is ${skewS} s off`);
});

t.teardown(async () => {
  await daemon.end();
  const last: Daemon = await spawnDaemon(directories);
  await last.end();
  const left = await leftovers(directories);
  await removeDirectories(directories);
  if (left.length > 0) throw new Error(`left: ${left.join(', ')}`);
});
