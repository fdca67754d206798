// The routes of images over a store that does what a test says: answers, lines, errors.
import t from 'tap';
import type { Images } from '../../host-agent/src/images/index.ts';
import { AppError } from '../../host-agent/src/lib/errors.ts';
import { IMAGE } from './fake-images.ts';
import { ask, makeApp } from './support.ts';

const BODY = {
  digest: IMAGE.digest,
  source_ref: 'nginx:alpine',
  refs: ['nginx:alpine'],
  entrypoint: ['/entry'],
  cmd: ['serve'],
  exposed_ports: ['80/tcp'],
  labels: { a: 'b' },
  content_bytes: 1,
  size_bytes: 2,
  entries: 3,
  convert_mode: 'erofs',
  converted_at_unix_ms: 4,
};

/** Knows one image, pulls whatever is not called `no`, and says what it was asked. */
function makeStore() {
  const asked: unknown[][] = [];
  const store: Pick<Images, 'list' | 'get' | 'pull' | 'import' | 'delete'> = {
    list: () => [IMAGE],
    get: (ref) => {
      asked.push(['get', ref]);
      return IMAGE;
    },
    pull: async (ref, mode, asking) => {
      asked.push(['pull', ref, mode]);
      asking?.onProgress?.('pulling');
      asking?.onProgress?.('fetching', { layer: 'ab12', bytes: 1, totalBytes: 2 });
      if (ref === 'no') throw new AppError('upstream', 'cannot pull no: manifest unknown');
      return IMAGE;
    },
    import: async (pieces, tag) => {
      let bytes = 0;
      for await (const piece of pieces) bytes += piece.length;
      asked.push(['import', bytes, tag]);
      return IMAGE;
    },
    delete: async (ref) => void asked.push(['delete', ref]),
  };
  return { asked, ...makeApp({ images: store as Images }) };
}

const LINES = { Accept: 'application/x-ndjson' };

t.test('each route answers as it says', async (t) => {
  const { app, asked } = makeStore();
  t.match(await ask(app, 'GET', '/images'), { status: 200, body: { images: [BODY] } });
  t.match(await ask(app, 'POST', '/images', '{"ref":"nginx:alpine"}'), { status: 201, body: BODY });
  t.match(await ask(app, 'POST', '/images', '{"ref":"nginx","pull":"missing"}'), { status: 201 });
  t.match(await ask(app, 'POST', '/images/import?tag=a:b', 'x'.repeat(5)), { status: 201, body: BODY });
  t.match(await ask(app, 'GET', '/images/ghcr.io/a/b:c'), { status: 200, body: BODY });
  t.match(await ask(app, 'DELETE', '/images/a%2Fb'), { status: 204 });
  t.same(asked, [
    ['pull', 'nginx:alpine', 'always'],
    ['pull', 'nginx', 'missing'],
    ['import', 5, 'a:b'],
    ['get', 'ghcr.io/a/b:c'],
    ['delete', 'a/b'],
  ]);
});

t.test('what the image keeps to itself is not shown', async (t) => {
  const { body } = await ask(makeStore().app, 'GET', '/images/nginx');
  t.notMatch(JSON.stringify(body), /SECRET|"user"|srv/);
});

t.test('a pull without a reference is 400, and a failed one has its cause', async (t) => {
  const { app } = makeStore();
  t.match(await ask(app, 'POST', '/images', '{}'), {
    status: 400,
    error: /^ref is missing; send a reference/,
  });
  t.match(await ask(app, 'POST', '/images', '{"ref":"no"}'), {
    status: 502,
    error: 'cannot pull no: manifest unknown',
  });
});

t.test('with lines, steps come first, and the last line has the image or the error', async (t) => {
  const { app } = makeStore();
  const lines = async (body: string): Promise<unknown[]> => {
    const response = await app.request('/images', { method: 'POST', body, headers: LINES });
    t.equal(response.status, 200);
    t.equal(response.headers.get('content-type'), 'application/x-ndjson');
    const text = await response.text();
    return text
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
  };
  t.match(await lines('{"ref":"nginx"}'), [
    { progress: 'pulling' },
    { progress: 'fetching', layer: 'ab12', bytes: 1, total_bytes: 2 },
    { image: BODY },
  ]);
  t.same(await lines('{"ref":"no"}'), [
    { progress: 'pulling' },
    { progress: 'fetching', layer: 'ab12', bytes: 1, total_bytes: 2 },
    { error: 'cannot pull no: manifest unknown', code: 'upstream', status: 502 },
  ]);
});
