// Saving a guest: what is written during the pause, what the guest is told, and checksums afterwards.
import { readFileSync, statSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import type { SaveOptions } from '../../../../../host-agent/src/engines/engine.ts';
import { type SaveInput, saveGuest } from '../../../../../host-agent/src/sandboxes/saved/save.ts';
import { Checksums, SavedGuest } from '../../../../../host-agent/src/sandboxes/saved/saved-guest.ts';
import { rootfs, scratch } from '../../../../support/saved-guests.ts';

/** A guest that records the calls to it. */
async function makeInput(t: Test, changes: Partial<SaveInput> = {}, isQuiet = true) {
  const root = await scratch(t);
  const layerPath = join(root, 'layer.ext4');
  const dir = join(root, 'saved');
  const agentPath = join(root, 'an-agent');
  const rootfsPath = join(root, 'a-root');
  for (const path of [layerPath, agentPath, rootfsPath]) await writeFile(path, `content of ${path}`);
  const done: string[] = [];
  const vm = {
    save: async ({ beforePause, whilePaused, afterPause, ...rest }: SaveOptions) => {
      done.push(`save ${JSON.stringify({ ...rest, dir: undefined })}`);
      await beforePause?.();
      done.push('pause');
      for (const name of ['memory', 'state']) await writeFile(join(rest.dir, name), name);
      await whilePaused();
      afterPause?.();
      return { memoryPath: join(rest.dir, 'memory'), statePath: join(rest.dir, 'state'), pausedMs: 7 };
    },
  } as unknown as SaveInput['vm'];
  const guest = {
    hold: async () => {
      done.push('hold');
      return isQuiet;
    },
    release: () => done.push('release'),
    stepClock: () => done.push('step clock'),
  } as unknown as SaveInput['guest'];
  const options = {
    rootfs: { ...rootfs, rootfsPath, agentPath },
    vcpus: 1,
    memoryMib: 2,
    diskBytes: 1,
    timeoutS: 0,
    bootArgs: '',
  };
  const manifest = { compatibility: { engine: 'x' }, kernelDigest: 'k', options };
  const onPaused = () => done.push('paused');
  return { input: { dir, vm, guest, layerPath, manifest, onPaused, ...changes }, done, dir, options };
}

t.test(
  'a guest that keeps running is resumed, with its clock set, and the files are described',
  async (t) => {
    const { input, done, dir, options } = await makeInput(t);
    const before = Date.now();
    const { saved, pausedMs, totalMs } = await saveGuest(input);
    t.same(done, ['save {"memoryBytes":2097152}', 'hold', 'pause', 'paused', 'release', 'step clock']);
    t.equal(pausedMs, 7);
    t.ok(totalMs > 0 && totalMs < 60_000);
    const { manifest } = await SavedGuest.open(dir);
    t.same(manifest, saved.manifest);
    t.match(manifest, { compatibility: { engine: 'x' }, kernelDigest: 'k', options, needsResync: false });
    t.ok(Date.parse(manifest.createdAt) >= before);
    for (const [part, name] of [
      ['memory', 'memory'],
      ['state', 'state'],
      ['disk', 'disk'],
    ] as const) {
      const { size, mtimeMs } = statSync(join(dir, name));
      t.same(manifest.files[part], { name, sizeBytes: size, mtimeMs });
    }
    t.equal(readFileSync(join(dir, 'disk'), 'utf8'), `content of ${input.layerPath}`);
    t.equal(statSync(join(dir, 'rootfs.ext4')).ino, statSync(options.rootfs.rootfsPath).ino);
    t.equal(statSync(join(dir, 'agent.ext4')).ino, statSync(options.rootfs.agentPath).ino);
    t.equal(statSync(dir).mode & 0o777, 0o700);
  },
);

t.test('a guest that is not needed any more stays paused, with its clock unchanged', async (t) => {
  const { input, done } = await makeInput(t, { staysPaused: true, onPaused: () => undefined }, false);
  const { saved } = await saveGuest(input);
  t.same(done, ['save {"memoryBytes":2097152,"staysPaused":true}', 'hold', 'pause', 'release']);
  t.equal(saved.manifest.needsResync, true, 'it was in the middle of something');
  const { onPaused: _, ...plain } = (await makeInput(t)).input;
  t.match((await saveGuest(plain)).saved.manifest, { needsResync: false });
});

t.test('a save that was cancelled meanwhile is not a saved guest', async (t) => {
  const left = new AbortController();
  const { input, done, dir } = await makeInput(t, {
    signal: left.signal,
    onPaused: () => left.abort(new Error('left')),
  });
  await t.rejects(saveGuest(input), { message: 'left' });
  t.same(done.at(-1), 'step clock', 'it goes on');
  await t.rejects(SavedGuest.open(dir), {
    code: 'internal',
    message: /\/saved holds no saved guest that this daemon can read: ENOENT/,
    details: { stage: 'manifest' },
  });
});

t.test('a layer that is a link is not followed', async (t) => {
  const { input, dir } = await makeInput(t);
  await mkdir(join(dir, '..', 'folder'));
  await t.rejects(saveGuest({ ...input, layerPath: join(dir, '..', 'folder') }));
  await t.rejects(SavedGuest.open(dir));
});

t.test('checksums are computed one guest at a time, and a stop cancels the one in progress', async (t) => {
  const lines: Record<string, unknown>[] = [];
  const log = pino({}, { write: (line: string) => lines.push(JSON.parse(line)) });
  const checksums = new Checksums(log);
  const done: string[] = [];
  const gates = ['a', 'b', 'c'].map((name) => ({ name, ...Promise.withResolvers<void>() }));
  for (const { name, promise } of gates) {
    const addChecksums = async (signal: AbortSignal) => {
      done.push(`${name} begins${signal.aborted ? ' too late' : ''}`);
      await promise;
      done.push(`${name} ends`);
      if (name === 'a') throw new Error('it was changed');
    };
    checksums.add({ dir: `/${name}`, addChecksums } as unknown as SavedGuest);
  }
  await new Promise(setImmediate);
  t.same(done, ['a begins']);
  gates[0]?.resolve();
  await new Promise(setImmediate);
  t.same(done.slice(1), ['a ends', 'b begins']);
  t.match(lines, [{ level: 50, dir: '/a', err: { message: 'it was changed' } }]);
  let isStopped = false;
  const stopped = checksums.stop().then(() => {
    isStopped = true;
  });
  await new Promise(setImmediate);
  t.equal(isStopped, false);
  gates[1]?.resolve();
  gates[2]?.resolve();
  await stopped;
  t.same(done.slice(3), ['b ends', 'c begins too late', 'c ends']);
});
