// Templates that several hosts change: what each of them knows is joined so that all come to the same, in any order.
// Each tag is that of the build that got it last.
import { isDeepStrictEqual } from 'node:util';
import type { Template, TemplateBuild } from './template.ts';

/** Tags that no build has any more, with the time when the last one lost it. */
const MAX_LOST_TAGS = 100;

/** Whose a tag is, and since when. */
type Claim = { readonly build: string | undefined; readonly atMs: number };
type Times = Readonly<Record<string, number>>;

/** Builds that have no tag are gone. Both are of one id. */
export function mergeTemplates(a: Template, b: Template): Template {
  const names = new Set([a, b].flatMap((each) => [...tagsOf(each), ...Object.keys(each.tagTimes ?? {})]));
  const claims = [...names].sort().flatMap((tag) => {
    const claim = later(claimOf(a, tag), claimOf(b, tag));
    return claim === undefined ? [] : [[tag, claim] as const];
  });
  const builds = new Map([...a.builds, ...b.builds].map((each) => [each.id, each]));
  const tagged = [...builds.values()].flatMap((each) => {
    const tags = claims.flatMap(([tag, { build }]) => (build === each.id ? [tag] : []));
    return tags.length === 0 ? [] : [{ ...each, tags }];
  });
  const times = claims.map(([tag, { atMs }]) => [tag, atMs] as const);
  const merged = { ...a, ...b, builds: tagged.sort(byAge) };
  return { ...merged, tagTimes: dropOldest(Object.fromEntries(times), merged.builds) };
}

/** The same content, whatever the order. */
export function areEqual(a: Template | undefined, b: Template | undefined): boolean {
  const plain = (each: Template | undefined): unknown => JSON.parse(JSON.stringify(each ?? null));
  return isDeepStrictEqual(plain(a), plain(b));
}

/** When each tag got the build that has it, or lost the last one. `nowMs`: of those that differ. */
export function toTagTimes(
  before: Pick<Template, 'builds' | 'tagTimes'>,
  builds: readonly TemplateBuild[],
  nowMs: number,
): Times {
  const times = new Map(Object.entries(before.tagTimes ?? {}));
  for (const tag of new Set([...tagsOf(before), ...tagsOf({ builds })])) {
    const [old, build] = [claimOf(before, tag), holderOf({ builds }, tag)];
    if (old?.build !== build?.id) times.set(tag, Math.max(nowMs, (old?.atMs ?? 0) + 1));
  }
  return dropOldest(Object.fromEntries(times), builds);
}

/** What the others may know: builds of which the store has the snapshot, and tags of no other one. */
export function toShareable(template: Template, isStored: (build: TemplateBuild) => boolean): Template {
  const builds = template.builds.filter(isStored);
  const hidden = new Set(tagsOf({ builds: template.builds.filter((each) => !builds.includes(each)) }));
  const times = Object.entries(template.tagTimes ?? {}).filter(([tag]) => !hidden.has(tag));
  const shown = { ...template, builds, tagTimes: Object.fromEntries(times) };
  return mergeTemplates(shown, shown);
}

/** The newest build counts, then the id, so that all hosts choose the same of several with one name. */
export function byNewestBuild(a: Template, b: Template): number {
  const newestMs = ({ builds }: Template) => Math.max(0, ...builds.map(({ createdAtMs }) => createdAtMs));
  return newestMs(b) - newestMs(a) || b.createdAtMs - a.createdAtMs || (a.id < b.id ? -1 : 1);
}

function byAge(a: TemplateBuild, b: TemplateBuild): number {
  return a.createdAtMs - b.createdAtMs || (a.id < b.id ? -1 : 1);
}

function claimOf(template: Pick<Template, 'builds' | 'tagTimes'>, tag: string): Claim | undefined {
  const build = holderOf(template, tag);
  const atMs = timesOf(template).get(tag) ?? build?.createdAtMs;
  return atMs === undefined ? undefined : { build: build?.id, atMs };
}

function later(a: Claim | undefined, b: Claim | undefined): Claim | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  if (a.atMs !== b.atMs) return a.atMs > b.atMs ? a : b;
  return (a.build ?? '') >= (b.build ?? '') ? a : b;
}

function holderOf({ builds }: Pick<Template, 'builds'>, tag: string): TemplateBuild | undefined {
  return builds.find(({ tags }) => tags.includes(tag));
}

function tagsOf({ builds }: Pick<Template, 'builds'>): string[] {
  return builds.flatMap(({ tags }) => tags);
}

function timesOf({ tagTimes = {} }: Pick<Template, 'tagTimes'>): ReadonlyMap<string, number> {
  return new Map(Object.entries(tagTimes));
}

function dropOldest(times: Times, builds: readonly TemplateBuild[]): Times {
  const held = new Set(tagsOf({ builds }));
  const lost = Object.entries(times).filter(([tag]) => !held.has(tag));
  const kept = lost.sort(([, a], [, b]) => b - a).slice(0, MAX_LOST_TAGS);
  const all = [...Object.entries(times).filter(([tag]) => held.has(tag)), ...kept];
  return Object.fromEntries(all.sort(([a], [b]) => (a < b ? -1 : 1)));
}
