// Random text from the kernel: loading node:crypto takes time at start, and a copy of a guest would repeat the
// generator's output.
import { readFileSync } from 'node:fs';

/** 16 random hexadecimal digits. */
export function randomHex(): string {
  return readFileSync('/proc/sys/kernel/random/uuid', 'latin1').replaceAll('-', '').slice(0, 16);
}
