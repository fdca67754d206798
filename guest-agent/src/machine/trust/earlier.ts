// Authorities of other sandboxes in a bundle: this one was forked from them, or imported.
import { readSmall } from './files.ts';

export const BEGIN = '-----BEGIN ';
/** Before each authority that is added to a bundle. */
export const MARK = '# sandboxd signs the inspected TLS connections of this sandbox with this certificate:\n';
const CERTIFICATE = /^-----BEGIN CERTIFICATE-----\n[A-Za-z0-9+/=\n]+\n-----END CERTIFICATE-----\n/;
const MAX_CERTIFICATE_BYTES = 8192;

/** The first authority of these files that is not `certificate`. */
export function readEarlier(paths: readonly string[], certificate: string): string | undefined {
  for (const path of paths) {
    try {
      const found = readSmall(path, MAX_CERTIFICATE_BYTES)?.toString();
      if (found?.startsWith(BEGIN) && found !== certificate) return found;
    } catch {
      // Reported when it is to be written.
    }
  }
  return undefined;
}

/** `earlier`: goes without our mark, too, as programs of an image make a bundle again without it. */
export function withoutEarlier(bundle: Buffer, earlier: string | undefined): Buffer {
  const unmarked =
    earlier === undefined ? bundle : removeEach(bundle, earlier, () => Buffer.byteLength(earlier));
  return removeEach(unmarked, MARK, (rest) => {
    const text = rest.toString('latin1', MARK.length, MARK.length + MAX_CERTIFICATE_BYTES);
    return MARK.length + (CERTIFICATE.exec(text)?.[0].length ?? 0);
  });
}

/** `lengthOf`: of what goes with `part`, at the beginning of the bytes that it is given. */
function removeEach(bytes: Buffer, part: string, lengthOf: (rest: Buffer) => number): Buffer {
  const kept: Buffer[] = [];
  let from = 0;
  for (let at = bytes.indexOf(part); at >= 0; at = bytes.indexOf(part, from)) {
    kept.push(bytes.subarray(from, at));
    from = at + lengthOf(bytes.subarray(at));
  }
  return Buffer.concat([...kept, bytes.subarray(from)]);
}
