// The VMM processes of a host, found by the control socket in their arguments, for every engine.
import { readFileSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import type { SandboxJson } from './api.ts';
import type { Daemon } from './daemon.ts';

export type VmmProcess = { readonly pid: number; readonly socketPath: string };

/** Control sockets of all engines. */
const CONTROL_SOCKET = /(\/[^\0,=:"]*\/(?:qmp|api)\.sock)/;

export async function listVmms(): Promise<VmmProcess[]> {
  const found: VmmProcess[] = [];
  for (const pid of await readdir('/proc')) {
    if (!/^\d+$/.test(pid)) continue;
    const args = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
    const socketPath = CONTROL_SOCKET.exec(args)?.[1];
    if (socketPath !== undefined) found.push({ pid: Number(pid), socketPath });
  }
  return found;
}

/** Processes with a control socket in the sandbox's own socket directory. */
export async function vmmPids(id: string): Promise<number[]> {
  return (await listVmms()).filter(({ socketPath }) => socketPath.includes(`/${id}/`)).map(({ pid }) => pid);
}

/** Processes with this text in their arguments; it should be a path that only this test uses. */
export async function pidsNaming(text: string): Promise<number[]> {
  const found: number[] = [];
  for (const pid of await readdir('/proc')) {
    if (!/^\d+$/.test(pid) || Number(pid) === process.pid) continue;
    const args = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
    if (args.includes(text)) found.push(Number(pid));
  }
  return found;
}

type Status = Readonly<Record<string, string>>;

/** Status of a process or thread, by the path of its `status`. */
export function readStatus(path: string): Status {
  const lines = readFileSync(path, 'latin1').trim().split('\n');
  return Object.fromEntries(lines.map((line) => line.split(/:\s*/, 2)));
}

export async function vmmOf({ id }: SandboxJson): Promise<number> {
  const [pid = 0] = await vmmPids(id);
  return pid;
}

export const uidOf = (pid: number): number => Number(readStatus(`/proc/${pid}/status`).Uid?.split('\t')[0]);

export async function engineOf({ api }: Daemon) {
  const { engine } = await api.ask('listProfiles');
  return engine;
}
