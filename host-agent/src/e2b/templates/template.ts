// A template that a client has built, and its builds.
import type { Owner } from '../../keys/index.ts';

/** What copies of a build begin with. */
export type Defaults = {
  /** Absent: the user `user`, or root where the guest has none. */
  readonly user?: string;
  /** Absent: the home of the user. */
  readonly workdir?: string;
  readonly env: Readonly<Record<string, string>>;
};

export type TemplateBuild = {
  readonly id: string;
  readonly snapshotId: string;
  readonly createdAtMs: number;
  readonly tags: readonly string[];
  readonly vcpus: number;
  readonly memoryMib: number;
  readonly diskBytes: number;
  readonly defaults: Defaults;
};

export type TemplateRecord = {
  readonly name: string;
  readonly owner?: Owner;
  readonly createdAtMs: number;
  readonly builds: readonly TemplateBuild[];
  /** When each tag got its build, or lost the last one; absent: with that build. */
  readonly tagTimes?: Readonly<Record<string, number>>;
  /** It was deleted, which other hosts do not know yet. */
  readonly deletedAtMs?: number;
};

export type Template = TemplateRecord & { readonly id: string };
