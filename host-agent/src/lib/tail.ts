// The last lines of a text file, for error messages.
import { openRegular } from './untrusted-path.ts';

/** The last `maxLines` lines within the last `maxBytes`, without control characters; '' if it is not a regular file. */
export async function tailFile(path: string, maxLines: number, maxBytes = 16_384): Promise<string> {
  let text: string;
  try {
    await using file = await openRegular(path);
    const { size } = await file.stat();
    const length = Math.min(size, maxBytes);
    const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, size - length);
    text = buffer.toString('utf8', 0, bytesRead);
  } catch {
    return '';
  }
  // biome-ignore lint/suspicious/noControlCharactersInRegex: a guest's console may hold any; terminals show the text
  const clean = text.replace(/\x1b\[[0-9;?]*[A-Za-z]/g, '').replace(/[\x00-\x08\x0b-\x1f\x7f]/g, '');
  return clean.trimEnd().split('\n').slice(-maxLines).join('\n');
}
