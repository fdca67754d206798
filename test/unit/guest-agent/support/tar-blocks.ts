// Hand-made tar archives, valid and invalid.
import { paddingAfter, type TarEntry, TarReader } from '@sandboxd/proto';

export type Member = {
  readonly name: string;
  readonly flag?: string;
  readonly target?: string;
  readonly mode?: number;
  readonly mtime?: number;
  readonly content?: Buffer | string;
  /** Value of the size field instead of the content's length. */
  readonly sizeField?: string;
  /** Further changes to the header. */
  readonly patch?: (header: Buffer) => void;
};

export function block(member: Member): Buffer {
  const header = Buffer.alloc(512);
  const size = Buffer.byteLength(member.content ?? '');
  const octal = (value: number, digits: number): string => value.toString(8).padStart(digits, '0');
  header.write(member.name.slice(0, 100), 0, 'latin1');
  header.write(octal(member.mode ?? 0o644, 7), 100);
  header.write(octal(0, 7), 108);
  header.write(octal(0, 7), 116);
  header.write(member.sizeField ?? octal(size, 11), 124, 'latin1');
  header.write(octal(member.mtime ?? 1_000_000_000, 11), 136);
  header.write(member.flag ?? '0', 156);
  header.write((member.target ?? '').slice(0, 100), 157, 'latin1');
  header.write('ustar\x0000', 257, 'latin1');
  member.patch?.(header);
  return withChecksum(header);
}

export function withChecksum(header: Buffer): Buffer {
  header.write('        ', 148);
  const sum = header.reduce((total, byte) => total + byte, 0);
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1');
  return header;
}

/** The members, and by default the end mark. */
export function archive(members: readonly Member[], { isWhole = true } = {}): Buffer {
  const parts = members.flatMap((member) => {
    const content = Buffer.from(member.content ?? '');
    return [block(member), content, Buffer.alloc(paddingAfter(content.length))];
  });
  if (isWhole) parts.push(Buffer.alloc(1024));
  return Buffer.concat(parts);
}

export function pax(records: Readonly<Record<string, string>>, flag = 'x'): Member {
  let content = '';
  for (const [key, value] of Object.entries(records)) {
    const rest = Buffer.byteLength(` ${key}=${value}\n`);
    let length = rest + 1;
    while (String(length).length + rest !== length) length = String(length).length + rest;
    content += `${length} ${key}=${value}\n`;
  }
  return { name: 'PaxHeader', flag, content };
}

type ReadEntry = TarEntry & { readonly content: string };

/** The reader's output for an archive in chunks. Holes are zeros. */
export function readArchive(bytes: Buffer, pieceBytes: () => number = () => 65_536): ReadEntry[] {
  const entries: ReadEntry[] = [];
  let entry: TarEntry | undefined;
  let content: Buffer = Buffer.alloc(0);
  const reader = new TarReader({
    begin: (next) => {
      entry = next;
      content = Buffer.alloc(next.sizeBytes);
    },
    content: (piece, position) => void piece.copy(content, position),
    finish: () => {
      if (entry !== undefined) entries.push({ ...entry, content: content.toString('latin1') });
    },
  });
  for (let at = 0; at < bytes.length; ) {
    const piece = Buffer.from(bytes.subarray(at, at + pieceBytes()));
    reader.push(piece);
    at += piece.length;
    // The reader must not retain the borrowed buffer.
    piece.fill(0xaa);
  }
  reader.end();
  return entries;
}
