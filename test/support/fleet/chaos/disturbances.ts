// What goes wrong in a fleet, one thing at a time.
import { scaled } from '../../time-scale.ts';
import type { Load } from './load.ts';
import { pick } from './random.ts';
import { healIdentities, NAMES, nft, TOKEN, type World } from './world.ts';

const MAX_SILENCE_MS = scaled(8000);
const MAX_GATEWAYS = 3;
const HOUR_MS = 3_600_000;
const SHORT_LIFETIMES_S = [3, 10, 30];

type Disturb = (world: World, load: Load) => void | Promise<void>;

/** A part starts, or ends without a word. */
const host: Disturb = (world) => {
  const name = NAMES[world.random(NAMES.length)] ?? '';
  world.begin(name, () => (world.hosts.has(name) ? world.crashHost(name) : world.startHost(name)));
};

const gateway: Disturb = (world) => {
  const { gateways, random } = world;
  if (gateways.length > 0 && (gateways.length >= MAX_GATEWAYS || random(2) === 0)) {
    const [ended] = gateways.splice(random(gateways.length), 1);
    if (ended !== undefined) world.begin(ended.url, () => ended.stop());
  } else if (!world.isApiDown) world.begin('gateway', () => world.startGateway());
};

const api: Disturb = async (world) => {
  if (world.isApiDown) await world.fleet.api.listen();
  else await world.fleet.api.stop();
  world.isApiDown = !world.isApiDown;
};

/** Watches end, and are too old. */
const compact: Disturb = ({ isApiDown, fleet }) => {
  if (!isApiDown) fleet.api.compact();
};

/** Nothing arrives at a part, and nothing comes from it, for some seconds. */
const silence: Disturb = ({ random, fleet, hosts }) => {
  const url = random(3) === 0 ? fleet.api.url : pick(random, [...hosts.values()])?.url;
  if (url === undefined) return;
  const timeout = `${1000 + random(MAX_SILENCE_MS)}ms`;
  nft(`add element inet chaos silent { ${new URL(url).port} timeout ${timeout} }`);
};

/** `kubectl delete pod`. */
const pod: Disturb = ({ fleet }, load) => {
  const id = load.choose();
  const name = id?.replace('_', '-');
  if (id === undefined || name === undefined) return;
  const { objects } = fleet.api;
  if (objects.find('pods', 'sandboxd', name) === undefined) return;
  load.dropPlace(id);
  objects.delete('pods', 'sandboxd', name, undefined);
};

/** A wall clock jumps: an hour ahead, an hour behind, or to the right time. */
const clock: Disturb = ({ random, clocks }) => {
  const chosen = pick(random, clocks);
  if (chosen !== undefined) chosen.offsetMs = pick(random, [HOUR_MS, -HOUR_MS, 0]) ?? 0;
};

const bucket: Disturb = (world) => world.bucket.disturb();

/** A node is cordoned, or open again; at most two of them are, so that some sandboxes find a host. */
const drain: Disturb = (world) => {
  const { random, fleet } = world;
  const isCordoned = (name: string) =>
    fleet.api.objects.find('nodes', '', name)?.spec?.unschedulable === true;
  const name = NAMES[random(NAMES.length)] ?? '';
  const isFull = NAMES.filter(isCordoned).length >= NAMES.length - 1;
  if (isCordoned(name)) world.cordon(name, false);
  else if (!isFull) world.cordon(name, true);
};

/** Certificates of hosts are refused, or end; so may be the token with which they ask for others. */
const identity: Disturb = ({ random, fleet }) => {
  const { api } = fleet;
  const name = `system:node:${NAMES[random(NAMES.length)]}`;
  switch (random(7)) {
    case 0:
    case 1:
      return void api.distrusted.add(name);
    case 2:
      return api.bootstrapTokens.clear();
    case 3:
      api.approval = random(2) === 0 ? 'deny' : 'wait';
      return;
    case 4:
      if (api.signer !== undefined) api.signer.lifetimeS = scaled(pick(random, SHORT_LIFETIMES_S) ?? 0);
      // The next one is short.
      return void api.distrusted.add(name);
    case 5:
      api.distrusted.clear();
      return void api.bootstrapTokens.add(TOKEN);
    default:
      return healIdentities(fleet);
  }
};

/** A Node is deleted, mostly with its pods. */
const node: Disturb = ({ random, fleet }, load) => {
  const { objects } = fleet.api;
  const name = NAMES[random(NAMES.length)] ?? '';
  if (objects.find('nodes', '', name) === undefined) return;
  const own = objects.list('pods').filter(({ spec }) => spec.nodeName === name);
  objects.delete('nodes', '', name, 0);
  if (random(4) === 0) return;
  for (const each of own) {
    load.unplace(each.metadata.name);
    objects.removePod(each);
  }
};

/** By the names that FLEET_DISTURB has. */
export const DISTURBANCES: Readonly<Record<string, Disturb>> = {
  ...{ host, gateway, api, compact, silence, pod },
  ...{ clock, bucket, drain, identity, node },
};
