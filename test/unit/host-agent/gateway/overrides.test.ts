// Requests that ask to be treated as another: what some server obeys.
import t from 'tap';
import {
  hasMethodParameter,
  isOverride,
  isPathOverride,
} from '../../../../host-agent/src/gateway/request-head.ts';
import { judgeRequest } from '../../../../host-agent/src/network/request-verdict.ts';

t.test('names of a query that mean _method', (t) => {
  const names = [
    '_method',
    '[_method]',
    '.method',
    '%20_method',
    '+_method',
    '_method%00',
    '_method[]',
    '%5Fmethod',
  ];
  for (const name of [...names, '_METHOD', '%2e%6dethod', '_method%00x', '%5b_method'])
    t.ok(hasMethodParameter(`/?a=1&${name}=DELETE`), name);
  for (const name of ['method', 'a_method', '_methods', '_metho%64s', 'q'])
    t.notOk(hasMethodParameter(`/?${name}=x`), name);
  t.notOk(hasMethodParameter('/_method=DELETE'));
  t.end();
});

t.test('headers', (t) => {
  for (const name of ['x-original-url', 'x_rewrite_url', 'x-rewrite-url']) t.ok(isPathOverride(name), name);
  t.notOk(isPathOverride('x-original-host'));
  t.ok(isOverride('x-method-override'));
  t.end();
});

t.test('verdicts', (t) => {
  const judge = (fields: { methods?: string[]; paths?: string[] }, request: object) =>
    judgeRequest(
      [
        {
          rule: { host: 'ok.test', protocol: 'tls', ports: [443], tls: 'inspect', ...fields },
          by: { allowlist: 'x' },
        } as never,
      ],
      { method: 'GET', target: '/a', hasOverride: false, isWebSocket: false, ...request },
    );
  t.match(judge({ paths: ['/a'] }, { hasPathOverride: true }), { isAllowed: false, status: 403 });
  t.match(judge({ paths: ['/a'] }, {}), { isAllowed: true });
  t.match(
    judge({ methods: ['GET'] }, { hasPathOverride: true }),
    { isAllowed: true },
    'without paths it is of no use',
  );
  const long = judge({ methods: ['GET'] }, { method: 'A'.repeat(600) });
  t.match(long, { isAllowed: false, status: 403 });
  t.ok('reason' in long && long.reason.length < 100, 'its reason is short');
  t.match(judge({}, { method: 'A'.repeat(33) }), { isAllowed: false });
  t.match(judge({}, { method: 'A'.repeat(32) }), { isAllowed: true });
  t.end();
});
