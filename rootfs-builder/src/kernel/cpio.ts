// Writes cpio archives in the "newc" format, which an initramfs uses.

export type CpioEntry = {
  /** Relative to the root of the initramfs, without a leading slash. */
  path: string;
  /** Type and permission bits, as in stat's st_mode. */
  mode: number;
  content?: Buffer;
  /** Major and minor number of a device node. */
  device?: [major: number, minor: number];
};

export const FILE_TYPE = { directory: 0o040000, file: 0o100000, characterDevice: 0o020000 } as const;

const MAGIC = '070701';
const TRAILER = 'TRAILER!!!';
const HEADER_BYTES = 110;

/** Owner root, time 0, consecutive inode numbers: equal entries produce equal bytes. */
export function writeCpio(entries: CpioEntry[]): Buffer {
  const trailer: CpioEntry = { path: TRAILER, mode: 0 };
  return Buffer.concat([...entries, trailer].flatMap((entry, index) => encodeEntry(entry, index + 1)));
}

function encodeEntry(entry: CpioEntry, inode: number): Buffer[] {
  const name = Buffer.from(`${entry.path}\0`);
  const content = entry.content ?? Buffer.alloc(0);
  const isTrailer = entry.path === TRAILER;
  const links = entry.mode & FILE_TYPE.directory ? 2 : 1;
  const [major, minor] = entry.device ?? [0, 0];
  const fields = [
    isTrailer ? 0 : inode,
    entry.mode,
    0, // uid
    0, // gid
    links,
    0, // mtime
    content.length,
    0, // device of the archive
    0,
    major,
    minor,
    name.length,
    0, // checksum, unused in this format
  ];
  const header = Buffer.from(MAGIC + fields.map((field) => field.toString(16).padStart(8, '0')).join(''));
  return [header, name, padding(HEADER_BYTES + name.length), content, padding(content.length)];
}

function padding(length: number): Buffer {
  return Buffer.alloc((4 - (length % 4)) % 4);
}
