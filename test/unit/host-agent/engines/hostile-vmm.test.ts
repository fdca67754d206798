// Attacks of a compromised VMM on the daemon: by its files, its sockets, and its messages.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  appendFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { VmmApi } from '../../../../host-agent/src/engines/cloud-hypervisor/api.ts';
import { EventTail, hasReset } from '../../../../host-agent/src/engines/cloud-hypervisor/events.ts';
import { collectSaved } from '../../../../host-agent/src/engines/cloud-hypervisor/saved-files.ts';
import { QmpClient, type QmpEvent } from '../../../../host-agent/src/engines/qemu/qmp.ts';
import { beginMemoryCopy } from '../../../../host-agent/src/engines/qemu/save.ts';
import { limitLog, readBlockedTask, readLastWords } from '../../../../host-agent/src/engines/vmm.ts';
import { spawnVmm } from '../../../../host-agent/src/engines/vmm-process.ts';
import { connectLink, connectUnix } from '../../../../host-agent/src/lib/socket-link.ts';
import { copyRegular, openProcessFile } from '../../../../host-agent/src/lib/untrusted-path.ts';
import { compileGuestProgram } from '../../../support/guest-program.ts';
import { HELPERS } from '../../../support/helper-programs.ts';
import { serve } from '../../../support/made-socket.ts';
import { until } from '../../../support/until.ts';

const SECRET = 'root:$6$secret\n';
const MIB = 2 ** 20;
const soon = (): AbortSignal => AbortSignal.timeout(20_000);

function makeDir(t: Test): string {
  const dir = mkdtempSync(join(tmpdir(), 'hostile-'));
  t.teardown(() => rmSync(dir, { recursive: true }));
  writeFileSync(join(dir, 'shadow'), SECRET);
  return dir;
}

/** Paths of everything that is not a regular file, by type. */
function makeTraps(dir: string): Record<string, string> {
  const traps = { link: join(dir, 'link'), pipe: join(dir, 'pipe'), directory: join(dir, 'directory') };
  symlinkSync(join(dir, 'shadow'), traps.link);
  execFileSync('mkfifo', [traps.pipe]);
  mkdirSync(traps.directory);
  return traps;
}

t.test('a link, a pipe or a directory in place of a file', async (t) => {
  const dir = makeDir(t);
  for (const [kind, path] of Object.entries(makeTraps(dir))) {
    t.equal(await readLastWords(path), undefined, kind);
    t.equal(await readBlockedTask(path), undefined);
    using events = new EventTail(path);
    t.same(await events.read(), []);
    await t.rejects(spawnVmm('/bin/true', [], path), { message: /ELOOP|EISDIR|ENXIO|regular/ }, kind);
    await t.rejects(
      copyRegular(path, async () => {
        t.fail('nothing is copied');
      }),
    );
  }
  t.equal(readFileSync(join(dir, 'shadow'), 'utf8'), SECRET);
});

t.test('logs are kept small, and nothing is written into what was put beside them', async (t) => {
  const dir = makeDir(t);
  const traps = ['link', 'pipe', 'directory', 'nothing'].map((kind) => {
    const path = join(dir, `${kind}.log`);
    writeFileSync(path, `${'x'.repeat(99)}\n`.repeat(20_000));
    if (kind === 'link') symlinkSync(join(dir, 'shadow'), `${path}.1`);
    if (kind === 'pipe') execFileSync('mkfifo', [`${path}.1`]);
    if (kind === 'directory') mkdirSync(`${path}.1`);
    return path;
  });
  // A path that is not a log is left alone, and does not block the others.
  const others = Object.values(makeTraps(dir));
  const limits = [...others, ...traps].map((path) => limitLog(path));
  t.teardown(() => {
    for (const limit of limits) limit[Symbol.dispose]();
  });
  await until(() => traps.every((path) => statSync(path).size === 0), 'logs that were cut');
  t.equal(readFileSync(join(dir, 'shadow'), 'utf8'), SECRET);
  t.equal(statSync(join(dir, 'nothing.log.1')).size, 65_535);
});

t.test('events without end', async (t) => {
  const path = join(makeDir(t), 'events.json');
  const reset = '\n\n{"source":"vm","event":"rebooting"}\n\n';
  writeFileSync(path, '');
  using events = new EventTail(path);
  t.same(await events.read(), []);
  // A file with a huge size costs no more than its last MiB.
  truncateSync(path, 2 ** 40);
  appendFileSync(path, reset);
  t.ok(hasReset(await events.read()));
  const startedAt = performance.now();
  let looks = 0;
  events.watch(() => {
    looks += 1;
  });
  const writing = setInterval(() => appendFileSync(path, '{}\n\n'), 1);
  t.teardown(() => clearInterval(writing));
  await until(() => looks >= 5, 'changes that are told of');
  t.ok(looks <= (performance.now() - startedAt) / 100 + 2, `${looks} looks`);
  // Changes during the pause are reported after it.
  clearInterval(writing);
  const last = looks;
  appendFileSync(path, reset);
  await until(() => looks > last);
});

