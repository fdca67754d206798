// A directory or one file as a tar archive, produced frame by frame as the host grants credit: memory is one frame.

import {
  AGENT_DIR,
  AgentError,
  type DirPull,
  FLOW,
  MAX_DATA_BYTES,
  paddingAfter,
  type Stream,
  showName,
} from '@sandboxd/proto';
import { findModules } from '../boot/modules.ts';
import { addon } from '../native/addon.ts';
import { fileError, readError } from './errors.ts';
import { toPathBytes } from './guest-path.ts';
import { isDirectory, newStatus, SPECIAL, specialKind } from './status.ts';
import { encodeHeader, endMark } from './tar/writer.ts';
import { type Members, onlyFile, Walk } from './walk.ts';

const FRAME_BYTES = MAX_DATA_BYTES - 32;

/** Shared by all pulls: the link has copied the bytes before a stream asks for more. */
const frame = Buffer.allocUnsafeSlow(FRAME_BYTES);

/** Throws AgentError when the directory or file does not exist. */
export function startDirectoryPull(stream: Stream, { path }: DirPull): void {
  const status = newStatus();
  const name = toPathBytes(path);
  const fd = addon.openFile(name, status);
  if (fd === SPECIAL)
    throw new AgentError(
      'invalid',
      `${showName(name)} is ${specialKind(status)}; only directories and regular files can be read`,
    );
  if (fd < 0) throw fileError(fd, name);
  if (!isDirectory(status)) {
    const own = name.slice(name.lastIndexOf('/') + 1);
    new DirectoryPull(stream, onlyFile(fd, status, own));
    return;
  }
  const isRoot = /^[/.]*$/.test(name);
  new DirectoryPull(stream, new Walk(fd, status, new Set(isRoot ? agentPaths() : [])));
}

/** The agent's own files and mounts are not part of the sandbox's content. */
function agentPaths(): string[] {
  return [AGENT_DIR, findModules()].flatMap((path) => (path === undefined ? [] : [path.slice(1)]));
}

class DirectoryPull {
  readonly #stream: Stream;
  readonly #members: Members;
  /** Header or end mark that still has to be sent. */
  #block: Buffer = Buffer.alloc(0);
  #file: { readonly fd: number; readonly name: string } | undefined;
  #contentBytes = 0;
  #paddingBytes = 0;
  #hasEnded = false;
  #isOver = false;

  constructor(stream: Stream, members: Members) {
    this.#stream = stream;
    this.#members = members;
    stream.setSource(FLOW.out, (limit) => this.#take(limit));
    stream.handlers = {
      cancel: () => {
        this.#close();
        stream.finish({ error: { code: 'cancelled', message: 'the pull was cancelled' } });
      },
      lost: () => this.#close(),
    };
    stream.opened({});
    stream.ready(FLOW.out);
  }

  #take(limit: number): Uint8Array | null {
    if (this.#isOver) return null;
    try {
      const filled = this.#fill(Math.min(limit, FRAME_BYTES));
      if (filled > 0) return frame.subarray(0, filled);
      this.#close();
      this.#stream.finish({ dirPull: { leftOut: this.#members.leftOut } });
      return null;
    } catch (error) {
      this.#close();
      throw error;
    }
  }

  /** Puts the next bytes of the archive into the frame. Returns the byte count. */
  #fill(frameBytes: number): number {
    let at = 0;
    while (at < frameBytes) {
      if (this.#block.length > 0) at += this.#takeBlock(at, frameBytes);
      else if (this.#contentBytes > 0) at += this.#takeContent(at, frameBytes);
      else if (this.#paddingBytes > 0) at += this.#takePadding(at, frameBytes);
      else if (!this.#beginNext()) break;
    }
    return at;
  }

  #beginNext(): boolean {
    if (this.#hasEnded) return false;
    const found = this.#members.next();
    if (found === undefined) {
      this.#hasEnded = true;
      this.#block = endMark();
      return true;
    }
    const { member, fd } = found;
    this.#block = encodeHeader(member);
    this.#file = fd === undefined ? undefined : { fd, name: member.name };
    this.#contentBytes = fd === undefined ? 0 : member.sizeBytes;
    this.#paddingBytes = paddingAfter(this.#contentBytes);
    return true;
  }

  #takeBlock(at: number, frameBytes: number): number {
    const bytes = this.#block.copy(frame, at, 0, frameBytes - at);
    this.#block = this.#block.subarray(bytes);
    return bytes;
  }

  #takeContent(at: number, frameBytes: number): number {
    const maxBytes = Math.min(this.#contentBytes, frameBytes - at);
    let got = this.#read(at, maxBytes);
    // A file that became shorter is padded with zeros, as in tar, because its header was sent already.
    if (got <= 0) {
      frame.fill(0, at, at + maxBytes);
      got = maxBytes;
    }
    this.#contentBytes -= got;
    if (this.#contentBytes === 0) this.#closeFile();
    return got;
  }

  #read(at: number, lengthBytes: number): number {
    if (this.#file === undefined) return 0;
    try {
      return addon.read(this.#file.fd, frame, at, lengthBytes);
    } catch (error) {
      throw readError(error, this.#file.name);
    }
  }

  #takePadding(at: number, frameBytes: number): number {
    const bytes = Math.min(this.#paddingBytes, frameBytes - at);
    frame.fill(0, at, at + bytes);
    this.#paddingBytes -= bytes;
    return bytes;
  }

  #closeFile(): void {
    if (this.#file !== undefined) addon.close(this.#file.fd);
    this.#file = undefined;
  }

  #close(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#closeFile();
    this.#members.close();
  }
}
