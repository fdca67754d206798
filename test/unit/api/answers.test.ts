// The tests' own clients: an answer that the table of routes does not have fails whoever asked.
import t from 'tap';
import { makeApp } from '../../http/support.ts';
import { checkAnswer } from '../../support/answers.ts';

const ID = 'sbx_0123456789abc';
const SANDBOX = {
  id: ID,
  created_at: '2024-05-06T07:08:09.010Z',
  memory_mib: 512,
  vcpus: 1,
  profile: 'base',
  workdir: '/x',
};

t.test('status, fields and values are those of the table', (t) => {
  checkAnswer('GET', `/sandboxes/${ID}`, 200, SANDBOX);
  checkAnswer('POST', '/sandboxes?x=1', 201, SANDBOX);
  checkAnswer('GET', '/nowhere', 404, { error: 'no such path' });
  const { workdir: _, ...less } = SANDBOX;
  for (const [method, path, status, body] of [
    ['GET', `/sandboxes/${ID}`, 200, less],
    ['GET', `/sandboxes/${ID}`, 200, { ...SANDBOX, more: 1 }],
    ['GET', `/sandboxes/${ID}`, 200, { ...SANDBOX, vcpus: '1' }],
    ['GET', '/sandboxes', 200, { sandboxes: [{ ...SANDBOX, more: 1 }] }],
    ['POST', '/sandboxes', 200, SANDBOX],
    ['DELETE', `/sandboxes/${ID}`, 204, {}],
    ['GET', '/nowhere', 200, {}],
    ['GET', '/sandboxes', 500, { message: 'x' }],
  ] as const)
    t.throws(() => checkAnswer(method, path, status, body), `${method} ${path} ${JSON.stringify(body)}`);
  t.end();
});

t.test('the app of test/http is checked so', async (t) => {
  const { app, sandboxes } = makeApp();
  const { id } = sandboxes.add();
  sandboxes.serviceCalls.status = async () => ({ state: 'idle', pid: -1 });
  await t.rejects(async () => app.request(`/sandboxes/${id}/service`), /against the document/);
});
