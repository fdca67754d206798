// Resource usage of a sandbox, measured on the host.
import { z } from 'zod';
import { count, dateTime } from './answers.ts';
import { sandboxId } from './id.ts';

export const sandboxStats = z
  .object({
    id: sandboxId,
    read_at: dateTime('time of the sample'),
    vcpus: z.int().min(1).describe('virtual CPUs'),
    cpu_us: count('total CPU time of the VMM and its guest, microseconds'),
    cpu_percent: z
      .number()
      .min(0)
      .describe(
        'CPU usage since the previous sample, percent of one CPU; absent in the first sample of a stream',
      )
      .optional(),
    memory_limit_bytes: count('memory of the guest, bytes'),
    resident_bytes: count('resident memory of the VMM, including pages that it shares with other VMMs'),
    private_bytes: count('resident memory that the VMM does not share'),
    disk_limit_bytes: count('size of the writable layer, bytes'),
    layer_bytes: count('disk space that the writable layer uses, bytes'),
    read_bytes: count('total bytes read from storage'),
    written_bytes: count('total bytes written to storage'),
    network: z
      .object({
        received_bytes: count('bytes that the guest received'),
        received_packets: count('packets that the guest received'),
        sent_bytes: count('bytes that the guest sent'),
        sent_packets: count('packets that the guest sent'),
      })
      .describe('network traffic; absent if the sandbox has no network')
      .optional(),
  })
  .describe('resource usage of a sandbox');
