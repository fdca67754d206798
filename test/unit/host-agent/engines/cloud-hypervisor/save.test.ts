// Saving a guest with a fake VMM API: the order of requests, and the clean-up after failures.
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { VmmApi } from '../../../../../host-agent/src/engines/cloud-hypervisor/api.ts';
import { vmmFiles } from '../../../../../host-agent/src/engines/cloud-hypervisor/files.ts';
import { saveVm } from '../../../../../host-agent/src/engines/cloud-hypervisor/save.ts';
import type { SaveOptions } from '../../../../../host-agent/src/engines/engine.ts';
import { FakeClock } from '../../../../support/fake-clock.ts';
import { HELPERS } from '../../../../support/helper-programs.ts';
import { type Answer, serveVmm, writeSaved } from '../../../../support/made-vmm-api.ts';

const MIB = 2 ** 20;

async function makeSave(t: Test, jail?: { readonly uid: number; readonly cgroup: string }) {
  const dir = mkdtempSync(join(tmpdir(), 'save-'));
  t.teardown(() => rmSync(dir, { recursive: true, force: true }));
  const paths = { dir: join(dir, 'own'), socketDir: join(dir, 'sockets') };
  for (const path of Object.values(paths)) mkdirSync(path);
  const files = vmmFiles(paths);
  const vmm = await serveVmm(t, files.controlSocketPath);
  const did: string[] = [];
  const lost: string[] = [];
  const note = (
    endpoint: string,
    answer: (body: Record<string, unknown>) => Answer = () => undefined,
  ): void => {
    vmm.answers[endpoint] = (body) => {
      did.push(endpoint);
      return answer(body);
    };
  };
  const write = ({ destination_url: url }: Record<string, unknown>): undefined => {
    writeSaved(new URL(String(url)).pathname, MIB);
  };
  for (const endpoint of ['vm.pause', 'vm.resume', 'vm.info']) note(endpoint);
  note('vm.snapshot', write);
  let count = 0;
  const save = (options: Partial<SaveOptions> = {}) => {
    const to = join(dir, `saved-${count++}`);
    mkdirSync(to);
    return saveVm(
      {
        api: new VmmApi(files.controlSocketPath),
        identity: { pid: process.pid, startTicks: 0, paths, memory: { kind: 'anonymous' }, jail } as never,
        log: pino({ level: 'silent' }),
        claimProgram: HELPERS.claim,
        terminate: async (reason) => void lost.push(reason),
      },
      {
        dir: to,
        memoryBytes: MIB,
        beforePause: async () => void did.push('before'),
        whilePaused: async () => void did.push('meanwhile'),
        afterPause: () => void did.push('after'),
        ...options,
      },
    );
  };
  /** Asserts the requests in this order, and that no files are left. */
  const check = (t: Test, expected: readonly string[], reasons: readonly string[] = []): void => {
    t.same(did.splice(0), expected);
    t.same(lost.splice(0), reasons);
    t.same(readdirSync(paths.dir), []);
  };
  return { dir, vmm, did, save, note, write, check };
}

const ALL = ['before', 'vm.pause', 'vm.snapshot', 'meanwhile', 'vm.resume', 'after'];
const refuse = (...reasons: string[]) => ({ reasons });

t.test('a guest is paused while it is saved, and resumed', async (t) => {
  const { save, check, note, write } = await makeSave(t);
  const startedAt = performance.now();
  const saved = await save();
  check(t, ALL);
  t.ok(saved.pausedMs > 0 && saved.pausedMs < performance.now() - startedAt);
  t.equal(readFileSync(saved.memoryPath, 'latin1'), 'm'.repeat(MIB));
  t.same(JSON.parse(readFileSync(saved.statePath, 'utf8')), { formatVersion: 1, config: '{}', state: '{}' });
  await save({ staysPaused: true });
  check(t, ALL.slice(0, 4).concat('after'));
  note('vm.snapshot', (body) => {
    write(body);
    const { pathname } = new URL(String(body.destination_url));
    t.match(pathname, /\/own\/save-[^/]+$/);
    t.same(readdirSync(pathname).sort(), ['config.json', 'memory-ranges', 'state.json']);
    writeFileSync(join(pathname, 'memory-ranges'), Buffer.alloc(MIB));
    return undefined;
  });
  const empty = await save({ beforePause: undefined, afterPause: undefined } as never);
  check(t, ALL.slice(1, 5));
  t.equal(statSync(empty.memoryPath).size, MIB);
  t.ok(statSync(empty.memoryPath).blocks * 512 < MIB / 2, 'zeros need no disk');
});

