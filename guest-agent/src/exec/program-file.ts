// A program file that exists but does not start: finds the reason from its first bytes.
import { closeSync, constants, openSync, readSync, type Stats, statSync } from 'node:fs';
import { resolve } from 'node:path';
import { ARCHITECTURE, ARCHITECTURES } from '@sandboxd/proto';

export type ProgramFile = {
  readonly path: string;
  readonly isDirectory: boolean;
  readonly head: Buffer;
};

/** The kernel reads 256 bytes of a script, and an ELF loader is named within the first page. */
const HEAD_BYTES = 4096;
const ELF = '\x7fELF';
const INTERPRETER = 3;
/** ELF machine numbers of the architectures that images and releases are built for. */
const MACHINES: ReadonlyMap<number, string> = new Map([
  [3, 'i386'],
  [21, 'ppc64'],
  [22, 's390x'],
  [40, 'arm'],
  [243, 'riscv64'],
  ...Object.values(ARCHITECTURES).map(({ elfMachine, title }) => [elfMachine, title] as const),
]);

/** The first candidate that exists; relative candidates are below `cwd`. */
export function findProgramFile(candidates: readonly string[], cwd: string): ProgramFile | undefined {
  for (const candidate of candidates) {
    const path = resolve(cwd, candidate);
    const stats = statOf(path);
    if (stats === undefined) continue;
    return {
      path,
      isDirectory: stats.isDirectory(),
      head: stats.isFile() ? readHead(path) : Buffer.alloc(0),
    };
  }
  return undefined;
}

/** The program's interpreter if that file is missing; undefined where it cannot be determined. */
export function missingInterpreter({ head }: ProgramFile): string | undefined {
  if (head.toString('latin1', 0, 2) === '#!') {
    const [line = ''] = head.toString('utf8', 2).split('\n');
    return /^[ \t]*([^ \t]+)/.exec(line)?.[1];
  }
  return isElf(head) ? loaderOf(head) : undefined;
}

/** Description of a format that neither the kernel nor a shell of this guest runs; undefined: it may be a script. */
export function foreignFormat({ head }: ProgramFile): string | undefined {
  if (!isElf(head)) return head.includes(0) ? 'it is neither a program nor a script' : undefined;
  const machine = head.length < 20 ? ARCHITECTURE.elfMachine : head.readUInt16LE(18);
  if (machine === ARCHITECTURE.elfMachine) return 'it is damaged';
  return `it is a program for ${MACHINES.get(machine) ?? `machine ${machine}`}, and this guest is ${ARCHITECTURE.title}`;
}

function isElf(head: Buffer): boolean {
  return head.toString('latin1', 0, 4) === ELF;
}

/** The PT_INTERP of a 64-bit program. */
function loaderOf(head: Buffer): string | undefined {
  try {
    const [table, size, count] = [
      Number(head.readBigUInt64LE(32)),
      head.readUInt16LE(54),
      head.readUInt16LE(56),
    ];
    for (let at = table; at < table + count * size; at += size) {
      if (head.readUInt32LE(at) !== INTERPRETER) continue;
      const [start, bytes] = [Number(head.readBigUInt64LE(at + 8)), Number(head.readBigUInt64LE(at + 32))];
      return head.toString('utf8', start, start + bytes - 1) || undefined;
    }
  } catch {
    // The file is truncated or has invalid offsets.
  }
  return undefined;
}

function statOf(path: string): Stats | undefined {
  try {
    return statSync(path);
  } catch {
    return undefined;
  }
}

function readHead(path: string): Buffer {
  const head = Buffer.alloc(HEAD_BYTES);
  try {
    const fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      return head.subarray(0, readSync(fd, head, 0, HEAD_BYTES, 0));
    } finally {
      closeSync(fd);
    }
  } catch {
    return head.subarray(0, 0);
  }
}
