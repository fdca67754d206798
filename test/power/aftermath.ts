// What is there after a power cut, against what was acknowledged before it.
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { Daemon } from '../support/daemon.ts';
import { findViolations } from '../support/invariants.ts';
import { DAEMON_PROGRAM } from '../support/leftovers.ts';
import { IMPORTS, LOAD_KEY, type Load, pausedWith, RUNNING } from './load.ts';
import { GONE, type Promises } from './promises.ts';

const run = promisify(execFile);

type Aftermath = { readonly broken: string[]; readonly looked: Record<string, number> };

/** Compares, resumes one paused sandbox, forks one snapshot, deletes everything, and looks for what is left. */
export async function inspect(
  daemon: Daemon,
  { events }: Load,
  promises: Promises,
  position: number,
  random: () => number,
): Promise<Aftermath> {
  const { api } = daemon;
  const broken: string[] = [];
  const found = new Map<string, string>();
  const ids = new Map<string, string>();
  const { sandboxes } = await api.ask('listSandboxes');
  for (const { id, name = id, state, labels = {}, network } of sandboxes) {
    found.set(`sandbox ${name}`, state === 'paused' ? 'paused' : RUNNING);
    if (labels.label !== undefined) found.set(`label of sandbox ${name}`, labels.label);
    const networkKey = `network of sandbox ${name}`;
    if (network !== undefined && promises.keys.includes(networkKey))
      found.set(networkKey, network.allowlist[0] ?? GONE);
    ids.set(`sandbox ${name}`, id);
    if (!['paused', 'failed'].includes(state)) broken.push(`sandbox ${name} is ${state}`);
  }
  let unnamed = 0;
  for (const { id, name } of (await api.ask('listSnapshots')).snapshots) {
    const key = `snapshot ${name ?? id}`;
    // The id of an import is known with its answer.
    if (name === undefined && !promises.mayBe(key, position)) unnamed++;
    else found.set(key, 'there');
    ids.set(key, id);
  }
  if (unnamed > promises.countOpen(IMPORTS, position))
    broken.push(`${unnamed} snapshots that nobody imported`);
  for (const { name } of (await api.ask('listSecrets')).secrets) found.set(`secret ${name}`, RUNNING);
  for (const { source_ref: ref } of (await api.ask('listImages')).images) found.set(`image ${ref}`, RUNNING);
  for (const name of await listKeys(daemon)) found.set(`key ${name}`, RUNNING);
  for (const key of new Set([...promises.keys, ...found.keys()]))
    broken.push(...compare(key, found.get(key) ?? GONE, promises.allowed(key, position)));

  const seen = events.filter((event) => event.position <= position).map(({ id }) => id);
  const kept = await readEventIds(daemon);
  const lost = seen.filter((id, index) => kept[index] !== id);
  if (lost.length > 0)
    broken.push(`${lost.length} of ${seen.length} events that a client saw, from ${lost[0]} on`);

  const pick = (keys: readonly string[]): string | undefined => keys[Math.floor(random() * keys.length)];
  const certain = promises.keys.filter(
    (key) => ![undefined, GONE].includes(promises.required(key, position)),
  );
  const paused = pick(
    certain.filter((key) => promises.required(key, position)?.startsWith(pausedWith('')) === true),
  );
  const snapshot = pick(certain.filter((key) => key.startsWith('snapshot ')));
  const readTokens = async (key: string, token: string, make: () => Promise<{ readonly id: string }>) => {
    try {
      const { id } = await make();
      const tokens = await api.sh(id, 'cat /dev/shm/token /root/token');
      if (tokens !== `${token}\n${token}`) broken.push(`${key} has ${JSON.stringify(tokens)}, not ${token}`);
    } catch (error) {
      broken.push(`${key}: ${(error as Error).message}`);
    }
  };
  if (paused !== undefined)
    await readTokens(paused, (promises.required(paused, position) ?? '').slice(pausedWith('').length), () =>
      api.ask('resumeSandbox', { params: { id: ids.get(paused) ?? '' }, body: {} }),
    );
  if (snapshot !== undefined)
    await readTokens(snapshot, promises.required(snapshot, position) ?? '', async () => {
      const params = { id: ids.get(snapshot) ?? '' };
      const { sandboxes } = await api.ask('forkSnapshot', { params, body: {} });
      return sandboxes[0] ?? { id: '' };
    });

  for (const { id } of (await api.ask('listSandboxes')).sandboxes) await api.delete(id);
  for (const { id } of (await api.ask('listSnapshots')).snapshots)
    await api.ask('deleteSnapshot', { params: { id } });
  broken.push(...(await findViolations(daemon)));
  const looked = {
    acknowledged: certain.length,
    events: seen.length,
    resumed: paused === undefined ? 0 : 1,
    forked: snapshot === undefined ? 0 : 1,
  };
  return { broken, looked };
}

function compare(key: string, found: string, allowed: readonly string[]): string[] {
  // A list tells neither the token of a paused sandbox nor that of a snapshot.
  const isAllowed = allowed.some(
    (value) =>
      value === found ||
      (found === 'paused' && value.startsWith(pausedWith(''))) ||
      (found === 'there' && key.startsWith('snapshot ') && value !== GONE),
  );
  // A label and a network go with their sandbox, and an import has no name.
  if (isAllowed || key === IMPORTS || (found === GONE && / of sandbox /.test(key))) return [];
  // Before the first acknowledged change it is the one that it was made with.
  if (/^(label|network) of /.test(key) && allowed.includes(GONE)) return [];
  return [`${key} is ${found}, not ${allowed.join(' or ')}`];
}

async function listKeys({ directories }: Daemon): Promise<string[]> {
  const { stdout } = await run(DAEMON_PROGRAM, ['keys', 'list', '--json', '--data-dir', directories.dataDir]);
  const keys = JSON.parse(stdout) as { readonly name: string; readonly state: string }[];
  return keys.flatMap(({ name, state }) => (state === 'valid' && name !== LOAD_KEY ? [name] : []));
}

async function readEventIds({ api }: Daemon): Promise<string[]> {
  const headers = { accept: 'application/x-ndjson' };
  const text = await (await api.fetch('/events?follow=0&last_event_id=0', { headers })).text();
  const events = text
    .split('\n')
    .flatMap((line) => (line === '' ? [] : [JSON.parse(line) as { id: string; kind?: string }]));
  return events.flatMap(({ id, kind }) => (kind === undefined ? [] : [id]));
}
