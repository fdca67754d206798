// Where a sandbox is, between what the map knows and what the engine says.
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { AskLimits } from '../../../../host-agent/src/fleet/front/ask-limits.ts';
import { identify, RefusedCaller } from '../../../../host-agent/src/fleet/front/callers.ts';
import { chooseImportHost } from '../../../../host-agent/src/fleet/front/import-host.ts';
import { findPlace, Places } from '../../../../host-agent/src/fleet/front/places.ts';
import { AppError } from '../../../../host-agent/src/lib/errors.ts';
import { newId } from '../../../../host-agent/src/lib/ids.ts';

const id = newId('sbx');
const host = { name: 'h1' };
const placed = { id, host: 'h1' } as never;

function mapOf(known: { find?: unknown; settle?: unknown; isCurrent?: boolean; mayHave?: boolean } = {}) {
  const { find, settle, isCurrent = true, mayHave = false } = known;
  const map = { isCurrent, mayHave: () => mayHave, find: () => find, settle: async () => settle };
  return { ...map, host: (name: string) => (name === 'h1' ? host : undefined) } as never;
}

const of = ({ headers }: { headers: { authorization?: string } }) => identify(headers.authorization ?? '');

t.test('the place that has a host is taken, of the map or of the engine', async (t) => {
  const map = mapOf({ find: { id, host: undefined } });
  t.equal((await findPlace(map, id, async () => placed)).host.name, 'h1', 'the engine');
  const late = mapOf({ settle: placed });
  t.equal((await findPlace(late, id, async () => undefined)).host.name, 'h1', 'the map, after a moment');
  await t.rejects(
    findPlace(mapOf(), id, async () => undefined),
    { code: 'not_found' },
  );
  const old = findPlace(mapOf({ isCurrent: false }), id, async () => undefined);
  await t.rejects(old, { code: 'exhausted', message: /may be too old/ });
  const unnamed = findPlace(mapOf({ mayHave: true }), id, async () => undefined);
  await t.rejects(unnamed, { code: 'exhausted', message: /has not named all/ });
});

t.test('a key that a host refused costs hosts one question, and is refused', async (t) => {
  let asked = 0;
  const refused = new RefusedCaller({ answer: { statusCode: 401 }, body: Buffer.alloc(0) } as never);
  const callers = {
    identify: of,
    find: async () => {
      asked += 1;
      throw refused;
    },
  };
  const catalogue = { find: async () => t.fail('the engine is not asked') as never };
  const places = new Places({ map: mapOf(), callers, catalogue });
  const request = { headers: { authorization: 'Bearer wrong' } };
  for (let n = 0; n < 10; n++) await t.rejects(places.find(newId('sbx'), request), refused);
  t.equal(asked, 1);
  await t.rejects(places.find(id, { headers: { authorization: 'Bearer other' } }), refused);
  t.equal(asked, 2, 'another key is another client');
});

t.test('whatever is wrong with a sandbox, a key that a host refuses late hears only that', async (t) => {
  const refused = new RefusedCaller({ answer: { statusCode: 401 }, body: Buffer.alloc(0) } as never);
  const catalogue = { find: async () => t.fail('the engine is not asked') as never };
  const maps = [
    mapOf({ mayHave: true }),
    mapOf({ isCurrent: false }),
    mapOf({ find: { id, host: undefined } }),
    mapOf({ find: { id, host: 'h1', isMoving: true } }),
    mapOf({ find: { id, host: 'h2' } }),
    mapOf(),
  ];
  const check = async (map: never) => {
    let asked = 0;
    const find = async (): Promise<never> => {
      asked += 1;
      // A host lets a client that guesses wait.
      await sleep(1500);
      throw refused;
    };
    const places = new Places({ map, callers: { find, identify: of }, catalogue });
    await t.rejects(places.find(id, { headers: { authorization: 'Bearer wrong' } }), refused);
    t.equal(asked, 1, 'hosts are asked once');
  };
  await Promise.all(maps.map(check));
  const silent = async (): Promise<never> => {
    throw new AppError('exhausted', 'no host of the fleet answers');
  };
  const places = new Places({ map: maps[0]!, callers: { find: silent, identify: of }, catalogue });
  const asked = places.find(id, { headers: { authorization: 'Bearer one' } });
  await t.rejects(asked, { code: 'exhausted', message: /has not named all/ });
});

t.test('the keys of one tenant leave look-ups for others', (t) => {
  const limits = new AskLimits();
  const take = (client: string, tenant?: string): boolean => {
    try {
      limits.count(client, tenant);
      return true;
    } catch {
      return false;
    }
  };
  const count = (prefix: string, tenant?: string): number => {
    let taken = 0;
    for (let n = 0; n < 1000; n++) if (take(`${prefix}${n}`, tenant)) taken += 1;
    return taken;
  };
  const taken = count('a', 'acme');
  t.ok(taken >= 250 && taken < 500, `${taken}`);
  t.ok(take('b', 'other'));
  t.ok(take('c'), 'one without a tenant');
  t.ok(count('d') > 100);
  t.notOk(take('e', 'third'), 'all together have a limit, too');
  t.end();
});

t.test('the host of an import is chosen without a digest for each comparison', (t) => {
  let reads = 0;
  const toHost = (n: number) => ({
    isReady: true,
    get name() {
      reads += 1;
      return `h${n}`;
    },
  });
  const hosts = Array.from({ length: 1000 }, (_, n) => toHost(n));
  const map = { hosts: () => hosts, all: () => [{ host: 'h0' }] } as never;
  const key = 'x'.repeat(10_000);
  const { name } = chooseImportHost(map, key);
  t.equal(chooseImportHost(map, key).name, name, 'a retry comes to the same one');
  t.not(chooseImportHost(map, undefined).name, 'h0', 'the one with the fewest places');
  t.ok(reads < 10_000, `${reads} names read`);
  t.end();
});
