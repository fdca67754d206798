// Which hosts of a fleet have a template of a client of E2B, and from which of them a create can begin with it.
import type { IncomingMessage } from 'node:http';
import { z } from 'zod';
import { DEFAULT_TAG, E2bError, readName, SHARED_HEADER } from '../../e2b/index.ts';
import { AppError } from '../../lib/errors.ts';
import type { FleetMap, Host } from '../catalogue.ts';
import { writeQuestion } from '../client-header.ts';
import { toSnapshotHolding } from '../kubernetes/holdings.ts';
import type { FleetSeal } from '../seal.ts';
import type { CreateRequest } from './create-request.ts';
import { type E2bHosts, MEMORY_MIB, SNAPSHOT_ID, VCPUS } from './e2b-hosts.ts';
import type { HostAnswer } from './host-connections.ts';
import { readAnswer } from './json.ts';

const MAX_KNOWN = 10_000;
/** A pod names each host that it does not fit. */
const MAX_EXCLUDED = 64;
/** Templates that are profiles on every host. */
export const PROFILES: ReadonlySet<string> = new Set(['base', 'code-interpreter', 'code-interpreter-v1']);
const KNOWN_ID = /^(?:tpl[0-9a-f]{24}|[0-9a-f-]{36})$/;

const build = z.object({
  tags: z.array(z.string()),
  vcpus: VCPUS,
  memoryMib: MEMORY_MIB,
  createdAtMs: z.number(),
  /** Of one that any host can have; absent: only this host. */
  snapshotId: z.string().regex(SNAPSHOT_ID).optional(),
  /** Why this host cannot create from it. */
  problem: z.string().optional(),
});
const found = z.object({
  template: z
    .object({
      id: z.string(),
      createdAtMs: z.number(),
      builds: z.array(build),
      isBuilding: z.boolean().default(false),
      isHere: z.boolean().default(true),
      /** Ids of builds that this host knows most of. */
      runs: z.array(z.string()).default([]),
    })
    .optional(),
  /** Whether it knows the templates of the bucket; absent: it has none. */
  hasRead: z.boolean().optional(),
});
export const named = z.object({ templateID: z.string() });

type Build = z.output<typeof build>;
type Facts = z.output<typeof found>;
type Template = NonNullable<Facts['template']>;
export type Placed<T> = { readonly host: Host; readonly value: T };
/** `silent`: hosts that may have it, too. */
type Search = { readonly found: readonly Placed<Template>[]; readonly silent: readonly Host[] };

export type TemplateSearchDeps = {
  readonly map: FleetMap;
  readonly hosts: E2bHosts;
  readonly seal: FleetSeal;
};

export class TemplateSearch {
  readonly #deps: TemplateSearchDeps;
  /** Hosts by the ids of templates and of builds, the oldest first. Hosts check keys themselves. */
  readonly #known = new Map<string, string>();

  constructor(deps: TemplateSearchDeps) {
    this.#deps = deps;
  }

  /** The newest first; none for the name of no template. E2bError 404 for an unknown tag; else as `assertKnown`. */
  async findBuilds(request: IncomingMessage, text: string): Promise<readonly Placed<Build>[]> {
    const wanted = SNAPSHOT_ID.test(text) ? undefined : readName(text);
    if (wanted === undefined) return [];
    const { found: all, silent } = await this.search(request, wanted.name);
    const builds = all.flatMap(({ host, value }) => value.builds.map((each) => ({ host, value: each })));
    const { tag = DEFAULT_TAG } = wanted;
    const tagged = byAge(builds.filter(({ value }) => value.tags.includes(tag)));
    if (tagged.length > 0) return tagged;
    if (builds.length > 0)
      throw new E2bError(404, `template '${wanted.name}' has no build with the tag ${tag}`);
    await this.assertKnown(request, text, silent);
    return [];
  }

  /** Where a create can begin with one of these, the newest first. E2bError 409 if no host can. */
  toCreate(builds: readonly Placed<Build>[]): CreateRequest | undefined {
    const [newest] = builds;
    if (newest === undefined) return undefined;
    const { vcpus, memoryMib, snapshotId } = newest.value;
    if (snapshotId === undefined) return { vcpus, memoryMib, on: newest.host.name };
    const all = builds.filter(({ value }) => value.snapshotId === snapshotId);
    const fitting = new Set(
      all.filter(({ value }) => value.problem === undefined).map(({ host }) => host.name),
    );
    const [first] = fitting;
    if (first === undefined)
      throw new E2bError(
        409,
        `the template fits no host that answers: ${newest.host.name}: ${newest.value.problem}`,
      );
    const not = this.#deps.map.hosts().flatMap(({ name }) => (fitting.has(name) ? [] : [name]));
    if (fitting.size === 1 || not.length > MAX_EXCLUDED) return { vcpus, memoryMib, on: first };
    return { vcpus, memoryMib, not, prefers: toSnapshotHolding(snapshotId), isCopied: true };
  }

