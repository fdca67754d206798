// A host for the QEMU engine under test, with the stand-in as the program.
import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { Test } from 'tap';
import type { VmPaths } from '../../../host-agent/src/engines/engine.ts';
import type { QemuSetup } from '../../../host-agent/src/engines/qemu/index.ts';
import { SealedMemories } from '../../../host-agent/src/engines/qemu/sealed-memory.ts';
import { makeFakeHost } from '../fake-host.ts';
import { HELPERS } from '../helper-programs.ts';

export type QemuKnobs = {
  /** `query-status` of a guest whose VMM starts. */
  readonly firstStatus: string;
  /** State of the guest after SIGUSR1, with the text that is then on its console and in the VMM's log. */
  readonly endsIn: string;
  readonly lastWords: string;
  readonly log: string;
  /** Error of a write that the host's disk refused. */
  readonly reason?: string;
  /** Commands that are neither executed nor answered for now, and commands after them. */
  readonly held: readonly string[];
  /** Commands that are refused, with the error text. */
  readonly refused: Readonly<Record<string, string>>;
  /** What takes the place of the device state that it claims to have saved. */
  readonly saved: 'state' | 'nothing' | 'no-bytes' | 'link' | 'pipe' | 'directory' | 'endless';
  /** The agent never answers. */
  readonly isGuestDeaf: boolean;
};

const USUAL: QemuKnobs = {
  firstStatus: 'running',
  endsIn: 'internal-error',
  lastWords: '',
  log: '',
  held: [],
  refused: {},
  saved: 'state',
  isGuestDeaf: false,
};

export { MEMORY_BYTES } from '../fake-host.ts';

const MAIN = resolve(import.meta.dirname, 'main.ts');

export type FakeQemuHost = ReturnType<typeof makeFakeQemuHost>;

export function makeFakeQemuHost(t: Test) {
  const program = { main: MAIN, name: 'qemu-system-x86_64', variable: 'FAKE_QEMU_KNOBS', usual: USUAL };
  const host = makeFakeHost(t, { ...program, mayStay: true });
  const memories = new SealedMemories(HELPERS.memfd);
  const setup: QemuSetup = { program: host.program, accelerator: 'tcg', memories };
  /** Commands that the VMM has received so far. */
  const commands = ({ dir }: VmPaths): string[] => {
    const path = join(dir, 'commands');
    return existsSync(path) ? readFileSync(path, 'utf8').split('\n') : [];
  };
  return { ...host, setup, commands };
}
