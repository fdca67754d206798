// What a policy says to a request as it will be carried out: defaults filled in, what a copy inherits included.
import type { Policy } from '@sandboxd/api';
import { checkPublished, type Published } from './published.ts';

/** Of an allowlist, in a message. */
const MAX_SHOWN_HOSTS = 5;

/** Sandboxes to make, all alike. */
export type RequestedResources = {
  readonly count: number;
  /** Whether they are copies of a snapshot. */
  readonly areForks: boolean;
  readonly vcpus: number;
  readonly memoryMib: number;
  readonly diskBytes: number;
  /** 0: no end. */
  readonly timeoutS: number;
  /** 0: may be idle without end. */
  readonly idleTimeoutS: number;
  /** Whether they are saved when they were idle for so long. */
  readonly savesItself: boolean;
  readonly rootfs: { readonly kind: 'profile' | 'image'; readonly name: string };
  /** Absent: no network. */
  readonly allowlist?: readonly string[];
  /** Ports of the host; absent: none. */
  readonly publish?: readonly Published[];
  /** A service is started in them, of the request or of the image. */
  readonly startsService: boolean;
};

/** A sentence's part for each limit that is passed. */
export function findPassed(policy: Policy, requested: RequestedResources): string[] {
  const {
    max_vcpus,
    max_memory_mib,
    max_timeout_s,
    max_idle_timeout_s,
    max_fork,
    allow_profiles,
    net_allow_max,
  } = policy;
  return [
    ...over('vcpus', requested.vcpus, 'max_vcpus', max_vcpus),
    ...over('memory_mib', requested.memoryMib, 'max_memory_mib', max_memory_mib),
    ...checkTime('timeout_s', requested.timeoutS, 'max_timeout_s', max_timeout_s),
    ...checkTime('idle_timeout_s', requested.idleTimeoutS, 'max_idle_timeout_s', max_idle_timeout_s),
    ...(requested.areForks ? over('count', requested.count, 'max_fork', max_fork) : []),
    ...checkRootfs(requested.rootfs, allow_profiles),
    ...checkNetwork(requested.allowlist, net_allow_max),
    ...checkPublished(requested.publish ?? [], policy),
  ];
}

/** A command's time limit within a policy, which bounds it instead of refusing it. */
export function clampTimeout(timeoutS: number, { max_timeout_s: most }: Policy): number {
  if (most === undefined) return timeoutS;
  return timeoutS <= 0 ? most : Math.min(timeoutS, most);
}

/** What a message says of the limit when it is passed, else nothing. */
export function over(what: string, value: number, limit: string, most: number | undefined): string[] {
  return most !== undefined && value > most ? [`${what} ${value} is over ${limit} ${most}`] : [];
}

function checkTime(what: string, seconds: number, limit: string, most: number | undefined): string[] {
  if (most === undefined || seconds > 0) return over(what, seconds, limit, most);
  return [`${what} 0, which is no end, is over ${limit} ${most}`];
}

/** An image is no profile that anybody allowed. */
function checkRootfs(
  { kind, name }: RequestedResources['rootfs'],
  allowed: readonly string[] | undefined,
): string[] {
  if (allowed === undefined || (kind === 'profile' && allowed.includes(name))) return [];
  return [`${kind} ${JSON.stringify(name)} is not among allow_profiles ${JSON.stringify(allowed)}`];
}

function checkNetwork(
  allowlist: readonly string[] | undefined,
  most: readonly string[] | undefined,
): string[] {
  if (most === undefined || allowlist === undefined) return [];
  if (most.length === 0) return ['a network is over net_allow_max, which is empty'];
  const beyond = allowlist.filter((pattern) => !most.some((allowed) => covers(allowed, pattern)));
  if (beyond.length === 0) return [];
  const shown = beyond.slice(0, MAX_SHOWN_HOSTS).join(', ') + (beyond.length > MAX_SHOWN_HOSTS ? ', …' : '');
  return [`allowlist ${shown} is not within net_allow_max ${most.join(', ')}`];
}

/** `*.example.com` stands for exactly one more label, so it covers itself and `a.example.com`. */
function covers(allowed: string, pattern: string): boolean {
  if (allowed === pattern) return true;
  const [label = '', ...rest] = pattern.split('.');
  return label !== '*' && allowed === `*.${rest.join('.')}`;
}
