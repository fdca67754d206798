// A disk that remembers every write and flush in their order, so that the states in which a power cut could have left it
// can be made afterwards. It is served by the NBD protocol (github.com/NetworkBlockDevice/nbd, doc/proto.md).
import { closeSync, fstatSync, openSync, readSync, rmSync, writeSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

/** Bytes that a disk writes whole or not at all. */
const PIECE = 4096;

export interface Disk {
  readonly size: number;
  read(offset: number, length: number): Buffer;
  write(offset: number, bytes: Buffer): void;
  flush(): Promise<void>;
}

type Step =
  | { readonly kind: 'write'; readonly offset: number; readonly length: number; readonly at: number }
  /** All before `covers` was on the disk when this was answered. */
  | { readonly kind: 'flush'; readonly covers: number };

/** Has its content in `path`, and what was written since it was opened in `<path>.log`. */
export class RecordedDisk implements Disk {
  readonly size: number;
  readonly #image: number;
  readonly #log: number;
  readonly #steps: Step[] = [];
  readonly #position: Int32Array;
  #logged = 0;
  #isRecording = true;

  /** `position[0]` is how many steps there are: a moment at which the power can be cut. */
  constructor(path: string, position: Int32Array) {
    this.#position = position;
    this.#image = openSync(path, 'r+');
    this.#log = openSync(`${path}.log`, 'w+');
    rmSync(`${path}.log`);
    this.size = fstatSync(this.#image).size;
  }

  read(offset: number, length: number): Buffer {
    return readAll(this.#image, offset, length);
  }

  write(offset: number, bytes: Buffer): void {
    writeAll(this.#image, bytes, offset);
    if (!this.#isRecording) return;
    writeAll(this.#log, bytes, this.#logged);
    this.#record({ kind: 'write', offset, length: bytes.length, at: this.#logged });
    this.#logged += bytes.length;
  }

  /** Slow, so that a response that does not wait for it comes before it. */
  async flush(): Promise<void> {
    const covers = this.#steps.length;
    await sleep(10);
    if (this.#isRecording) this.#record({ kind: 'flush', covers });
  }

  #record(step: Step): void {
    Atomics.store(this.#position, 0, this.#steps.push(step));
  }

  stopRecording(): void {
    this.#isRecording = false;
  }

  step(index: number): Step | undefined {
    return this.#steps[index];
  }

  bytesOf({ length, at }: Extract<Step, { kind: 'write' }>): Buffer {
    return readAll(this.#log, at, length);
  }

  close(): void {
    for (const descriptor of [this.#image, this.#log]) closeSync(descriptor);
  }
}

/** Makes the states of a recorded disk after power cuts, from its first state on, which is in `path`. */
export class PowerCuts {
  readonly #disk: RecordedDisk;
  readonly #base: number;
  readonly #random: () => number;
  #durable = 0;

  constructor(disk: RecordedDisk, path: string, random: () => number) {
    this.#disk = disk;
    this.#base = openSync(path, 'r+');
    this.#random = random;
  }

  /** Positions must ascend. What was flushed is there; of the rest, nothing, all, or some pieces. */
  at(position: number): { readonly disk: Disk; readonly unflushed: number; readonly kept: number } {
    let durable = this.#durable;
    for (let index = durable; index < position; index++) {
      const step = this.#disk.step(index);
      if (step?.kind === 'flush') durable = Math.max(durable, step.covers);
    }
    for (; this.#durable < durable; this.#durable++) {
      const step = this.#disk.step(this.#durable);
      if (step?.kind === 'write') writeAll(this.#base, this.#disk.bytesOf(step), step.offset);
    }
    const disk = new ChangedDisk(this.#base);
    const chance = [0, 0.5, 1][Math.floor(this.#random() * 3)] ?? 0;
    let [unflushed, kept] = [0, 0];
    for (let index = durable; index < position; index++) {
      const step = this.#disk.step(index);
      if (step?.kind !== 'write') continue;
      const bytes = this.#disk.bytesOf(step);
      for (let from = 0; from < bytes.length; from += PIECE) {
        unflushed++;
        if (this.#random() >= chance) continue;
        disk.write(step.offset + from, bytes.subarray(from, from + PIECE));
        kept++;
      }
    }
    return { disk, unflushed, kept };
  }

  close(): void {
    closeSync(this.#base);
  }
}

/** Another one with changes, which are kept in memory. */
class ChangedDisk implements Disk {
  readonly size: number;
  readonly #base: number;
  readonly #pieces = new Map<number, Buffer>();

  constructor(base: number) {
    this.#base = base;
    this.size = fstatSync(base).size;
  }

  read(offset: number, length: number): Buffer {
    const bytes = readAll(this.#base, offset, length);
    for (let start = offset - (offset % PIECE); start < offset + length; start += PIECE) {
      const [from, to] = [Math.max(start, offset), Math.min(start + PIECE, offset + length)];
      this.#pieces.get(start)?.copy(bytes, from - offset, from - start, to - start);
    }
    return bytes;
  }

  write(offset: number, bytes: Buffer): void {
    for (let start = offset - (offset % PIECE); start < offset + bytes.length; start += PIECE) {
      const [from, to] = [Math.max(start, offset), Math.min(start + PIECE, offset + bytes.length)];
      const piece = this.#pieces.get(start) ?? readAll(this.#base, start, PIECE);
      bytes.copy(piece, from - start, from - offset, to - offset);
      this.#pieces.set(start, piece);
    }
  }

  flush(): Promise<void> {
    return Promise.resolve();
  }
}

function readAll(descriptor: number, offset: number, length: number): Buffer {
  const bytes = Buffer.alloc(length);
  for (let done = 0; done < length; ) {
    const count = readSync(descriptor, bytes, done, length - done, offset + done);
    if (count === 0) break;
    done += count;
  }
  return bytes;
}

function writeAll(descriptor: number, bytes: Buffer, offset: number): void {
  for (let done = 0; done < bytes.length; )
    done += writeSync(descriptor, bytes, done, bytes.length - done, offset + done);
}

const OPTION = { exportName: 1, abort: 2, info: 6, go: 7 } as const;
const COMMAND = { read: 0, write: 1, disconnect: 2, flush: 3 } as const;
const CAN_FLUSH = 1 | 4;
const INVALID = 22;

/** Serves a disk on a socket until the server is closed. */
export async function serveDisk(disk: Disk, socketPath: string): Promise<Server> {
  const server = createServer((socket) => {
    socket.on('error', () => socket.destroy());
    void new Session(disk, socket).run().catch(() => socket.destroy());
  });
  await new Promise<void>((resolve) => server.listen(socketPath, resolve));
  return server;
}

class Session {
  readonly #disk: Disk;
  readonly #socket: Socket;
  readonly #chunks: AsyncIterator<Buffer>;
  #pending: Buffer = Buffer.alloc(0);

  constructor(disk: Disk, socket: Socket) {
    this.#disk = disk;
    this.#socket = socket;
    this.#chunks = socket[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
  }

  async run(): Promise<void> {
    this.#socket.write(Buffer.concat([Buffer.from('NBDMAGICIHAVEOPT'), u16(3)]));
    const hasZeroes = ((await this.#take(4)).readUInt32BE() & 2) === 0;
    if (!(await this.#negotiate(hasZeroes))) return void this.#socket.end();
    while (await this.#serve());
    this.#socket.end();
  }

  async #negotiate(hasZeroes: boolean): Promise<boolean> {
    for (;;) {
      const header = await this.#take(16);
      const option = header.readUInt32BE(8);
      await this.#take(header.readUInt32BE(12));
      const reply = (type: number, data = Buffer.alloc(0)): void => {
        const magic = Buffer.from('0003e889045565a9', 'hex');
        this.#socket.write(Buffer.concat([magic, u32(option), u32(type), u32(data.length), data]));
      };
      const about = Buffer.concat([u64(this.#disk.size), u16(CAN_FLUSH)]);
      if (option === OPTION.exportName) {
        this.#socket.write(Buffer.concat([about, Buffer.alloc(hasZeroes ? 124 : 0)]));
        return true;
      }
      if (option === OPTION.go || option === OPTION.info) {
        reply(3, Buffer.concat([u16(0), about]));
        reply(1);
        if (option === OPTION.go) return true;
      } else if (option === OPTION.abort) {
        reply(1);
        return false;
      } else reply(0x80000001);
    }
  }

  async #serve(): Promise<boolean> {
    const header = await this.#take(28);
    const type = header.readUInt16BE(6);
    const handle = header.subarray(8, 16);
    const [offset, length] = [Number(header.readBigUInt64BE(16)), header.readUInt32BE(24)];
    const reply = (error: number, data: Buffer = Buffer.alloc(0)): void => {
      this.#socket.write(Buffer.concat([u32(0x67446698), u32(error), handle, data]));
    };
    if (type === COMMAND.disconnect) return false;
    if (type === COMMAND.write) {
      this.#disk.write(offset, await this.#take(length));
      reply(0);
    } else if (type === COMMAND.read) reply(0, this.#disk.read(offset, length));
    else if (type === COMMAND.flush) void this.#disk.flush().then(() => reply(0));
    else reply(INVALID);
    return true;
  }

  async #take(length: number): Promise<Buffer> {
    const parts = [this.#pending];
    let count = this.#pending.length;
    while (count < length) {
      const { value, done } = await this.#chunks.next();
      if (done === true) throw new Error('the client left');
      parts.push(value);
      count += value.length;
    }
    const all = parts.length === 1 ? this.#pending : Buffer.concat(parts);
    this.#pending = all.subarray(length);
    return all.subarray(0, length);
  }
}

function u16(value: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeUInt16BE(value);
  return bytes;
}

function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

function u64(value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64BE(BigInt(value));
  return bytes;
}
