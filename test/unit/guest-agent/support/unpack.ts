// Extracts archives below temporary directories of this machine.
import './addon-dir.ts';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { TarReader } from '@sandboxd/proto';
import t from 'tap';
import { Destination } from '../../../../guest-agent/src/files/destination.ts';
import { Extractor } from '../../../../guest-agent/src/files/extractor.ts';
import { archive, type Member } from './tar-blocks.ts';

let base: string | undefined;
let count = 0;

export function freshDirectory(): string {
  if (base === undefined) {
    const made = mkdtempSync(join(tmpdir(), 'unpack-'));
    t.teardown(() => rmSync(made, { recursive: true, force: true }));
    base = made;
  }
  const dir = join(base, `n${count++}`);
  mkdirSync(dir);
  return dir;
}

/** Extracts below `dir`. Throws an error after everything is closed; `atEnd` is called before closing. */
export function unpack(
  dir: string,
  bytes: Buffer,
  pieceBytes = 65_536,
  atEnd = () => {},
): { files: number; bytes: number } {
  const extractor = new Extractor(Destination.open(Buffer.from(dir).toString('latin1')), true);
  try {
    const reader = new TarReader(extractor, { isForRoot: true });
    for (let at = 0; at < bytes.length; at += pieceBytes) reader.push(bytes.subarray(at, at + pieceBytes));
    reader.end();
    atEnd();
    return extractor.counts;
  } finally {
    extractor.close();
  }
}

export const put = (dir: string, ...members: Member[]) => unpack(dir, archive(members));
