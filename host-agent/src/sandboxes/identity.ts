// What makes a guest this sandbox and no other: sent to its agent before anyone can reach it.
import { randomBytes } from 'node:crypto';
import type { IdentityInput } from '@sandboxd/proto';
import { nowUs } from '../guest/clock.ts';

const ENTROPY_BYTES = 64;

export function makeIdentity(sandboxId: string): IdentityInput {
  return {
    sandboxId,
    hostname: sandboxId.replaceAll('_', '-'),
    machineId: randomBytes(16).toString('hex'),
    entropy: randomBytes(ENTROPY_BYTES),
    unixTimeUs: nowUs(),
  };
}
