// Profiles that are not here yet.
import t from 'tap';
import { ask, ENGINE, makeApp } from './support.ts';

t.test('profiles that are yet to be baked are listed, without details', async (t) => {
  const listUnbakedProfiles = async () => [{ name: 'alpha', isDefault: true }];
  const { app } = makeApp({ listProfiles: async () => [], listUnbakedProfiles });
  const { body } = await ask(app, 'GET', '/profiles');
  t.same(body, { profiles: ['alpha'], default: 'alpha', details: {}, engine: ENGINE });
});
