// Counts open descriptors, to detect leaks.
import { readdirSync } from 'node:fs';

export function openDescriptors(): number {
  return readdirSync('/proc/self/fd').length;
}
