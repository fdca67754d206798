// Calls about single files of an agent in this process.
import './addon-dir.ts';
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Channel, FileCallInput } from '@sandboxd/proto';
import type { Test } from 'tap';
import { callFiles, readFile, writeFile } from '../../../../host-agent/src/guest/files.ts';
import { startLocalAgent } from './local-agent.ts';

/** An agent, and a directory of `base` that is the root of its calls. */
export async function start(t: Test, base = tmpdir()) {
  const dir = mkdtempSync(join(base, 'files-'));
  t.teardown(() => rmSync(dir, { recursive: true, force: true }));
  chmodSync(dir, 0o755);
  const agent = startLocalAgent(t);
  const channel = await agent.connect();
  return { dir, channel, agent, ...calls(channel, dir) };
}

export function calls(channel: Channel, root: string) {
  const place = (path: string, user = '') => ({
    path: Buffer.from(path, 'latin1'),
    root: Buffer.from(root),
    user,
  });
  return {
    call: (path: string, operation: FileCallInput, user?: string) =>
      callFiles({ channel }, { place: place(path, user), ...operation }),
    stat: async (path: string, isLink = false) =>
      (await callFiles({ channel }, { place: place(path), stat: { isLink } })).entry!,
    read: async (path: string, part = {}, user?: string) => {
      const file = await readFile({ channel }, { place: place(path, user), ...part });
      const chunks: Buffer[] = [];
      for (let chunk = await file.body.next(); chunk !== undefined; chunk = await file.body.next()) {
        chunks.push(Buffer.from(chunk.bytes));
        chunk.release();
      }
      return { ...file, text: Buffer.concat(chunks).toString() };
    },
    write: (path: string, content: string | readonly string[], options = {}, user?: string) => {
      const chunks = [content].flat().map((text) => Buffer.from(text));
      return writeFile({ channel }, { place: place(path, user), ...options }, async () => chunks.shift());
    },
    list: async (path: string, depth = 1, maxEntries = 1000) => {
      const names: string[] = [];
      let after: Buffer = Buffer.alloc(0);
      for (;;) {
        const list = { depth, maxEntries, after };
        const { entries, hasMore } = await callFiles({ channel }, { place: place(path), list });
        names.push(...entries.map((entry) => entry.path.toString('latin1')));
        if (!hasMore) return names;
        after = entries.at(-1)!.path;
      }
    },
  };
}
