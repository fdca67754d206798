// A guest resets its connection to the resolver at the moment at which it is answered.
import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { streamEncode } from 'dns-packet';
import { pino } from 'pino';
import t from 'tap';
import { Allowlist } from '../../../../../host-agent/src/network/resolver/allowlist.ts';
import { ResolverClient } from '../../../../../host-agent/src/network/resolver/client.ts';
import { Resolver } from '../../../../../host-agent/src/network/resolver/resolver.ts';
import type { Found } from '../../../../../host-agent/src/network/resolver/upstream.ts';

t.test('its connection fails alone', async (t) => {
  const failures: unknown[] = [];
  const note = (reason: unknown) => failures.push(reason);
  process.on('unhandledRejection', note);
  t.teardown(() => process.off('unhandledRejection', note));
  const asked = Promise.withResolvers<void>();
  const found = Promise.withResolvers<Found[]>();
  const resolve = async () => {
    asked.resolve();
    return await found.promise;
  };
  const client = new ResolverClient({
    names: new Allowlist(['a.example']),
    addresses: { allowed: [], subnet: { base: 0x0a570000, prefixLength: 16 } },
    upstream: { resolve },
    open: async () => undefined,
    onDenied: () => undefined,
    onFailed: () => undefined,
  });
  const allowed = { address: '127.0.0.1', client };
  const resolver = await Resolver.open({ host: '127.0.0.1', port: 0 }, allowed, pino({ level: 'silent' }));
  t.teardown(() => resolver.close());
  const socket = connect(resolver.port, '127.0.0.1');
  await once(socket, 'connect');
  socket.write(streamEncode({ type: 'query', id: 7, questions: [{ name: 'a.example', type: 'A' }] }));
  await asked.promise;
  // The resolver has not read that when it writes.
  socket.resetAndDestroy();
  found.resolve([{ address: '1.2.3.4', ttlS: 30 }]);
  while (client.connections > 0) await sleep(5);
  t.same(failures, []);
});
