// What a process that leaks would have more and more of.
import { readdirSync } from 'node:fs';

export function openDescriptors(): number {
  return readdirSync('/proc/self/fd').length;
}
