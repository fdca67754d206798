// Names that hosts share.
import { isLoopback, parseReference } from './reference.ts';

/** Kernel and programs of another machine cannot run it. */
export const MACHINE = process.arch;
const DIGEST = /^sha256:([\da-f]{64})$/;

/** A whole one, of an image: by it no registry is asked. */
export function isDigest(text: string): boolean {
  return DIGEST.test(text);
}

export function idOfDigest(text: string): string | undefined {
  return DIGEST.exec(text)?.[1];
}

/** A registry of the host itself is another one on each. */
export function isShared(ref: string): boolean {
  const reference = parseReference(ref);
  return reference !== undefined && !isLoopback(reference);
}

/** Each machine has its own image of a name. */
export function toName(ref: string): string {
  return `${MACHINE} ${ref}`;
}

/** Undefined: a name of another machine. */
export function refOfName(name: string): string | undefined {
  return name.startsWith(`${MACHINE} `) ? name.slice(MACHINE.length + 1) : undefined;
}