  /** RefusedCaller. */
  async search(request: IncomingMessage, idOrName: string): Promise<Search> {
    const { hosts, seal } = this.#deps;
    const path = `/sandboxd/templates/${encodeURIComponent(idOrName)}`;
    const serving = hosts.hosts().filter(({ doors }) => doors.e2b !== undefined);
    const asked = await hosts.ask(request, path, serving, [...writeQuestion(path, seal), SHARED_HEADER, '1']);
    const all = asked.map(({ host, found: answered }) => ({ host, facts: readFacts(answered) }));
    const placed = all.flatMap(({ host, facts }) =>
      facts?.template ? [{ host, value: facts.template }] : [],
    );
    for (const { host, value } of placed)
      if (placed.filter((each) => each.value.id === value.id).length === 1) this.remember(value.id, host);
    const isRead = all.some(({ facts }) => facts?.hasRead === true);
    return {
      found: placed.filter((each) => this.#isBelieved(each, placed)),
      // What is in the bucket, one that has read it knows for all.
      silent: all
        .filter(({ facts }) => facts === undefined || (facts.hasRead === false && !isRead))
        .map(({ host }) => host),
    };
  }

  /** A host takes no template of another one that does not share it. */
  #isBelieved({ host, value }: Placed<Template>, all: readonly Placed<Template>[]): boolean {
    const holder = this.holderOf(value.id) ?? host;
    if (holder.name === host.name) return true;
    const isShared = (each: Template): boolean =>
      each.builds.some(({ snapshotId }) => snapshotId !== undefined);
    const held = all.find((each) => each.host.name === holder.name && each.value.id === value.id);
    return isShared(value) && (held === undefined || isShared(held.value));
  }

  /**
   * Nothing else may take the place of what a host has that does not answer, such as an image of that name. AppError
   * upstream, unless the name is that of a profile, which no template has.
   */
  async assertKnown(request: IncomingMessage, text: string, [silent]: readonly Host[]): Promise<void> {
    if (silent === undefined || PROFILES.has(text)) return;
    const { hosts } = this.#deps;
    const asked = await hosts.ask(request, `/templates/aliases/${encodeURIComponent(text)}`);
    const isNamed = ({ found: answered }: (typeof asked)[number]): boolean =>
      answered?.answer.statusCode === 200 && readAnswer(named, answered) !== undefined;
    if (asked.some(isNamed)) return;
    throw new AppError(
      'upstream',
      `the host ${silent.name} does not answer, and may have the template or snapshot ${text}`,
    );
  }

  holderOf(id: string): Host | undefined {
    return this.#deps.map.host(this.#known.get(id) ?? '');
  }

  /** No host takes the id of one that another has. */
  remember(id: string, { name }: Host): void {
    if (!KNOWN_ID.test(id) || (this.holderOf(id)?.name ?? name) !== name) return;
    this.#known.delete(id);
    if (this.#known.size >= MAX_KNOWN) this.#known.delete(this.#known.keys().next().value ?? '');
    this.#known.set(id, name);
  }
}

/** The newest first. */
export function byAge<T extends { readonly createdAtMs: number }>(all: readonly Placed<T>[]): Placed<T>[] {
  return all.toSorted((a, b) => b.value.createdAtMs - a.value.createdAtMs);
}

/** The newest first. Of hosts that share one: where that build is, or another one runs, then where its files are. */
export function byUse(all: readonly Placed<Template>[], buildId = ''): Placed<Template>[] {
  const rank = ({ value: { runs, isBuilding, isHere } }: Placed<Template>): number =>
    (runs.includes(buildId) ? 4 : 0) + (isBuilding ? 2 : 0) + (isHere ? 1 : 0);
  return all.toSorted(
    (a, b) =>
      b.value.createdAtMs - a.value.createdAtMs || rank(b) - rank(a) || (a.host.name < b.host.name ? -1 : 1),
  );
}

/** Undefined: it does not say. */
function readFacts(answered: HostAnswer | undefined): Facts | undefined {
  const { statusCode = 500 } = answered?.answer ?? {};
  if (statusCode === 404) return {};
  return answered === undefined || statusCode !== 200 ? undefined : readAnswer(found, answered);
}
