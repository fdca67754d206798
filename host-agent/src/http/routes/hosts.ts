// This host, as the only one of its list; a gateway joins those of all hosts.
import { cpus, hostname } from 'node:os';
import { tenantOf } from '../../keys/index.ts';
import { AppError } from '../../lib/errors.ts';
import { VERSION } from '../../lib/version.ts';
import type { DrainProgress } from '../../sandboxes/moves/index.ts';
import type { SandboxInfo } from '../../sandboxes/types.ts';
import type { Handlers } from '../serve-routes.ts';
import type { HttpServices } from '../services.ts';

const MIB = 2 ** 20;
/** Their guests have memory of the host. */
const RUNNING: readonly SandboxInfo['state'][] = ['running', 'pausing', 'resuming'];

export function hostHandlers({ sandboxes, limits, engine, readCapacity, readDrain }: HttpServices) {
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
      const drain = toDrain(readDrain());
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
        ...(drain && { drain }),
      };
      return { hosts: [host] };
    },
  } satisfies Partial<Handlers>;
}

function toDrain({ state, since = '', moved, secondsLeft, sandboxes }: DrainProgress) {
  if (state === 'off') return undefined;
  const count = (which: DrainProgress['sandboxes'][number]['state']): number =>
    sandboxes.filter((each) => each.state === which).length;
  const [offered, stays] = [count('offered'), count('stays')];
  return {
    ...{ state, since, moved, offered, stays, left: sandboxes.length - offered - stays },
    ...(secondsLeft !== undefined && { seconds_left: secondsLeft }),
  };
}