t.test('what is saved is a file, and as long as it must be', async (t) => {
  const dir = makeDir(t);
  const traps = makeTraps(dir);
  const lay = (name: string, trap?: { readonly file: string; readonly at: string }) => {
    const from = join(dir, name);
    mkdirSync(from);
    for (const file of ['config.json', 'state.json', 'memory-ranges']) {
      if (trap?.file === file) execFileSync('mv', [trap.at, join(from, file)]);
      else writeFileSync(join(from, file), '{}'.padEnd(16));
    }
    const to = join(dir, `${name}-to`);
    mkdirSync(to);
    return collectSaved({
      ...{ from, to, memoryBytes: 16 },
      ...{ claimProgram: HELPERS.claim, log: pino({ level: 'silent' }) },
    });
  };
  await lay('well');
  await t.rejects(lay('one', { file: 'memory-ranges', at: traps.link ?? '' }));
  await t.rejects(lay('two', { file: 'config.json', at: traps.pipe ?? '' }));
  await t.rejects(lay('three', { file: 'state.json', at: traps.directory ?? '' }));
  const endless = join(dir, 'endless');
  writeFileSync(endless, '');
  truncateSync(endless, 2 ** 40);
  await t.rejects(lay('four', { file: 'config.json', at: endless }), /is longer than/);
});

