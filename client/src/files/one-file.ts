// Packs one file into a tar archive, because uploads are always archives.
import { createTarPacker } from 'modern-tar';
import type { Bytes } from '../connection/transport.ts';
import { SandboxdError } from '../errors.ts';

/** Splits an absolute path. */
export function splitPath(path: string): { readonly directory: string; readonly name: string } {
  const at = path.lastIndexOf('/');
  const name = path.slice(at + 1);
  if (at < 0 || name === '') throw new TypeError(`${JSON.stringify(path)} is no absolute path of a file`);
  return { directory: path.slice(0, at) || '/', name };
}

export async function* packFile(
  name: string,
  data: string | Uint8Array | Bytes,
  { mode, sizeBytes }: { readonly mode: number; readonly sizeBytes: number | undefined },
): AsyncGenerator<Uint8Array, void> {
  const content = typeof data === 'string' ? new TextEncoder().encode(data) : data;
  const size = content instanceof Uint8Array ? content.length : sizeBytes;
  if (size === undefined)
    throw new TypeError('a stream needs sizeBytes: an archive says first how long a file is');
  const { readable, controller } = createTarPacker();
  const filling = fill(controller.add({ name, size, mode, type: 'file' }), content, { name, size }).then(
    () => controller.finalize(),
    (error: unknown) => controller.error(error),
  );
  const reader = readable.getReader();
  try {
    for (let read = await reader.read(); !read.done; read = await reader.read()) yield read.value;
    await filling;
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

/** SandboxdError when the data has more or fewer bytes than the header states. */
export async function fill(
  file: WritableStream<Uint8Array>,
  data: Uint8Array | Bytes,
  { name, size }: { readonly name: string; readonly size: number },
): Promise<void> {
  const writer = file.getWriter();
  let written = 0;
  for await (const bytes of data instanceof Uint8Array ? [data] : data) {
    written += bytes.length;
    if (written > size) break;
    await writer.write(bytes);
  }
  if (written !== size)
    throw new SandboxdError(
      `${name} has ${written > size ? 'more than' : `only ${written} of`} its ${size} bytes: it changed while it was copied, or its size was wrong`,
    );
  await writer.close();
}
