// Pushes and pulls files of a sandbox as a client does.
import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { paddingAfter } from '@sandboxd/proto';
import { extract, type Header, pack } from 'tar-stream';
import { encodeHeader, endMark } from '../../guest-agent/src/files/tar/writer.ts';
import type { Api } from './api.ts';

type PushJson = { readonly files: number; readonly bytes: number };
export type Answer = { readonly status: number; readonly error: string; readonly push: PushJson | undefined };

/** Pushes bytes or a stream; returns the response, whatever its status. */
export async function push(
  api: Api,
  id: string,
  path: string,
  body: Uint8Array | Readable,
  signal?: AbortSignal,
): Promise<Answer> {
  const response = await api.fetch(`/sandboxes/${id}/files?path=${encodeURIComponent(path)}`, {
    method: 'POST',
    body:
      body instanceof Readable ? (Readable.toWeb(body) as ReadableStream<Uint8Array>) : new Uint8Array(body),
    ...(body instanceof Readable && { duplex: 'half' }),
    ...(signal && { signal }),
  } as RequestInit);
  const value = (await response.json()) as { error?: string } & Partial<PushJson>;
  return {
    status: response.status,
    error: value.error ?? '',
    push: response.status === 200 ? { files: value.files ?? 0, bytes: value.bytes ?? 0 } : undefined,
  };
}

export function pull(api: Api, id: string, path: string, query = '', method = 'GET'): Promise<Response> {
  return api.fetch(`/sandboxes/${id}/files?path=${encodeURIComponent(path)}${query}`, { method });
}

export type TarMember = Partial<Header> & { readonly name: string; readonly content?: Uint8Array | string };

export async function makeTar(members: Iterable<TarMember>): Promise<Buffer> {
  const stream = pack();
  const whole = buffer(stream);
  for (const { content, ...header } of members) stream.entry(header, Buffer.from(content ?? ''));
  stream.finalize();
  const archive = await whole;
  // The push blocked the event loop: connections that the server closed meanwhile must be noticed before the next
  // `fetch`.
  await new Promise((resolve) => setImmediate(resolve));
  return archive;
}

/** Maps each member's name to a text for comparison. */
export async function listTar(archive: Readable): Promise<Map<string, string>> {
  const members = new Map<string, string>();
  const reader = extract();
  archive.on('error', (error) => reader.destroy(error)).pipe(reader);
  for await (const entry of reader) {
    const { name, type, mode, mtime, linkname } = entry.header;
    const content = type === 'file' ? await buffer(entry) : Buffer.alloc(0);
    if (type !== 'file') entry.resume();
    const hash = createHash('sha256').update(content).digest('hex');
    const seconds = (mtime?.getTime() ?? 0) / 1000;
    members.set(name.replace(/\/$/, ''), `${type} ${mode?.toString(8)} ${seconds} ${linkname ?? ''} ${hash}`);
  }
  return members;
}

/** A file of `sizeBytes` in an archive that is streamed; `content` returns its next bytes. */
export function bigTar(name: string, sizeBytes: number, content: (bytes: number) => Uint8Array): Readable {
  const member = {
    flag: '0',
    name,
    target: '',
    mode: 0o644,
    uid: 0,
    gid: 0,
    sizeBytes,
    mtimeSeconds: 1e9,
  } as const;
  return Readable.from(
    (async function* () {
      yield encodeHeader(member);
      for (let left = sizeBytes; left > 0; ) {
        // A daemon that accepts everything at once would otherwise starve the rest of the test.
        await nextTurn();
        const piece = content(Math.min(left, 2 ** 18));
        left -= piece.length;
        yield piece;
      }
      yield Buffer.alloc(paddingAfter(sizeBytes));
      yield endMark();
    })(),
  );
}