t.test('memory that a VMM only says is its guest’s', async (t) => {
  const dir = makeDir(t);
  await compileGuestProgram('mapped', dir);
  const pretend = async (name: string, fileBytes: number, mappingBytes: number): Promise<number> => {
    const process = spawn(join(dir, 'mapped'), [name, String(fileBytes), String(mappingBytes)]);
    t.teardown(() => process.kill());
    await once(process.stdout, 'data');
    return process.pid ?? 0;
  };
  let count = 0;
  const copy = async (pid: number, kind: 'anonymous' | 'copy-on-write'): Promise<string> => {
    const target = join(dir, `copy-${count++}`);
    const memory = kind === 'anonymous' ? { kind } : { kind, path: '/memfd:saved-memory' };
    await (await beginMemoryCopy({ pid, memory }, MIB, target))();
    return target;
  };
  for (const [kind, name] of [
    ['anonymous', 'memory-backend-memfd'],
    ['copy-on-write', 'saved-memory'],
  ] as const) {
    t.equal(statSync(await copy(await pretend(name, MIB, MIB), kind)).size, MIB, kind);
    // Reading its page map would need 64 GiB in the daemon.
    await t.rejects(copy(await pretend(name, 2 ** 40, 2 ** 45), kind), /as the guest's memory/);
    await t.rejects(copy(await pretend(name, MIB / 2, MIB), kind));
  }
  // A pipe without a writer blocks the process that opens it.
  const pipe = join(dir, 'empty');
  execFileSync('mkfifo', [pipe]);
  const holder = spawn('sh', ['-c', 'exec 3<>"$0" 4<"$0" 3>&-; echo ready; exec sleep 600', pipe]);
  t.teardown(() => holder.kill());
  await once(holder.stdout, 'data');
  await t.rejects(openProcessFile(`/proc/${holder.pid}/fd/4`), /is not a regular file/);
});

t.test('a link to the socket of another VM is not followed', async (t) => {
  const dir = makeDir(t);
  let connections = 0;
  await serve(t, join(dir, 'other.sock'), (socket) => {
    connections += 1;
    socket.end();
  });
  symlinkSync(join(dir, 'other.sock'), join(dir, 'agent.sock'));
  await t.rejects(connectUnix(join(dir, 'agent.sock')));
  await t.rejects(connectLink(join(dir, 'agent.sock')));
  await t.rejects(new VmmApi(join(dir, 'agent.sock')).ping({ timeoutMs: 5000 }));
  await t.rejects(connectUnix(join(dir, 'shadow')), /is not a socket/);
  t.equal(connections, 0);
  (await connectUnix(join(dir, 'other.sock'))).destroy();
});

t.test(
  'descriptors that come with its bytes are closed, and a VMM that accepts no connection blocks no other',
  async (t) => {
    const dir = makeDir(t);
    await compileGuestProgram('attacks', dir);
    const attack = async (kind: string): Promise<string> => {
      const path = join(dir, `${kind}.sock`);
      const vmm = spawn(join(dir, 'attacks'), [`${kind}=${path}`]);
      t.teardown(() => vmm.kill());
      await once(vmm.stdout, 'data');
      return path;
    };
    const count = (): number => readdirSync('/proc/self/fd').length;
    const passing = await attack('pass');
    const before = count();
    let bytes = 0;
    let most = 0;
    const look = (chunk: Buffer): void => {
      bytes += chunk.length;
      most = Math.max(most, count());
    };
    const socket = await connectUnix(passing);
    socket.on('data', look);
    await once(socket, 'close');
    const link = await connectLink(passing);
    await new Promise<void>((resolve) => {
      link.start({ data: look, drain: () => undefined, close: () => resolve() });
    });
    t.equal(bytes, 2 * 200);
    t.ok(most <= before + 5, `${most} descriptors, ${before} before`);

    const full = await attack('full');
    await t.rejects(connectUnix(full), { code: 'EAGAIN' });
    await t.rejects(connectLink(full), { code: 'EAGAIN' });
  },
);

const GREETING = '{"QMP": {}}\n';
const NONSENSE = [
  ...['null', '5', '"x"', '[]', '[null]', '{}', '{"event":null}', '{"event":{}}', '\u0000', '{'],
  '{"event":"SHUTDOWN","data":null}',
  '{"event":"SHUTDOWN","data":{"reason":{"toString":1,"valueOf":1}}}',
  '{"event":"BLOCK_IO_ERROR","data":{"action":"stop","reason":{"toString":1}}}',
  ...['{"id":null}', '{"id":99,"error":null}', '{"id":"1"}', '{"id":1e99}', '{"id":-1,"return":{}}'],
];

t.test('what makes no sense on a control socket does no harm', async (t) => {
  const path = join(makeDir(t), 'qmp.sock');
  await serve(t, path, (socket) => {
    socket.write(`${NONSENSE.join('\n')}\n${GREETING}`);
    socket.on('data', (bytes) => {
      for (const line of bytes.toString().trim().split('\n')) {
        const { id, execute } = JSON.parse(line);
        const error = execute === 'refused' ? `{"class":{"toString":1},"desc":{"toString":1}}` : 'null';
        const answer = execute === 'refused' ? `"error":${error}` : '"return":{}';
        socket.write(`${NONSENSE.join('\n')}\n{"id":${id},${answer}}\n`);
      }
    });
  });
  const events: QmpEvent[] = [];
  const client = await QmpClient.open(await connectUnix(path), (event) => void events.push(event), soon());
  t.same(await client.execute('well'), {});
  await t.rejects(client.execute('refused'), { message: 'refused: no description' });
  t.ok(events.length >= 9);
  client.close();
});

t.test('a line without an end, before the greeting or behind it', async (t) => {
  const dir = makeDir(t);
  const line = Buffer.alloc(64 * MIB, 0x78);
  await serve(t, join(dir, 'first.sock'), (socket) => void socket.write(line));
  await t.rejects(
    connectUnix(join(dir, 'first.sock')).then((socket) => QmpClient.open(socket, () => undefined, soon())),
    { name: 'QmpViolation', message: /without a line's end/ },
  );
  await serve(t, join(dir, 'later.sock'), (socket) => {
    socket.write(GREETING);
    socket.once('data', () => {
      socket.write(`{"id":1,"return":{}}\n{"event":"`);
      socket.write(line);
    });
  });
  const socket = await connectUnix(join(dir, 'later.sock'));
  const client = await QmpClient.open(socket, () => undefined, soon());
  await client.closed;
  t.match(client.violation?.message, /without a line's end/);
  await t.rejects(client.execute('anything'), { name: 'QmpViolation' });
  t.ok(socket.bytesRead < 2 * MIB, `${socket.bytesRead} bytes were read of it`);
});

t.test('events without end leave time for everything else', async (t) => {
  const path = join(makeDir(t), 'qmp.sock');
  const events = '{"event":"STOP","data":{}}\n'.repeat(10_000);
  await serve(t, path, (socket) => {
    socket.write(GREETING);
    socket.once('data', () => {
      socket.write('{"id":1,"return":{}}\n');
      const more = (): void => {
        while (!socket.destroyed && socket.write(events));
        if (!socket.destroyed) socket.once('drain', more);
      };
      more();
    });
  });
  const socket = await connectUnix(path);
  const client = await QmpClient.open(socket, () => undefined, soon());
  const startedAt = performance.now();
  await new Promise((resolve) => setTimeout(resolve, 1500));
  const seconds = Math.ceil((performance.now() - startedAt) / 1000) + 1;
  t.ok(socket.bytesRead <= seconds * 1.5 * MIB, `${socket.bytesRead} bytes in ${seconds} s`);
  t.equal(client.isOpen, true);
  client.close();
});
