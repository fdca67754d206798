// The identity of a sandbox (names, machine id, entropy, time, addresses), sent to the agent before any client can
// reach the guest.
import { randomBytes } from 'node:crypto';
import type { IdentityInput, NetworkInput } from '@sandboxd/proto';
import { nowUs } from '../guest/clock.ts';
import type { NetworkSlot } from '../network/slot.ts';

const ENTROPY_BYTES = 64;

/** Without `network` the guest has only the loopback interface. */
export function makeIdentity(sandboxId: string, network?: NetworkSlot): IdentityInput {
  return {
    sandboxId,
    hostname: sandboxId.replaceAll('_', '-'),
    machineId: randomBytes(16).toString('hex'),
    entropy: randomBytes(ENTROPY_BYTES),
    unixTimeUs: nowUs(),
    ...(network !== undefined && { network: networkOf(network) }),
  };
}

function networkOf({ mac, gatewayMac, guestIp, gateway, prefixLength }: NetworkSlot): NetworkInput {
  return { mac, gatewayMac, address: guestIp, prefixLength, gateway, dns: gateway };
}
