// Daemons over one bucket whose sandboxes move.
import { eventually, type prepareHosts } from './store-hosts.ts';

export type Hosts = Awaited<ReturnType<typeof prepareHosts>>;
export type Host = Awaited<ReturnType<Hosts['start']>>;
type Sandbox = { id: string; state: string; name?: string; labels?: object };

export async function create(host: Host, options: object = {}): Promise<string> {
  const { id } = await host.manager.create({ name: 'worker', labels: { team: 'a' }, ...options });
  const request = { cmd: ['note', 'where', 'there'], env: {}, cwd: '', timeout_s: 0 } as never;
  await new Promise((exit) => host.manager.get(id).exec(request, { output: () => undefined, exit }));
  return id;
}

export const progressOf = (host: Host) => host.manager.moves.drain.progress();
export const resume = (host: Host, id: string) => host.ask<Sandbox>('POST', `/sandboxes/${id}/resume`);
export const drained = (host: Host) => eventually(() => progressOf(host).state === 'drained');

export async function drain(host: Host): Promise<void> {
  await host.manager.moves.drain.begin();
  await drained(host);
}

export const parkedIn = ({ s3 }: Hosts) =>
  [...s3.objects.keys()].filter((key) => key.includes('/sandboxes/'));
