// Extracts an OCI layout from an archive without skopeo, which would follow the archive's symbolic links out of its
// directory, into the blobs of all images (tar slip).
import { mkdir, open } from 'node:fs/promises';
import { join } from 'node:path';
import { ArchiveError, type ArchiveHeader } from '@sandboxd/api/archive';
import { plainName, useArchive } from './archive.ts';

/** The only files of a layout that are extracted. */
const LAYOUT_FILE = /^(?:oci-layout|index\.json|blobs\/sha256\/[\da-f]{64})$/;
const MAX_FILES = 10_000;

/**
 * Extracts into the new directory `dir`; of two files with one name the later one wins. AppError invalid_argument for a
 * damaged archive.
 */
export async function unpackLayout(path: string, dir: string, signal?: AbortSignal): Promise<void> {
  await mkdir(join(dir, 'blobs/sha256'), { recursive: true, mode: 0o700 });
  await useArchive(path, signal, async (members) => {
    let files = 0;
    for await (const member of members) {
      const name = plainName(member);
      if (!LAYOUT_FILE.test(name)) continue;
      if (!isPlainFile(member.header))
        throw new ArchiveError(`${JSON.stringify(name)} is no plain file, and all of an OCI layout are`);
      files += 1;
      if (files > MAX_FILES) throw new ArchiveError(`it has more than ${MAX_FILES} blobs`);
      await using file = await open(join(dir, name), 'w', 0o600);
      for await (const bytes of member.body) await file.writeFile(bytes);
    }
  });
}

/** False for the sparse files of GNU tar, whose content is not the file. */
function isPlainFile({ type, pax }: ArchiveHeader): boolean {
  const isFile = type === 'file' || type === 'contiguous-file';
  return isFile && !Object.keys(pax ?? {}).some((key) => key.startsWith('GNU.sparse.'));
}
