// `sandboxd gateway`: one address before all hosts of a fleet. It keeps no state, so that any number may run.
import { readFileSync } from 'node:fs';
import { type Input, UsageError } from '@sandboxd/api/command-line';
import { formatListen, parseHostName } from '../../config/index.ts';
import { FleetFront, HostConnections, KubernetesCatalogue } from '../../fleet/index.ts';
import { openConsole } from '../../http/index.ts';
import { isWebSocketRequest, takesConnection } from '../../http/server/hijack.ts';
import { IngressServer } from '../../ingress/index.ts';
import { toError } from '../../lib/errors.ts';
import { createLogger } from '../../lib/logger.ts';
import { ServiceManager } from '../../lib/service-manager.ts';
import { VERSION } from '../../lib/version.ts';
import { raceSignal } from '../../lib/wait.ts';
import type { Command } from '../command.ts';
import { FLEET_FLAGS, openFleetAccess } from '../fleet-access.ts';
import { HELPERS } from '../installation.ts';
import { address, DEFAULT_CONNECTIONS, DOOR_FLAGS, openDoors, path, readListener } from './doors.ts';

const DEFAULT_LISTEN = '127.0.0.1:7877';
const DRAIN_MS = 30_000;

export const gateway: Command = {
  name: 'gateway',
  operands: '',
  summary: 'serve the REST API of all hosts of a fleet at one address, in the foreground',
  flags: {
    ...FLEET_FLAGS,
    listen: address(`address of the REST API (${DEFAULT_LISTEN})`),
    'tls-cert': path('TLS certificate chain (PEM); reloaded when it changes'),
    'tls-key': path('private key of the TLS certificate (PEM)'),
    'allowed-host': {
      type: 'string',
      multiple: true,
      placeholder: 'name',
      help: 'accept requests for this host name; repeatable',
    },
    'host-ca': path(
      'authority of the hosts’ TLS certificates (PEM); default: those that this machine trusts',
    ),
    'host-cert': path('certificate of this gateway for hosts that require one (PEM)'),
    'host-key': path('private key of that certificate (PEM)'),
    ...DOOR_FLAGS,
    'log-level': {
      type: 'string',
      values: ['trace', 'debug', 'info', 'warn', 'error', 'fatal'],
      help: 'lowest level that is logged (info)',
    },
  },
  run: async (input, signal) => {
    const log = createLogger({ level: input.text('log-level') ?? 'info', format: 'auto' });
    const text = input.text('listen') ?? DEFAULT_LISTEN;
    const { certificate, listen } = readListener(input, log, { flag: 'listen', text, prefix: '' });
    const { client, seal, namespace } = openFleetAccess(input);
    const connections = new HostConnections({
      ca: readPem(input, 'host-ca'),
      cert: readPem(input, 'host-cert'),
      key: readPem(input, 'host-key'),
    });
    const catalogue = new KubernetesCatalogue({ client, seal, namespace, log });
    const ended = new AbortController();
    try {
      // Creates in progress need the map until they end.
      const starting = catalogue.watch(ended.signal);
      const map = await raceSignal(starting, signal);
      const allowedHosts = readAllowedHosts(input, certificate !== undefined);
      const doors = openDoors(input, log, { catalogue, map, connections, seal, allowedHosts });
      const frames = doors.find((door) => door.frames !== undefined)?.frames;
      const front = new FleetFront({
        ...{ catalogue, map, connections, seal, log, console: openConsole(), frames },
        hasTls: certificate !== undefined,
        allowedHosts,
      });
      const server = new IngressServer({
        ...{ gateway: front, log, certificate, takesConnection, isUpgrade: isWebSocketRequest },
        maxConnections: DEFAULT_CONNECTIONS,
        clientShare: { connections: DEFAULT_CONNECTIONS / 2, peersProgram: HELPERS.peers },
        protocols: ['http/1.1'],
      });
      front.metrics.connections = () => server.connectionCount;
      for (const door of doors) log.info(await door.listen());
      const listening = `the gateway listens on ${formatListen(await server.listen(listen))}`;
      log.info(
        { version: VERSION, pid: process.pid, hosts: map.hosts().length, sandboxes: map.size },
        listening,
      );
      const manager = new ServiceManager(log);
      await manager.ready(listening);
      await aborted(signal);
      log.info('stopping');
      await Promise.all([server.close(DRAIN_MS), ...doors.map((door) => door.close())]);
    } finally {
      ended.abort();
      await catalogue.settled();
      client.close();
    }
  },
};

function readAllowedHosts(input: Input, hasTls: boolean) {
  return input.texts('allowed-host').map((text) => {
    const name = parseHostName(text);
    if (name === undefined) throw new UsageError(`--allowed-host ${JSON.stringify(text)} is not a host name`);
    return { scheme: name.scheme ?? (hasTls ? ('https' as const) : ('http' as const)), at: name.at };
  });
}

function readPem(input: Input, flag: string): string | undefined {
  const path = input.text(flag);
  if (path === undefined) return undefined;
  try {
    return readFileSync(path, 'latin1');
  } catch (error) {
    throw new UsageError(`--${flag}: ${toError(error).message}`);
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
}
