// References as Docker reads them: its own table of cases (distribution/reference), and what is loopback.
import t from 'tap';
import {
  formatReference,
  isLoopback,
  parseReference,
  shortReference,
} from '../../../../host-agent/src/images/reference.ts';

const SHA = `sha256:${'f'.repeat(64)}`;

/** Text → its whole spelling, or nothing where there is none. */
const TABLE: readonly (readonly [text: string, whole?: string])[] = [
  ['nginx', 'docker.io/library/nginx:latest'],
  ['nginx:alpine', 'docker.io/library/nginx:alpine'],
  ['test_com', 'docker.io/library/test_com:latest'],
  ['test.com:tag', 'docker.io/library/test.com:tag'],
  ['test.com:5000', 'docker.io/library/test.com:5000'],
  ['test.com/repo:tag', 'test.com/repo:tag'],
  ['test:5000/repo', 'test:5000/repo:latest'],
  ['test:5000/repo:tag', 'test:5000/repo:tag'],
  [`test:5000/repo@${SHA}`, `test:5000/repo@${SHA}`],
  [`test:5000/repo:tag@${SHA}`, `test:5000/repo:tag@${SHA}`],
  ['user/repo', 'docker.io/user/repo:latest'],
  ['docker.io/nginx', 'docker.io/library/nginx:latest'],
  ['index.docker.io/nginx', 'docker.io/library/nginx:latest'],
  ['docker.io/library/nginx', 'docker.io/library/nginx:latest'],
  ['localhost/nginx', 'localhost/nginx:latest'],
  ['localhost:5000/a/b/c:d', 'localhost:5000/a/b/c:d'],
  ['127.0.0.1:5000/a', '127.0.0.1:5000/a:latest'],
  ['[::1]:5000/a', '[::1]:5000/a:latest'],
  ['[2001:db8::1]/repo', '[2001:db8::1]/repo:latest'],
  ['Uppercase.example/a', 'Uppercase.example/a:latest'],
  ['ghcr.io/a/b__c/d-e---f:x.Y_z-1', 'ghcr.io/a/b__c/d-e---f:x.Y_z-1'],
  ['xn--n3h.com/myimage:xn--n3h.com', 'xn--n3h.com/myimage:xn--n3h.com'],
  ['foo/foo_bar.com:8080', 'docker.io/foo/foo_bar.com:8080'],
  ['foo_bar.com:8080', 'docker.io/library/foo_bar.com:8080'],
  [''],
  [':justtag'],
  [`@${SHA}`],
  ['repo@sha256:ffffffffffffffffffffffffffffffffff'],
  [`validname@invaliddigest:${'f'.repeat(128)}x`],
  ['Uppercase:tag'],
  ['Uppercase/lowercase:tag', 'Uppercase/lowercase:tag'],
  ['lowercase/Uppercase'],
  ['-test/a'],
  ['a/'],
  ['/a'],
  ['a//b'],
  ['aa/asdf$$^/aa'],
  ['a:'],
  ['a:.tag'],
  [`a:${'t'.repeat(129)}`],
  ['a..b'],
  ['a.-b'],
  ['a_/b'],
  ['f'.repeat(64)],
  [`${'a/'.repeat(128)}a:tag`],
  ['http://nginx'],
  ['[fe80::1%eth0]/a'],
  ['a b'],
];

for (const [text, whole] of TABLE) {
  t.test(JSON.stringify(text).slice(0, 60), async (t) => {
    const reference = parseReference(text);
    t.equal(reference && formatReference(reference), whole);
    if (reference !== undefined)
      t.same(parseReference(shortReference(reference)), reference, 'also when it is short');
  });
}

t.test('the short spelling is what people write', async (t) => {
  const short = (text: string) => shortReference(parseReference(text) ?? { domain: '', path: '' });
  t.equal(short('docker.io/library/nginx:latest'), 'nginx:latest');
  t.equal(short('docker.io/a/b:c'), 'a/b:c');
  t.equal(short('docker.io/library/a/b'), 'library/a/b:latest');
  t.equal(short('ghcr.io/library/a'), 'ghcr.io/library/a:latest');
});

t.test('only loopback addresses are', async (t) => {
  const is = (domain: string) => isLoopback({ domain, path: 'a' });
  for (const domain of [
    'localhost',
    'localhost:5000',
    'LOCALHOST:1',
    '127.0.0.1',
    '127.8.9.1:80',
    '[::1]',
    '[::1]:5',
  ])
    t.ok(is(domain), domain);
  for (const domain of [
    'localhost.example',
    '127.0.0.1.example',
    '10.0.0.1',
    '128.0.0.1',
    '[::2]',
    'my-localhost:5000',
  ])
    t.notOk(is(domain), domain);
});
