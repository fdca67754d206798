// A host for the Cloud Hypervisor engine, whose VMM is a process that only waits: a test answers on its control socket.
import { execFileSync } from 'node:child_process';
import { globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import type { Test } from 'tap';
import { vmmFiles } from '../../host-agent/src/engines/cloud-hypervisor/files.ts';
import { CloudHypervisorEngine } from '../../host-agent/src/engines/cloud-hypervisor/index.ts';
import { buildVmConfig } from '../../host-agent/src/engines/cloud-hypervisor/vm-config.ts';
import type { EngineContext, Vm, VmmIdentity } from '../../host-agent/src/engines/engine.ts';
import { HELPERS } from './helper-programs.ts';
import { type MadeVmm, serveVmm } from './made-vmm-api.ts';

const MIB = 2 ** 20;

/** The state of a guest whose drivers are not bound to its disks. */
export const stateOf = (memoryBytes: number): string => {
  const data = (state: string) => ({ snapshots: {}, snapshot_data: { state } });
  const disk = JSON.stringify({ disk_nsectors: 1, config: { capacity: 1 } });
  const free = JSON.stringify({ device_activated: false });
  const devices = Object.fromEntries(
    [0, 1].flatMap((at) => [
      [`disk${at}`, data(disk)],
      [`_virtio-pci-disk${at}`, data(free)],
    ]),
  );
  const memory = `{"memory_ranges":{"data":[{"gpa":0}]},"guest_ram_mappings":[{"size":${memoryBytes},"file_offset":9}]}`;
  const snapshots = { 'memory-manager': data(memory), 'device-manager': { snapshots: devices } };
  return JSON.stringify({ snapshots, other: 1 });
};

export async function makeHost(t: Test, more: Partial<EngineContext> = {}) {
  const dir = mkdtempSync(join(tmpdir(), 'start-'));
  const [program, pipe, scratchDir] = ['vmm', 'pipe', 'scratch'].map((name) => join(dir, name)) as [
    ...[string, string, string],
  ];
  execFileSync('mkfifo', [pipe]);
  writeFileSync(
    program,
    `#!/bin/bash
if [ "$*" = --version ]; then echo cloud-hypervisor v\${VERSION:-53.0}; exit; fi
own=\${2#path=}; echo $$ > "\${own%/*}/pid.new"; mv "\${own%/*}/pid.new" "\${own%/*}/pid"
exec -a cloud-hypervisor /bin/bash -c 'read -r <> "$0"' '${pipe}' "$@"\n`,
    { mode: 0o755 },
  );
  mkdirSync(scratchDir);
  for (const name of ['kernel', 'initramfs', 'root']) writeFileSync(join(dir, name), '');
  const log = pino({ level: 'silent' });
  const context: EngineContext = {
    ...{
      program,
      forkMemory: 'auto',
      kernelPath: join(dir, 'kernel'),
      initramfsPath: join(dir, 'initramfs'),
    },
    ...{ scratchDir, claimProgram: HELPERS.claim, memfdProgram: HELPERS.memfd, log, kvmPath: '/dev/null' },
    ...more,
  };
  const engine = new CloudHypervisorEngine(context);
  const alive = setInterval(() => undefined, 1000);
  const vms: Vm[] = [];
  t.teardown(async () => {
    for (const vm of vms) await vm.kill();
    clearInterval(alive);
    rmSync(dir, { recursive: true });
  });
  let count = 0;
  const prepare = () => {
    const paths = { dir: join(dir, `own-${count}`), socketDir: join(dir, `run-${count++}`) };
    for (const path of Object.values(paths)) mkdirSync(path);
    const layer = join(paths.dir, 'layer');
    writeFileSync(layer, Buffer.alloc(5 * 512));
    const disks = [
      { path: join(dir, 'root'), isReadOnly: true },
      { path: layer, isReadOnly: false },
    ];
    const files = vmmFiles(paths);
    let vmm: MadeVmm | undefined;
    const answers: MadeVmm['answers'] = {};
    const options = {
      spec: {
        ...{ vcpus: 1, memoryMib: 4, bootArgs: '', disks },
        ...{ kernelPath: join(dir, 'kernel'), initramfsPath: join(dir, 'initramfs') },
      },
      ...{ paths, log },
      onSpawn: async ({ pid }: VmmIdentity) => {
        vmm = await serveVmm(t, files.controlSocketPath, pid);
        Object.assign(vmm.answers, answers);
      },
    };
    return { paths, files, options, answers, asked: () => vmm?.asked ?? [] };
  };
  const keep = (vm: Vm): Vm => {
    vms.push(vm);
    return vm;
  };
  /** A snapshot of a guest of this host. */
  const makeSaved = (net?: unknown) => {
    const to = mkdtempSync(join(dir, 'saved-'));
    const saved = { memoryPath: join(to, 'memory'), statePath: join(to, 'state') };
    const { options, files } = prepare();
    const config = buildVmConfig({ spec: options.spec, files, hasLandlock: false, isDirect: false });
    const text = JSON.stringify({ ...config, ...(net !== undefined && { net }), pvpanic: false });
    writeFileSync(
      saved.statePath,
      JSON.stringify({ formatVersion: 1, config: text, state: stateOf(4 * MIB) }),
    );
    writeFileSync(saved.memoryPath, 'memory');
    return saved;
  };
  const gone = (): boolean => !globSync('/proc/[0-9]*/cmdline').some((path) => reads(path, pipe));
  return { dir, program, engine, context, scratchDir, prepare, keep, makeSaved, gone };
}

function reads(path: string, text: string): boolean {
  try {
    return readFileSync(path, 'latin1').includes(text);
  } catch {
    return false;
  }
}
