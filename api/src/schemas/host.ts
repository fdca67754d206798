// Hosts of a fleet, or the one of a daemon alone.
import { z } from 'zod';
import { count, dateTime, word } from './answers.ts';
import { engineState } from './meta.ts';

export const HOST_STATES = ['ready', 'not-ready', 'unreachable'] as const;

const drain = z
  .object({
    state: z
      .enum(['draining', 'drained'])
      .describe('drained: nothing is left to send; what is offered goes on when another host takes it'),
    since: dateTime('when it began'),
    moved: count('sandboxes that other hosts have by now, since its daemon started'),
    offered: count('in the snapshot store, and no other host has them yet'),
    left: count('not sent yet'),
    stays: count('that cannot leave, such as those whose VM has ended'),
    seconds_left: count(
      'until the rest is offered, by the pace until now; absent before the first',
    ).optional(),
  })
  .describe('how far the host is that is being emptied; absent while it is not, and from earlier versions');

export const host = z
  .object({
    name: word('name of the host in its fleet; of a daemon alone, the name of its machine'),
    state: z
      .enum(HOST_STATES)
      .describe(
        'not-ready: it answers, but the engine of the fleet does not hear from it and places nothing there; unreachable: ' +
          'it does not answer, so that only name and places are known',
      ),
    reason: word('for unreachable: why').optional(),
    version: word('version of its daemon').optional(),
    started_at: dateTime('when its daemon began').optional(),
    engine: engineState.optional(),
    engine_name: word('engine (VMM) that it has chosen; absent: none').optional(),
    cpus: count('CPUs of the machine').optional(),
    memory_bytes: count('memory of the machine').optional(),
    memory_available_bytes: count('memory that the machine could give to programs now').optional(),
    disk_free_bytes: count('free space of its data directory').optional(),
    memory_promised_bytes: count('memory of the guests of its running sandboxes').optional(),
    sandboxes: count('its sandboxes, paused ones included').optional(),
    max_sandboxes: count('how many it may have').optional(),
    places: count('at the gateway of a fleet: sandboxes that have their place there').optional(),
    drain: drain.optional(),
  })
  .describe('a host');

export const hostList = z.object({ hosts: z.array(host).describe('by name') }).describe('the hosts');
