// The subset of ELF that a kernel and its modules need: section contents and notes, little-endian 64 bit only.

const ELF_MAGIC = 0x464c457f;
const NOTE_SEGMENT = 4;
/** Xen's "physical 32-bit entry" note. With it, a VMM starts the kernel directly (PVH), without a boot loader. */
const PVH_NOTE_TYPE = 18;

export function isElf(file: Buffer): boolean {
  return file.length >= 64 && file.readUInt32LE(0) === ELF_MAGIC && file[4] === 2 && file[5] === 1;
}

/** The content of the first section with that name; undefined when there is no such section. */
export function findSection(file: Buffer, name: string): Buffer | undefined {
  if (!isElf(file)) return undefined;
  const headersAt = Number(file.readBigUInt64LE(0x28));
  const headerSize = file.readUInt16LE(0x3a);
  const count = file.readUInt16LE(0x3c);
  const section = (index: number) => {
    const at = headersAt + index * headerSize;
    const offset = Number(file.readBigUInt64LE(at + 0x18));
    return {
      nameAt: file.readUInt32LE(at),
      body: file.subarray(offset, offset + Number(file.readBigUInt64LE(at + 0x20))),
    };
  };
  const names = section(file.readUInt16LE(0x3e)).body;
  for (let index = 0; index < count; index += 1) {
    const { nameAt, body } = section(index);
    if (names.toString('latin1', nameAt, names.indexOf(0, nameAt)) === name) return body;
  }
  return undefined;
}

export function hasPvhNote(file: Buffer): boolean {
  if (!isElf(file)) return false;
  const headersAt = Number(file.readBigUInt64LE(0x20));
  const headerSize = file.readUInt16LE(0x36);
  const count = file.readUInt16LE(0x38);
  for (let index = 0; index < count; index += 1) {
    const at = headersAt + index * headerSize;
    if (file.readUInt32LE(at) !== NOTE_SEGMENT) continue;
    const offset = Number(file.readBigUInt64LE(at + 0x08));
    if (notesContainPvh(file.subarray(offset, offset + Number(file.readBigUInt64LE(at + 0x20))))) return true;
  }
  return false;
}

function notesContainPvh(notes: Buffer): boolean {
  let at = 0;
  while (at + 12 <= notes.length) {
    const nameSize = notes.readUInt32LE(at);
    const bodySize = notes.readUInt32LE(at + 4);
    const isXen = notes.toString('latin1', at + 12, at + 12 + nameSize) === 'Xen\0';
    if (isXen && notes.readUInt32LE(at + 8) === PVH_NOTE_TYPE) return true;
    at += 12 + align4(nameSize) + align4(bodySize);
  }
  return false;
}

function align4(size: number): number {
  return (size + 3) & ~3;
}
