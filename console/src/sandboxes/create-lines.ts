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

/** The request of a form; what is empty is the daemon's default. The daemon checks the rest. */
export function toRequest(form: Form): CreateOptions {
  const labels = toWords(form.labels).map((word) => {
    const at = word.indexOf('=');
    return at === -1 ? [word, ''] : [word.slice(0, at), word.slice(at + 1)];
  });
  const hosts = toWords(form.hosts);
  const minutes = Number(form.timeout);
  return {
    ...(form.source === 'profile' && form.profile !== '' && { profile: form.profile }),
    ...(form.source === 'image' && { image: { oci: form.image.trim() } }),
    ...(form.name.trim() !== '' && { name: form.name.trim() }),
    ...(labels.length > 0 && { labels: Object.fromEntries(labels) as Record<string, string> }),
    ...(form.vcpus !== '' && { vcpus: Number(form.vcpus) }),
    ...(form.memory !== '' && { memory_mib: Number(form.memory) }),
    ...(minutes > 0 && { timeout_s: Math.round(60 * minutes) }),
    ...(hosts.length > 0 && { network: { enabled: true, allowlist: hosts } }),
  };
}

function toWords(text: string): readonly string[] {
  return text.split(/[\s,]+/).filter(Boolean);
}
