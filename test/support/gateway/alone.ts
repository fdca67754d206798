// The gateway's own code without its process: guests and servers are sockets of the loopback.

import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { createServer, connect as dial, type Server, type Socket } from 'node:net';
import type { NetworkRule } from '@sandboxd/api';
import type { Test } from 'tap';
import { Gate, type Handed } from '../../../host-agent/src/gateway/gate.ts';
import { Http1 } from '../../../host-agent/src/gateway/http1.ts';
import { Http2 } from '../../../host-agent/src/gateway/http2.ts';
import { NoServer, ReadConnection } from '../../../host-agent/src/gateway/read-connection.ts';
import { Settings } from '../../../host-agent/src/gateway/settings.ts';
import type { Substitution } from '../../../host-agent/src/gateway/substitution.ts';
import type { ConnectionRecord } from '../../../host-agent/src/network/connection-record.ts';

const NO_SECRETS: Substitution = { request: (head) => ({ head, used: [] }) };

export function openGateway(t: Test, rules: readonly NetworkRule[]) {
  const settings = new Settings();
  const records: ConnectionRecord[] = [];
  const connections: ReadConnection[] = [];
  const [http1, http2] = [new Http1(NO_SECRETS), new Http2(NO_SECRETS)];
  const change = (to: readonly NetworkRule[]): number => {
    settings.change({ policy: { allowlist: [], rules: to }, generation: 1 });
    return connections.reduce((sum, each) => sum + each.settle(), 0);
  };
  change(rules);

  /** Resolves with the port of a server. */
  async function listen(serve: (socket: Socket) => void): Promise<number> {
    const sockets = new Set<Socket>();
    const server: Server = createServer((socket) => {
      sockets.add(socket);
      socket.on('error', () => socket.destroy());
      socket.once('close', () => sockets.delete(socket));
      serve(socket);
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    t.teardown(() => {
      server.close();
      for (const socket of sockets) socket.destroy();
    });
    return (server.address() as AddressInfo).port;
  }

  /** Resolves with the port of a guest's connections that are read; 0: no server answers. */
  function read(protocol: 'h1' | 'h2', server: number): Promise<number> {
    return listen((socket) => {
      const isH2 = protocol === 'h2';
      const handed: Handed = {
        ...{ id: '1', kind: isH2 ? 'tls' : 'http', name: 'ok.test', port: isH2 ? 443 : 80, hasH2: isH2 },
      };
      const gate = new Gate(
        '',
        () => undefined,
        () => undefined,
      );
      gate.dial = async () => {
        const dialled = dial(server, '127.0.0.1');
        dialled.on('error', () => dialled.destroy());
        await once(dialled, 'connect');
        return dialled;
      };
      const connection = new ReadConnection(handed, socket, gate, settings, (record) => records.push(record));
      connections.push(connection);
      if (!isH2) http1.serve(connection, socket, undefined);
      else if (server === 0) http2.serve(connection, socket, new NoServer(502, 'no address answered'));
      else void gate.dial('1').then((dialled) => http2.serve(connection, socket, dialled));
    });
  }
  return { listen, read, change, records, connections };
}