t.test('it goes on whatever fails', async (t) => {
  const { save, check, note, write } = await makeSave(t);
  const fail = async () => {
    throw new Error('a fault of the test');
  };
  await t.rejects(save({ whilePaused: fail }), { message: 'a fault of the test' });
  check(
    t,
    ALL.filter((what) => what !== 'meanwhile'),
  );
  await t.rejects(save({ whilePaused: fail, staysPaused: true }), { message: 'a fault of the test' });
  check(
    t,
    ALL.filter((what) => what !== 'meanwhile'),
  );
  await t.rejects(save({ beforePause: fail }), { message: 'a fault of the test' });
  check(t, ['after']);
  // The error of a fork whose memory file exists already; this guest has none.
  const reasons = ['Error creating memory snapshot file', 'File exists (os error 17)'];
  note('vm.snapshot', () => refuse(...reasons));
  await t.rejects(save({ staysPaused: true }), { name: 'ApiError', reasons });
  check(
    t,
    ALL.filter((what) => what !== 'meanwhile'),
  );
  note('vm.snapshot', (body) => {
    write(body);
    writeFileSync(join(new URL(String(body.destination_url)).pathname, 'more'), '');
    return undefined;
  });
  await t.rejects(save(), { message: 'its VMM was ended: it makes files of its own while it is saved' });
  check(t, ALL, ['it makes files of its own while it is saved, as no VMM does']);
  note('vm.snapshot', (body) => void writeSaved(new URL(String(body.destination_url)).pathname, 11 * MIB));
  await t.rejects(save(), {
    message: /^its VMM was ended: it has saved \d+ bytes where 10485760 are enough$/,
  });
  check(t, ALL, [`it has saved ${11 * MIB + 8192} bytes where 10485760 are enough, as no VMM does`]);
  note('vm.snapshot', (body) => void writeSaved(new URL(String(body.destination_url)).pathname, MIB - 1));
  await t.rejects(save(), { message: /memory-ranges has 1048575 bytes, not 1048576$/ });
  check(t, ALL);
});

t.test('a pause that failed half-way is put right, or the guest is lost', async (t) => {
  const { save, check, note } = await makeSave(t);
  let refusals = 1;
  note('vm.pause', () => (refusals-- > 0 ? refuse('vCPUs') : undefined));
  note('vm.info', () => ({ state: 'Running' }));
  await t.rejects(save(), { message: 'vm.pause: vCPUs' });
  check(t, ['before', 'vm.pause', 'vm.info', 'vm.pause', 'vm.resume', 'after']);
  refusals = 1;
  note('vm.info', () => ({ state: 'Paused' }));
  await t.rejects(save(), { message: 'vm.pause: vCPUs' });
  check(t, ['before', 'vm.pause', 'vm.info', 'vm.resume', 'after']);
  refusals = 2;
  note('vm.info', () => ({ state: 'Running' }));
  await t.rejects(save(), { message: 'vm.pause: vCPUs' });
  const reason = 'it could not be paused, and not be resumed either: vm.pause: vCPUs';
  check(t, ['before', 'vm.pause', 'vm.info', 'vm.pause', 'after'], [reason]);
  note('vm.resume', () => refuse('no'));
  await t.rejects(save(), { message: 'vm.resume: no' });
  check(t, ALL, ['it could not be resumed after it was saved: vm.resume: no']);
});

t.test('a copy that still gets its memory is asked again, but not for ever', async (t) => {
  const { save, check, note, write } = await makeSave(t);
  const still = refuse('Error', 'restore is still in progress');
  let refusals = 2;
  note('vm.snapshot', (body) => (refusals-- > 0 ? still : write(body)));
  await save();
  const refused = ALL.filter((what) => what !== 'meanwhile');
  check(t, [...refused, ...refused, ...ALL]);
  const clock = new FakeClock(t);
  note('vm.snapshot', () => {
    clock.nowMs += 119_000;
    return still;
  });
  await t.rejects(save(), { name: 'ApiError', reasons: still.reasons });
  check(t, [...refused, ...refused]);
});

t.test('the limits of its disk do not hold while a VMM writes memory', async (t) => {
  const cgroup = mkdtempSync(join(tmpdir(), 'group-'));
  t.teardown(() => rmSync(cgroup, { recursive: true }));
  const path = join(cgroup, 'io.max');
  const read = (): string => readFileSync(path, 'latin1');
  writeFileSync(path, '8:0 wbps=5');
  const { save, check, note, write } = await makeSave(t, { uid: 65_534, cgroup });
  note('vm.snapshot', (body) => {
    t.equal(read(), '8:0 wbps=max');
    t.match(statSync(new URL(String(body.destination_url)).pathname), { uid: 65_534, gid: 65_534 });
    return write(body);
  });
  await save({ whilePaused: async () => void t.equal(read(), '8:0 wbps=5') });
  check(
    t,
    ALL.filter((what) => what !== 'meanwhile'),
  );
});
