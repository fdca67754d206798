// Invariants of an idle daemon: everything that exists is listed, and everything listed exists. network/violations.ts
// has those of networks.
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { LOCK_NAME } from '../../host-agent/src/lib/instance-lock.ts';
import type { SandboxJson } from './api.ts';
import type { Daemon } from './daemon.ts';
import { findMounts, findOpenLogs, findSockets, readRecordIds } from './leftovers.ts';
import { settled } from './settled.ts';
import { listVmms } from './vmms.ts';

type Holdings = { readonly sandboxes: readonly string[]; readonly snapshots: readonly string[] };

export async function listHoldings({ api }: Daemon): Promise<Holdings> {
  const { sandboxes } = await api.call<{ sandboxes: SandboxJson[] }>('GET', '/sandboxes');
  const { snapshots } = await api.call<{ snapshots: { readonly id: string }[] }>('GET', '/snapshots');
  return { sandboxes: sandboxes.map(({ id }) => id).sort(), snapshots: snapshots.map(({ id }) => id).sort() };
}

/** Every violation, as a sentence. All sandboxes must be alive. */
export function findViolations(daemon: Daemon): Promise<string[]> {
  return settled(() => lookForViolations(daemon));
}

async function lookForViolations(daemon: Daemon): Promise<string[]> {
  const { dataDir, runDir } = daemon.directories;
  const { sandboxes, snapshots } = await listHoldings(daemon);
  const names = (dir: string): Promise<string[]> => readdir(dir).catch(() => []);
  const besides = [LOCK_NAME, 'net', 'ports', 'egress', 'idle', 'used'];
  const inRunDir = (await names(runDir)).filter((name) => !besides.includes(name) && !name.endsWith('.vmm'));
  const recordsOfVmms = (await names(runDir)).filter((name) => name.endsWith('.vmm'));
  const halfMade = (await names(join(dataDir, 'templates'))).filter((name) => name.startsWith('.'));
  // A deleted snapshot stays as a stub while something that came from it exists.
  const isStub = (record: unknown): boolean =>
    typeof record === 'object' && record !== null && 'deletedAtMs' in record;
  const records = await readRecordIds(dataDir, [], (record) => !isStub(record));
  const recorded = (table: string): string[] =>
    records.filter((key) => key.startsWith(`${table}/`)).map((key) => key.slice(table.length + 1));
  const sockets = await findSockets(daemon.directories);
  // network/violations.ts has those of published ports, and of connections that are bound to names.
  const strangers = sockets.filter(
    (socket) => !/\/(?:ports|egress)\//.test(socket) && !sandboxes.some((id) => socket.includes(`/${id}/`)),
  );
  return [
    ...compare('VMM', await vmmSandboxes(runDir), sandboxes),
    ...compare('directory', await names(join(dataDir, 'sandboxes')), sandboxes),
    ...compare('run directory', inRunDir, sandboxes),
    ...compare(
      'process record',
      recordsOfVmms.map((name) => name.slice(0, -'.vmm'.length)),
      sandboxes,
    ),
    ...compare('snapshot directory', await names(join(dataDir, 'snapshots')), snapshots),
    ...compare('record', recorded('sandboxes'), sandboxes),
    ...compare('record', recorded('snapshots'), snapshots),
    ...strangers.map((socket) => `${socket} of nobody`),
    ...(await findMounts(daemon.directories)).filter((mount) => !mount.includes(`${runDir}/net/`)),
    ...(await findOpenLogs(dataDir)),
    ...halfMade.map((name) => `a half-made template ${name}`),
  ];
}

/** The sandbox id in the control socket's path of each VMM that runs in `runDir`. */
export async function vmmSandboxes(runDir: string): Promise<string[]> {
  const own = (await listVmms()).filter(({ socketPath }) => socketPath.startsWith(`${runDir}/`));
  return own.map(({ socketPath }) => socketPath.slice(runDir.length + 1).split('/')[0] ?? '');
}

function compare(what: string, found: readonly string[], listed: readonly string[]): string[] {
  return [
    ...found.filter((id) => !listed.includes(id)).map((id) => `a ${what} of ${id}, which is not listed`),
    ...listed.filter((id) => !found.includes(id)).map((id) => `no ${what} of ${id}, which is listed`),
    ...(new Set(found).size === found.length ? [] : [`two of ${what} with one id: ${found.join(' ')}`]),
  ];
}
