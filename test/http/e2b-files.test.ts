// Uploads of E2B's SDKs: forms, bytes, and metadata of files.

import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import t, { type Test } from 'tap';
import type { ByteSource } from '../../host-agent/src/guest/files.ts';
import { type Created, serveE2b } from './e2b-front.ts';
import { FILE } from './fake-sandboxes.ts';
import { watchOf } from './fake-watch.ts';
import { openKeyring } from './keyed.ts';
import { makeApp } from './support.ts';

async function start(t: Test) {
  const keyring = await openKeyring(t);
  const fixture = makeApp({ authenticator: keyring.authenticator });
  const e2b = await serveE2b(t, { ...fixture, keyring });
  const { text: key } = await keyring.registry.create({ name: 'one' }, 'e2b');
  const body = { templateID: 'base', allow_internet_access: false };
  const made: Created = (await e2b.ask('POST', '/v2/sandboxes', { key, body })).json;
  return { ...fixture, e2b, made };
}

t.test('uploads of every form arrive, and what is no form is refused', async (t) => {
  const { e2b, made, sandboxes } = await start(t);
  const written: [string, string][] = [];
  sandboxes.onWrite = async (write, read: ByteSource) => {
    const parts: Uint8Array[] = [];
    for (let part = await read(); part !== undefined; part = await read()) parts.push(part);
    written.push([Buffer.from(write.place?.path ?? '').toString(), Buffer.concat(parts).toString()]);
    return FILE;
  };
  const headers = {
    'x-access-token': made.envdAccessToken,
    'e2b-sandbox-id': made.sandboxID,
    'e2b-sandbox-port': '49983',
  };
  const form = new FormData();
  form.append('file', new Blob(['one']), '/tmp/a/1');
  form.append('other', 'passed over');
  form.append('file', new Blob(['two']), '../2');
  const many = await e2b.ask('POST', '/files', { body: form, headers });
  t.same(many.json, [
    { name: '1', path: '/tmp/a/1', type: 'file' },
    { name: '2', path: '/2', type: 'file' },
  ]);
  const text = new FormData();
  text.append('file', 'text');
  await e2b.ask('POST', '/files?path=/t', { body: text, headers });
  const raw = { ...headers, 'content-type': 'application/octet-stream' };
  await e2b.ask('POST', '/files?path=x.txt', { body: 'plain', headers: raw });
  const packed = new Uint8Array(gzipSync('packed'));
  await e2b.ask('POST', '/files?path=/y', { body: packed, headers: { ...raw, 'content-encoding': 'gzip' } });
  t.same(written, [
    ['/tmp/a/1', 'one'],
    ['/2', 'two'],
    ['/t', 'text'],
    ['/root/x.txt', 'plain'],
    ['/y', 'packed'],
  ]);
  const twice = new FormData();
  for (const text of ['a', 'b']) twice.append('file', new Blob([text]), '/same');
  for (const [path, body, extra] of [
    ['/files', twice, {}],
    ['/files', 'x', { 'content-type': 'application/octet-stream' }],
    ['/files?path=/x', 'x', { 'content-type': 'text/plain' }],
    ['/files?path=/x', 'no gzip', { 'content-type': 'application/octet-stream', 'content-encoding': 'gzip' }],
    ['/files?path=/x', 'no form', { 'content-type': 'multipart/form-data; boundary=b' }],
    ['/files?path=/x', 'no form', { 'content-type': 'multipart/form-data' }],
  ] as const) {
    const { status, json } = await e2b.ask('POST', path, { body, headers: { ...headers, ...extra } });
    t.match([status, json.code], [400, 400], JSON.stringify(extra));
  }
});

t.test(
  'metadata of files are extended attributes, and hostile ones are refused before a write',
  async (t) => {
    const { e2b, made, sandboxes } = await start(t);
    const written: Record<string, string>[] = [];
    sandboxes.onWrite = async ({ attributes }, read: ByteSource) => {
      while ((await read()) !== undefined);
      const toText = (bytes: Uint8Array | null | undefined) => Buffer.from(bytes ?? []).toString();
      written.push(
        Object.fromEntries((attributes ?? []).map(({ name, value }) => [toText(name), toText(value)])),
      );
      return FILE;
    };
    const headers = {
      'x-access-token': made.envdAccessToken,
      'e2b-sandbox-id': made.sandboxID,
      'e2b-sandbox-port': '49983',
      'content-type': 'application/octet-stream',
    };
    const upload = (metadata: Record<string, string>) =>
      e2b.ask('POST', '/files?path=/x', { body: 'x', headers: { ...headers, ...metadata } });
    const { json } = await upload({ 'X-Metadata-Author': 'mish', 'x-metadata-__proto__': '"}' });
    t.same(json[0].metadata, JSON.parse('{"author":"mish","__proto__":"\\"}"}'));
    t.same(written.pop(), { 'e2b.author': 'mish', 'e2b.__proto__': '"}' });
    for (const metadata of [
      { 'x-metadata-': 'no key' },
      { [`x-metadata-${'k'.repeat(247)}`]: 'x' },
      { 'x-metadata-large': 'x'.repeat(4092) },
      { 'x-metadata-latin': 'ä' },
    ]) {
      const { status, json } = await upload(metadata);
      t.match([status, json.code], [400, 400], Object.keys(metadata).join());
      t.match(json.message, /metadata/);
    }
    t.same(written, []);
    sandboxes.onFileCall = async () => ({
      entry: {
        ...FILE,
        attributes: new Map([
          ['e2b.author', 'mish'],
          ['other', 'x'],
          ['e2b.', 'empty'],
        ]),
      },
      entries: [],
      hasMore: false,
      count: 0,
    });
    const { json: stat } = await e2b.call('filesystem.Filesystem/Stat', { path: '/x' }, made);
    t.same(stat.entry.metadata, { author: 'mish' });
  },
);

t.test('an upload is one creation and one write to watchers, and later writes are more', async (t) => {
  const { e2b, made, sandboxes } = await start(t);
  sandboxes.onFileCall = async () => {
    const entry = { ...FILE, type: 'directory' as const };
    return { entry, entries: [], hasMore: false, count: 0 };
  };
  sandboxes.onWatch = watchOf([
    { type: 'rename', from: '/w/.sandbox-0a.part', path: '/w/a' },
    { type: 'write', path: '/w/a', isClosed: true },
    { type: 'attrib', path: '/w/a' },
    { type: 'write', path: '/w/a' },
    { type: 'write', path: '/w/a', isClosed: true },
  ] as never);
  const { json: watcher } = await e2b.call('filesystem.Filesystem/CreateWatcher', { path: '/w' }, made);
  const types: string[] = [];
  for (let tries = 0; types.length < 5 && tries < 400; tries += 1) {
    const { json } = await e2b.call('filesystem.Filesystem/GetWatcherEvents', watcher, made);
    types.push(...(json.events ?? []).map(({ type }: { type: string }) => type.replace('EVENT_TYPE_', '')));
    await sleep(50);
  }
  t.same(types, ['CREATE', 'WRITE', 'CHMOD', 'WRITE', 'WRITE']);
});
