// Queries: everything is text, and empty is absent.
import {
  execQuery,
  forkQuery,
  INTERFACE_LIMITS,
  importQuery,
  logsQuery,
  pushFilesQuery,
  readFileQuery,
  serviceLogsQuery,
} from '@sandboxd/api';
import t from 'tap';
import { acceptQuery, refuseQuery } from './support/ask.ts';

const fork = forkQuery(INTERFACE_LIMITS);

t.test('absent and empty are the default', (t) => {
  for (const query of ['', 'since=&source=', 'unknown=1'])
    t.same(acceptQuery(logsQuery, query), { since: -1, source: 'all' });
  for (const query of ['', 'count=']) t.same(acceptQuery(fork, query), { count: 1 });
  t.same(acceptQuery(readFileQuery, 'path=/x&max_bytes=&format='), {
    path: '/x',
    max_bytes: 10 * 2 ** 20,
    format: 'raw',
  });
  t.same(acceptQuery(serviceLogsQuery, 'from_seq=&max_bytes='), {
    follow: true,
    from_seq: undefined,
    max_bytes: undefined,
  });
  t.same(acceptQuery(importQuery, 'tag='), { tag: undefined });
  t.same(acceptQuery(importQuery, 'tag=a:b'), { tag: 'a:b' });
  t.end();
});

t.test('integers go to 2^63 − 1, and above 2^53 − 1 are that', (t) => {
  const since = (text: string) => acceptQuery(logsQuery, `since=${text}`).since;
  t.equal(since('-1'), -1);
  t.equal(since('007'), 7);
  t.equal(since('9007199254740991'), Number.MAX_SAFE_INTEGER);
  t.equal(since('9007199254740993'), Number.MAX_SAFE_INTEGER);
  t.equal(since('9223372036854775807'), Number.MAX_SAFE_INTEGER);
  for (const text of [
    '9223372036854775808',
    '-2',
    '1.5',
    '1e3',
    '0x10',
    'x',
    '%2B1',
    '%201',
    '99999999999999999999',
  ]) {
    t.match(
      refuseQuery(logsQuery, `since=${text}`),
      /^query since must be a whole number of at least -1, got "/,
    );
  }
  t.equal(acceptQuery(serviceLogsQuery, 'from_seq=0').from_seq, 0);
  t.match(
    refuseQuery(serviceLogsQuery, 'from_seq=-1&max_bytes=0'),
    /^query from_seq must .*; query max_bytes must /,
  );
  t.end();
});

t.test('each its own', (t) => {
  t.equal(acceptQuery(fork, 'count=64').count, 64);
  for (const text of ['0', '65', '-1', '1e1', 'two']) {
    t.equal(
      refuseQuery(fork, `count=${text}`),
      `count in the query must be an integer from 1 to 64, got "${text}"`,
    );
  }
  t.equal(refuseQuery(logsQuery, 'source=x'), 'query source must be one of service, exec, all, got "x"');
  for (const text of ['0', '-1', '1.5']) {
    t.equal(
      refuseQuery(readFileQuery, `path=/x&max_bytes=${text}`),
      `query max_bytes must be a whole number of at least 1, got "${text}"`,
    );
  }
  t.equal(
    refuseQuery(readFileQuery, 'path=/x&format=zip'),
    'query format must be one of raw, tar, got "zip"',
  );
  for (const query of ['', 'path=']) {
    t.equal(
      refuseQuery(pushFilesQuery, query),
      'the query parameter path is missing; give an absolute path of the guest',
    );
  }
  t.equal(
    refuseQuery(pushFilesQuery, 'path=etc/x'),
    'path must be an absolute path of the guest, got "etc/x"',
  );
  t.match(
    refuseQuery(pushFilesQuery, 'path=/a%00b'),
    /^path must be an absolute path of the guest without a NUL/,
  );
  for (const [text, isOn] of [
    ['stdin=1', true],
    ['stdin=0', false],
    ['stdin=true', false],
    ['stdin=', false],
    ['', false],
  ] as const) {
    t.equal(acceptQuery(execQuery, text).stdin, isOn, text);
  }
  t.equal(acceptQuery(serviceLogsQuery, 'follow=0').follow, false);
  t.equal(acceptQuery(serviceLogsQuery, 'follow=no').follow, true);
  t.end();
});
