// What a sandbox takes of the host, as the host counts it.
import { z } from 'zod';
import { count, dateTime } from './answers.ts';
import { sandboxId } from './id.ts';

export const sandboxStats = z
  .object({
    id: sandboxId,
    read_at: dateTime('when the numbers were read'),
    vcpus: z.int().min(1).describe('virtual CPUs'),
    cpu_us: count('CPU time of the VMM and its guest so far, microseconds'),
    cpu_percent: z
      .number()
      .min(0)
      .describe('CPU time since the reading before, per cent of one CPU; absent in the first of a stream')
      .optional(),
    memory_limit_bytes: count('memory that the guest has'),
    resident_bytes: count('memory of the VMM that is present, what it shares with other copies included'),
    private_bytes: count('of that, what no other has'),
    disk_limit_bytes: count('size of the writable layer'),
    layer_bytes: count('space that the writable layer takes'),
    read_bytes: count('bytes that storage was read so far'),
    written_bytes: count('bytes that storage was written so far'),
    network: z
      .object({
        received_bytes: count('bytes that came to the guest'),
        received_packets: count('packets that came to it'),
        sent_bytes: count('bytes that the guest sent'),
        sent_packets: count('packets that it sent'),
      })
      .describe('absent: the sandbox has no network')
      .optional(),
  })
  .describe('what a sandbox takes of the host');
