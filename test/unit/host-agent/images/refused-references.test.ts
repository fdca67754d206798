// References that the API takes and skopeo does not: a fault of the request, and none of a registry.
import t from 'tap';
import { scaled } from '../../../support/time-scale.ts';
import { World } from './world.ts';

t.setTimeout(scaled(300_000));
const world = new World(t);

t.test('they are refused as what they are', async (t) => {
  const images = await world.openImages(world.path('data'));
  for (const text of [
    `127.0.0.1:9/a@md5:${'a'.repeat(32)}`,
    `127.0.0.1:9/a@sha512:${'a'.repeat(64)}`,
    `127.0.0.1:9/a@sha256:${'a'.repeat(32)}`,
    `127.0.0.1:9/a@sha256:${'A'.repeat(64)}`,
    '127.0.0.1:99999/a',
    'LOCALHOST/a',
    `127.0.0.1:9/${'a'.repeat(300)}`,
  ])
    await t.rejects(
      images.pull(text, 'always'),
      { code: 'invalid_argument', message: /^image reference / },
      text,
    );
  await t.rejects(images.pull('127.0.0.1:9/a', 'always'), { code: 'upstream' }, 'nobody listens there');
  await t.rejects(images.pull(`sha256:${'a'.repeat(64)}`, 'missing'), { code: 'not_found' });
  await images.close();
});
