import type { FileHandle } from 'node:fs/promises';

/** A write may take only a part, as where the disk is almost full: the next one then says why. */
export async function writeFully(file: FileHandle, from: Buffer, position: number): Promise<void> {
  for (let done = 0; done < from.length; )
    done += (await file.write(from, done, from.length - done, position + done)).bytesWritten;
}
