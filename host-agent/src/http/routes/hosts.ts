// This host, as the only one of its list; a gateway joins those of all hosts.
import { cpus, hostname } from 'node:os';
import { tenantOf } from '../../keys/index.ts';
import { AppError } from '../../lib/errors.ts';
import { VERSION } from '../../lib/version.ts';
import type { SandboxInfo } from '../../sandboxes/types.ts';
import type { Handlers } from '../serve-routes.ts';
import type { HttpServices } from '../services.ts';

const MIB = 2 ** 20;
/** Their guests have memory of the host. */
const RUNNING: readonly SandboxInfo['state'][] = ['running', 'pausing', 'resuming'];

export function hostHandlers({ sandboxes, limits, engine, readCapacity }: HttpServices) {
  return {
    listHosts: async (_, c) => {
      const principal = c.get('principal');
      const tenant = tenantOf(principal);
      if (tenant !== undefined) {
        const message = `hosts are of all tenants together, so a key of tenant ${tenant} sees none; use a key without a tenant`;
        throw new AppError('forbidden', message);
      }
      const capacity = await readCapacity();
      const all = sandboxes.as(principal).list();
      const running = all.filter(({ state }) => RUNNING.includes(state));
      const { state, name } = engine();
      const host = {
        name: hostname(),
        state: 'ready' as const,
        version: VERSION,
        started_at: new Date(performance.timeOrigin).toISOString(),
        engine: state,
        ...(name !== '' && { engine_name: name }),
        cpus: limits.hostCpus ?? cpus().length,
        memory_bytes: capacity.memoryTotalBytes,
        memory_available_bytes: capacity.memoryAvailableBytes,
        disk_free_bytes: capacity.diskFreeBytes,
        memory_promised_bytes: running.reduce((sum, { memoryMib }) => sum + memoryMib * MIB, 0),
        sandboxes: all.length,
        max_sandboxes: limits.sandboxes,
      };
      return { hosts: [host] };
    },
  } satisfies Partial<Handlers>;
}
