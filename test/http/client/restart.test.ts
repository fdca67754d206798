// A daemon that goes while it is asked, and comes back at the same address.
import { Client, ConflictError, ConnectionError, NotFoundError } from '@sandboxd/client';
import t, { type Test } from 'tap';
import { AppError } from '../../../host-agent/src/lib/errors.ts';
import { until } from '../../support/until.ts';
import { FakeService, RINGS } from '../fake-service.ts';
import { serve } from '../support.ts';

/** `again` is a daemon at the same place, after the first has gone. */
async function serveTwice(t: Test) {
  const service = new FakeService();
  const first = await serve(t);
  const { id } = first.sandboxes.add();
  first.sandboxes.serviceCalls = { output: service.output };
  const again = async (isThere = true) => {
    const { sandboxes, server } = await serve(t, { port: first.port });
    if (isThere) sandboxes.add(id);
    sandboxes.serviceCalls = { output: service.output };
    return { sandboxes, server };
  };
  return { ...first, id, service, again };
}

t.test('a follower of a service continues after the last record, also with a new spec', async (t) => {
  const { url, id, server, service, again } = await serveTwice(t);
  let seen = '';
  const reading = (async () => {
    for await (const { text } of new Client({ host: url }).sandboxes.get(id).service.logs({ follow: true }))
      seen += text;
  })();
  await until(() => seen === 'zero one ', 'what there is');
  await server.close();
  service.rings[0]?.[1].push('two ');
  const second = await again();
  await until(() => seen === 'zero one two ', 'what was written meanwhile, once');
  t.match(service.asked.at(-1), { ring: RINGS[0], fromSeq: 2, isFollowing: true });
  await second.server.close();
  service.rings[0]?.[1].push('three ');
  service.rings.push([RINGS[1], ['new ']]);
  const third = await again();
  await until(() => seen === 'zero one two three new ', 'what the next spec said');
  await third.server.close();
  await again(false);
  await t.rejects(reading, NotFoundError, 'until the sandbox is gone');
});

t.test(
  'a service that is read to the present, and a daemon that never was, are not waited for',
  async (t) => {
    const { url, id, server, service } = await serveTwice(t);
    service.asked.length = 0;
    const { service: read } = new Client({ host: url, retries: 0 }).sandboxes.get(id);
    const present = read.logs();
    t.match((await present.next()).value, { text: 'zero ' });
    await server.close();
    await t.rejects(
      present.next().then(() => present.next()),
      ConnectionError,
    );
    await t.rejects(read.logs({ follow: true }).next(), ConnectionError);
  },
);

t.test('a refusal of the guest ends it', async (t) => {
  const { url, id, sandboxes } = await serveTwice(t);
  sandboxes.serviceCalls = {
    output: (_, events) => {
      queueMicrotask(() => events.failed(new AppError('conflict', 'no service is configured')));
      return { consumed: () => {}, cancel: () => {} };
    },
  };
  const { service } = new Client({ host: url }).sandboxes.get(id);
  await t.rejects(service.logs({ follow: true }).next(), ConflictError);
});
