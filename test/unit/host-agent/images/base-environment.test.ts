// What a root filesystem puts into the environment of every command.
import t from 'tap';
import { baseEnvironment } from '../../../../host-agent/src/images/index.ts';

t.test('a profile’s HOME of root is for root only; any other, and an image’s, is for every user', (t) => {
  const env = { PATH: '/bin', HOME: '/root', LANG: 'C.UTF-8' };
  t.strictSame(baseEnvironment({ kind: 'profile', env }), { PATH: '/bin', LANG: 'C.UTF-8' });
  t.strictSame(baseEnvironment({ kind: 'image', env }), env);
  const own = { ...env, HOME: '/srv/work' };
  t.strictSame(baseEnvironment({ kind: 'profile', env: own }), own);
  t.strictSame(baseEnvironment({ kind: 'agent', env: {} }), {});
  t.strictSame(env.HOME, '/root', 'what was given stays as it was');
  t.end();
});
