// The environment of a pod that others made: values, fields of the pod, and keys of the Secrets and ConfigMaps that it
// names. The API server gives a node those of pods that are bound to it; they are always of the pod's own namespace.
import { MAX_SANDBOX_ENV_CHARS } from '@sandboxd/api';
import { z } from 'zod';
import { AppError } from '../../lib/errors.ts';
import { isRefusal, type KubeClient } from '../kube/client.ts';
import { Expansion } from '../kubernetes/expansion.ts';
import type { ForeignPod } from '../kubernetes/foreign-pods.ts';
import { readFieldPath, type Variable } from '../kubernetes/pod-wish.ts';

const KINDS = { secretKeyRef: 'secrets', configMapKeyRef: 'configmaps' } as const;
const holder = z.object({ data: z.record(z.string(), z.string()).default({}) });

type Data = Readonly<Record<string, string>>;

/**
 * AppError invalid_argument for a field that a pod does not have here and for too many characters, upstream for an
 * object or key that cannot be had now: it may come.
 */
export async function readEnvironment(
  pod: ForeignPod,
  variables: readonly Variable[],
  client: KubeClient,
  signal: AbortSignal,
): Promise<Record<string, string>> {
  const sizes = new Expansion('env', MAX_SANDBOX_ENV_CHARS);
  // Of all that is kept of Secrets and ConfigMaps.
  const kept = new Expansion('env of Secrets and ConfigMaps', MAX_SANDBOX_ENV_CHARS * 2);
  const objects = new Map<string, Promise<Data | undefined>>();
  const fetch = (from: keyof typeof KINDS, name: string) => {
    const kind = KINDS[from];
    const path = `/api/v1/namespaces/${encodeURIComponent(pod.namespace)}/${kind}/${encodeURIComponent(name)}`;
    const read = async (): Promise<Data | undefined> => {
      const data = await readData(client, path, `${kind} ${name}`, signal);
      const keys = variables.flatMap(({ valueFrom }) =>
        valueFrom?.[from]?.name === name ? valueFrom[from].key : [],
      );
      return data && pick(data, new Set(keys), kept);
    };
    const known = objects.get(path) ?? read();
    objects.set(path, known);
    return known;
  };
  const env: Record<string, string> = Object.create(null);
  const put = (name: string, value: string): void => {
    sizes.count(name.length + value.length);
    env[name] = value;
  };
  for (const { name, value = '', valueFrom } of variables) {
    if (valueFrom === undefined) {
      env[name] = sizes.expand(value, env);
      sizes.count(name.length);
      continue;
    }
    if (valueFrom.fieldRef !== undefined) {
      put(name, readField(pod, valueFrom.fieldRef.fieldPath));
      continue;
    }
    const from = valueFrom.secretKeyRef !== undefined ? 'secretKeyRef' : 'configMapKeyRef';
    const reference = valueFrom[from];
    if (reference === undefined)
      throw new AppError('invalid_argument', `env ${name}: valueFrom has nothing that is supported`);
    const found = (await fetch(from, reference.name))?.[reference.key];
    if (found === undefined && reference.optional) continue;
    if (found === undefined)
      throw new AppError(
        'upstream',
        `env ${name}: there is no key ${reference.key} in ${KINDS[from]} ${reference.name}`,
      );
    put(name, from === 'secretKeyRef' ? Buffer.from(found, 'base64').toString() : found);
  }
  return { ...env };
}

/** The keys that are asked for; the others of an object are not kept. */
function pick(data: Data, keys: ReadonlySet<string>, sizes: Expansion): Data {
  const picked: Record<string, string> = Object.create(null);
  for (const key of keys) {
    if (!Object.hasOwn(data, key)) continue;
    picked[key] = data[key] ?? '';
    sizes.count(picked[key].length);
  }
  return picked;
}

/** Undefined: there is no such object. AppError upstream. */
async function readData(
  client: KubeClient,
  path: string,
  what: string,
  signal: AbortSignal,
): Promise<Data | undefined> {
  try {
    return holder.parse(await client.request({ method: 'GET', path, signal })).data;
  } catch (error) {
    if (isRefusal(error, 404)) return undefined;
    // The error itself may have an address of the API server, and authors of pods read what comes of it.
    const message = isRefusal(error, 403)
      ? `this host may not read ${what}: it needs an identity of its own (system:node)`
      : `${what} cannot be read now`;
    throw new AppError('upstream', message, { cause: error });
  }
}

/** AppError invalid_argument. */
function readField({ namespace, name, uid, node, labels, annotations }: ForeignPod, path: string): string {
  const fields: Readonly<Record<string, string>> = {
    'metadata.name': name,
    'metadata.namespace': namespace,
    'metadata.uid': uid,
    'spec.nodeName': node,
  };
  const { kind, key } = readFieldPath(path) ?? {};
  if (kind !== undefined && key !== undefined) {
    const texts = kind === 'labels' ? labels : annotations;
    return Object.hasOwn(texts, key) ? (texts[key] ?? '') : '';
  }
  if (Object.hasOwn(fields, path)) return fields[path] ?? '';
  throw new AppError('invalid_argument', `fieldRef ${path.slice(0, 100)} is not supported`);
}
