// A create request as the lines of a terminal that do the same.
import type { CreateOptions } from '@sandboxd/client';
import { toShellWord } from '../parts/format.ts';

/** With `hasKey` the key comes from the environment, and is not in the line. */
export function toCurl(url: string, body: CreateOptions, hasKey: boolean): string {
  const parts = ['curl', '-X', 'POST', toShellWord(`${url}/sandboxes`)];
  if (hasKey) parts.push('-H', '"Authorization: Bearer $SANDBOXD_API_KEY"');
  parts.push('-d', toShellWord(JSON.stringify(body)));
  return parts.join(' ');
}

/** `sandbox run` without a command: it prints the id of the sandbox. */
export function toCommand(body: CreateOptions, defaultProfile: string): string {
  const { image, profile, name, labels, memory_mib, vcpus, timeout_s, network } = body;
  const flags = [
    name && ['--name', name],
    ...Object.entries(labels ?? {}).map(([key, value]) => ['--label', `${key}=${value}`]),
    memory_mib && ['--memory', `${memory_mib}m`],
    vcpus && ['--cpus', String(vcpus)],
    timeout_s && ['--timeout', `${timeout_s}s`],
    ...(network?.allowlist ?? []).map((host) => ['--network-allow', host]),
  ];
  const words = flags.flatMap((flag) => flag || []);
  const source = image?.oci ?? profile ?? defaultProfile;
  return ['sandbox run', ...words.map(toShellWord), toShellWord(source)].join(' ');
}

export type Form = {
  readonly source: 'profile' | 'image';
  readonly profile: string;
  readonly image: string;
  readonly name: string;
  readonly labels: string;
  readonly vcpus: string;
  readonly memory: string;
  readonly timeout: string;
  readonly hosts: string;
};

export const EMPTY_FORM: Form = {
  source: 'profile',
  profile: '',
  image: '',
  name: '',
  labels: '',
  vcpus: '',
  memory: '',
  timeout: '',
  hosts: '',
};

const MIB_PER: Readonly<Record<string, number>> = { m: 1, g: 1024, t: 1024 ** 2 };
const SECONDS_PER: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400 };

export type ParsedForm = {
  readonly request: CreateOptions;
  /** What is wrong with fields: such a form is not sent, since a field that is left out is the default. */
  readonly problems: Readonly<Partial<Record<keyof Form, string>>>;
};

/** What is empty is the daemon's default. The daemon checks the rest. */
export function parseForm(form: Form): ParsedForm {
  const labels = toWords(form.labels).map((word) => {
    const at = word.indexOf('=');
    return at === -1 ? [word, ''] : [word.slice(0, at), word.slice(at + 1)];
  });
  const hosts = toWords(form.hosts);
  const vcpus = toWhole(form.vcpus, {}, 1);
  const memory = toWhole(form.memory, MIB_PER, 1);
  const timeout = toWhole(form.timeout, SECONDS_PER, SECONDS_PER.m ?? 60);
  const request = {
    ...(form.source === 'profile' && form.profile !== '' && { profile: form.profile }),
    ...(form.source === 'image' && { image: { oci: form.image.trim() } }),
    ...(form.name.trim() !== '' && { name: form.name.trim() }),
    ...(labels.length > 0 && { labels: Object.fromEntries(labels) as Record<string, string> }),
    ...(typeof vcpus === 'number' && { vcpus }),
    ...(typeof memory === 'number' && { memory_mib: memory }),
    ...(typeof timeout === 'number' && { timeout_s: timeout }),
    ...(hosts.length > 0 && { network: { enabled: true, allowlist: hosts } }),
  };
  const problems = {
    ...(vcpus === 'bad' && { vcpus: 'A whole number, such as 2' }),
    ...(memory === 'bad' && { memory: 'Such as 512, 512m or 2g' }),
    ...(timeout === 'bad' && { timeout: 'Such as 90, 30s, 10m or 2h; empty: never' }),
  };
  return { request, problems };
}

/** A whole number above 0, with one of the units or without. */
function toWhole(
  text: string,
  units: Readonly<Record<string, number>>,
  plain: number,
): number | 'bad' | undefined {
  const trimmed = text.trim().toLowerCase();
  if (trimmed === '') return undefined;
  const [, digits, unit = ''] = /^(\d{1,9}(?:\.\d{1,3})?)([a-z]?)$/.exec(trimmed) ?? [];
  const factor = unit === '' ? plain : Object.hasOwn(units, unit) ? units[unit] : undefined;
  const value = Number(digits) * (factor ?? Number.NaN);
  return Number.isInteger(value) && value > 0 ? value : 'bad';
}

function toWords(text: string): readonly string[] {
  return text.split(/[\s,]+/).filter(Boolean);
}
