// tar-stream against the readers and the writer of ours, in pairs, without a guest: docs/measurements/tar.md. tar-stream
// gets the best case: no check, names and records as it decodes them, no sparse members.
// usage: node test/bench/tar.ts [folder for the files]
import '../unit/guest-agent/support/addon-dir.ts';
import { closeSync, mkdirSync, mkdtempSync, openSync, readSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TarEntry, TarReader, type TarSink } from '@sandboxd/proto';
import { extract, type Header, pack } from 'tar-stream';
import { Destination } from '../../guest-agent/src/files/destination.ts';
import { Extractor } from '../../guest-agent/src/files/extractor.ts';
import { encodeHeader, endMark } from '../../guest-agent/src/files/tar/writer.ts';
import { DEFAULT_CONVERT_LIMITS } from '../../host-agent/src/images/convert/limits.ts';
import { Merger } from '../../host-agent/src/images/convert/merger.ts';
import { DataWriter } from '../../host-agent/src/images/erofs/data.ts';
import { finishImage } from '../../host-agent/src/images/erofs/image.ts';
import { archive } from '../unit/guest-agent/support/tar-blocks.ts';
import { markdownTable, median } from './stats.ts';

const ROUNDS = 9;
/** As the agent gets frames, and as the converter reads layers. */
const FRAME_BYTES = 65_504;
const LAYER_CHUNK_BYTES = 262_144;
const base = mkdtempSync(join(process.argv[2] ?? tmpdir(), 'tar-bench-'));
let count = 0;

type Shape = { readonly name: string; readonly files: number; readonly bytes: number };
const SHAPES: readonly Shape[] = [
  { name: '10,000 × 1 KiB', files: 10_000, bytes: 1024 },
  { name: '1 × 256 MiB', files: 1, bytes: 256 << 20 },
];
const nameOf = (n: number) => `directory${n % 97}/below/file-${n}.txt`;

function* chunks(bytes: Buffer, chunkBytes: number, isBorrowed: boolean): Generator<Buffer> {
  for (let at = 0; at < bytes.length; at += chunkBytes) {
    const chunk = bytes.subarray(at, at + chunkBytes);
    // The agent's link reuses its buffer, and tar-stream keeps what it is given.
    yield isBorrowed ? Buffer.from(chunk) : chunk;
  }
}

function toEntry({ name, type, linkname, mode, mtime, size }: Header): TarEntry {
  const sizeBytes = type === 'file' ? size : 0;
  return {
    ...{ name, mode, sizeBytes, contentBytes: sizeBytes, target: linkname ?? '', mtimeNanos: 0 },
    ...{ type: type as TarEntry['type'], mtimeSeconds: Math.floor(mtime.getTime() / 1000) },
  };
}

async function readByTarStream(parts: Iterable<Buffer>, sink: TarSink): Promise<void> {
  const reader = extract();
  reader.on('entry', (header, body, next) => {
    let position = 0;
    const { uid, gid, devmajor: deviceMajor, devminor: deviceMinor } = header;
    sink.begin(toEntry(header), { uid, gid, deviceMajor, deviceMinor, xattrs: new Map() });
    body.on('data', (bytes) => {
      sink.content(bytes as Buffer, position);
      position += (bytes as Buffer).length;
    });
    body.on('end', () => {
      sink.finish();
      next();
    });
    body.resume();
  });
  const finished = new Promise<void>((resolve) => reader.on('finish', () => resolve()));
  for (const part of parts)
    if (!reader.write(part)) await new Promise<void>((ready) => reader.once('drain', () => ready()));
  reader.end(undefined);
  await finished;
}

async function read(isOurs: boolean, bytes: Buffer, chunkBytes: number, sink: TarSink): Promise<void> {
  const isBorrowed = chunkBytes === FRAME_BYTES;
  if (!isOurs) return readByTarStream(chunks(bytes, chunkBytes, isBorrowed), sink);
  const reader = new TarReader(sink, isBorrowed ? { isForRoot: true } : { hasAttributes: true });
  for (const chunk of chunks(bytes, chunkBytes, false)) reader.push(chunk);
  reader.end();
}

/** Each does the work once and returns what removes its files. */
const PLACES: Readonly<
  Record<string, (isOurs: boolean, shape: Shape, bytes: Buffer) => Promise<(() => void) | undefined>>
