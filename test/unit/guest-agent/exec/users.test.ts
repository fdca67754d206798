// Resolving a command's user.
import '../support/addon-dir.ts';
import t from 'tap';
import { resolveUser } from '../../../../guest-agent/src/exec/users.ts';

t.test('a user is found in the guest’s files', async (t) => {
  const files = {
    passwd:
      'root:x:0:0:root:/root:/bin/sh\nada:x:1000:100:Ada:/home/ada:/bin/sh\n7:x:70:70::/seven:\nbroken\n',
    group: 'root:x:0:\nusers:x:100:\nwheel:x:10:root,ada\naudio:x:29:ada\n',
  };
  const user = (spec: string) => resolveUser(spec, files);
  t.strictSame(user(''), { user: { name: 'root', uid: 0, gid: 0, groups: [0, 10], home: '/root' } });
  t.strictSame(user('ada'), {
    user: { name: 'ada', uid: 1000, gid: 100, groups: [100, 10, 29], home: '/home/ada' },
  });
  t.strictSame(user('1000'), user('ada'));
  t.strictSame(user('ada:audio'), {
    user: { name: 'ada', uid: 1000, gid: 29, groups: [29], home: '/home/ada' },
  });
  t.strictSame(user('ada:5'), { user: { name: 'ada', uid: 1000, gid: 5, groups: [5], home: '/home/ada' } });
  t.strictSame(
    user('4242'),
    { user: { uid: 4242, gid: 0, groups: [0], home: '/' } },
    'a number needs no entry',
  );
  t.match(user('7'), { user: { uid: 70 } }, 'a name that looks like a number is a name');
  for (const [spec, error] of [
    ['bob', /no user "bob"/],
    ['ada:bobs', /no group "bobs"/],
    [':audio', /is not name\|uid/],
    ['ada:', /is not name\|uid/],
    ['4294967295', /no user/],
  ] as const) {
    t.match(user(spec), { error }, spec);
  }
  t.match(
    resolveUser('', { passwd: '', group: '' }),
    { user: { name: 'root', uid: 0, gid: 0, home: '/root' } },
    'an empty image',
  );
});

t.test('malformed lines are ignored', async (t) => {
  const files = {
    passwd:
      ':x:1:1::/none:\nno-uid:x::5::/a:\nno-gid:x:5:::/b:\nlarge:x:4294967295:5::/c:\nsign:x:-1:5::/d:\nada:x:6:5\n',
    group: ':x:1:ada\nno-gid:x::ada\nempty:x:8:\nlist:x:9:,ada,,\nshort:x:10\n',
  };
  for (const name of ['no-uid', 'no-gid', 'large', 'sign', 'empty'])
    t.match(resolveUser(name, files), { error: `there is no user "${name}" in the guest's /etc/passwd` });
  t.strictSame(resolveUser('ada', files), {
    user: { name: 'ada', uid: 6, gid: 5, groups: [5, 9], home: '/' },
  });
  t.strictSame(resolveUser('ada:empty', files), {
    user: { name: 'ada', uid: 6, gid: 8, groups: [8], home: '/' },
  });
  t.strictSame(resolveUser('5', files), { user: { uid: 5, gid: 0, groups: [0], home: '/' } });
  t.match(resolveUser('ada:no-gid', files), { error: /^there is no group "no-gid"/ });
  t.match(resolveUser(':', files), { error: /is not name\|uid/ });
  t.match(resolveUser('ada:9:9', files), { error: /^there is no group "9:9"/ });
  t.match(resolveUser('99999999999', files), { error: /^there is no user/ });
  t.match(resolveUser('4294967294', files), { user: { uid: 4_294_967_294 } });
  t.strictSame(resolveUser('0', files), {
    user: { name: 'root', uid: 0, gid: 0, groups: [0], home: '/root' },
  });
});
