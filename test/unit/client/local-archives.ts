// Archives and local directories as the client unpacks and packs them.
import { existsSync } from 'node:fs';
import { buffer, text } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { setTimeout } from 'node:timers/promises';
import { extract, type Header, pack } from 'tar-stream';
import { HeldDirectory } from '../../../client/src/platform/held-directory.ts';
import { packDirectory } from '../../../client/src/platform/pack-directory.ts';
import { unpackDirectory } from '../../../client/src/platform/unpack-directory.ts';

export type Entry = {
  readonly name: string;
  readonly type?: 'directory' | 'symlink' | 'link' | 'fifo';
  readonly linkname?: string;
  readonly mode?: number;
  readonly text?: string;
  readonly pax?: Readonly<Record<string, string>>;
};

/** An archive of them, in pieces. `at`, which a step in between names, is there when it is done. */
export async function* archiveOf(
  ...steps: readonly (Entry | { readonly at: string; readonly act: () => void })[]
): AsyncGenerator<Uint8Array, void> {
  for (const step of steps) {
    if ('act' in step) {
      while (!existsSync(step.at)) await setTimeout(5);
      step.act();
      continue;
    }
    const { text = '', ...header } = step;
    const archive = pack();
    archive.entry({ mode: 0o644, ...header, mtime: new Date(1000) } as Header, text);
    archive.finalize();
    const all = await buffer(archive);
    yield all.subarray(0, all.length - 1024);
  }
  yield Buffer.alloc(1024);
}

export async function* pieces(whole: Uint8Array): AsyncGenerator<Uint8Array, void> {
  yield whole;
}

export async function unpackInto(path: string, archive: AsyncIterable<Uint8Array>): Promise<void> {
  await using directory = await HeldDirectory.ensure(path);
  await unpackDirectory(archive, directory);
}

export async function packed(path: string, onEntry?: (name: string) => void): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  await using directory = await HeldDirectory.open(path);
  const archive = extract();
  archive.on('entry', (header, body, next) => {
    void text(body).then((content) => {
      found.set(
        header.name,
        header.type === 'file' ? content : `${header.type} ${header.linkname ?? ''}`.trim(),
      );
      onEntry?.(header.name);
      next();
    });
  });
  await pipeline(packDirectory(directory), archive);
  return found;
}