> = {
  'upload: extraction in the guest agent': async (isOurs, _shape, bytes) => {
    const directory = join(base, `${count++}`);
    mkdirSync(directory);
    const extractor = new Extractor(Destination.open(directory), false);
    await read(isOurs, bytes, FRAME_BYTES, extractor);
    extractor.close();
    return () => rmSync(directory, { recursive: true });
  },
  'download: the archive of the guest agent': async (isOurs, { files, bytes }) => {
    await (isOurs ? write(files, bytes) : writeByTarStream(files, bytes));
    return undefined;
  },
  'image: layers to EROFS': async (isOurs, _shape, bytes) => {
    const fd = openSync(join(base, 'image'), 'w+');
    const data = new DataWriter(fd);
    const merger = new Merger(data, DEFAULT_CONVERT_LIMITS);
    merger.nextLayer();
    await read(isOurs, bytes, LAYER_CHUNK_BYTES, merger);
    finishImage(fd, data, merger.tree.root);
    closeSync(fd);
    return undefined;
  },
};

const frame = Buffer.alloc(FRAME_BYTES);
/** Content of every file that is packed. */
const contentFd = openSync(join(base, 'content'), 'w+');

async function write(files: number, bytes: number): Promise<void> {
  for (let n = 0; n < files; n++) {
    const attributes = { mode: 0o644, uid: 0, gid: 0, mtimeSeconds: 1e9, target: '', flag: '0' } as const;
    encodeHeader({ ...attributes, name: nameOf(n), sizeBytes: bytes }).copy(frame);
    for (let at = 0; at < bytes; at += FRAME_BYTES)
      readSync(contentFd, frame, 0, Math.min(FRAME_BYTES, bytes - at), at);
  }
  endMark().copy(frame);
}

async function writeByTarStream(files: number, bytes: number): Promise<void> {
  const writer = pack();
  const ended = new Promise<void>((resolve) => writer.on('end', () => resolve()));
  writer.resume();
  for (let n = 0; n < files; n++) {
    const member = writer.entry({ name: nameOf(n), mode: 0o644, mtime: new Date(1e12), size: bytes });
    const closed = new Promise<void>((resolve) => member.on('close', () => resolve()));
    for (let at = 0; at < bytes; at += FRAME_BYTES) {
      const part = Buffer.allocUnsafe(Math.min(FRAME_BYTES, bytes - at));
      readSync(contentFd, part, 0, part.length, at);
      if (!member.write(part)) await new Promise<void>((ready) => member.once('drain', () => ready()));
    }
    member.end(undefined);
    await closed;
  }
  writer.finalize();
  await ended;
}

type Times = { readonly wall: number[]; readonly cpu: number[] };

async function time(times: Times, work: () => Promise<(() => void) | undefined>): Promise<void> {
  const [startedAt, before] = [performance.now(), process.cpuUsage()];
  const remove = await work();
  const { user, system } = process.cpuUsage(before);
  times.wall.push(performance.now() - startedAt);
  times.cpu.push((user + system) / 1000);
  remove?.();
}

const rows: string[][] = [];
for (const shape of SHAPES) {
  const content = Buffer.alloc(shape.bytes, 'x');
  writeSync(contentFd, content);
  const bytes = archive(Array.from({ length: shape.files }, (_, n) => ({ name: nameOf(n), content })));
  for (const [place, work] of Object.entries(PLACES)) {
    const [ours, theirs]: [Times, Times] = [
      { wall: [], cpu: [] },
      { wall: [], cpu: [] },
    ];
    for (let round = 0; round < ROUNDS; round++)
      for (const isOurs of round % 2 === 0 ? [true, false] : [false, true])
        await time(isOurs ? ours : theirs, () => work(isOurs, shape, bytes));
    const cells = (['wall', 'cpu'] as const).flatMap((kind) => {
      const [own, other] = [median(ours[kind]), median(theirs[kind])];
      return [`${own.toFixed(0)} · ${other.toFixed(0)} ms`, (own / other).toFixed(2)];
    });
    rows.push([place, shape.name, ...cells]);
  }
}
closeSync(contentFd);
rmSync(base, { recursive: true });
console.log(markdownTable(['place', 'files', 'time, ours · tar-stream', 'ratio', 'CPU time', 'ratio'], rows));
