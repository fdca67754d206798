// The environment of a pod that others made: values, fields of the pod, and keys of the Secrets and ConfigMaps that it
// names. The API server gives a node those of pods that are bound to it; they are always of the pod's own namespace.
import { z } from 'zod';
import { AppError } from '../../lib/errors.ts';
import { isRefusal, type KubeClient } from '../kube/client.ts';
import type { ForeignPod } from '../kubernetes/foreign-pods.ts';
import { expand, type Variable } from '../kubernetes/pod-wish.ts';

const KINDS = { secretKeyRef: 'secrets', configMapKeyRef: 'configmaps' } as const;
const holder = z.object({ data: z.record(z.string(), z.string()).default({}) });

/**
 * AppError invalid_argument for a field that a pod does not have here, upstream for an object or key that cannot be had
 * now: it may come.
 */
export async function readEnvironment(
  pod: ForeignPod,
  variables: readonly Variable[],
  client: KubeClient,
  signal: AbortSignal,
): Promise<Record<string, string>> {
  const objects = new Map<string, Promise<Readonly<Record<string, string>> | undefined>>();
  const fetch = (kind: string, name: string) => {
    const path = `/api/v1/namespaces/${encodeURIComponent(pod.namespace)}/${kind}/${encodeURIComponent(name)}`;
    const known = objects.get(path) ?? readData(client, path, `${kind} ${name}`, signal);
    objects.set(path, known);
    return known;
  };
  const env: Record<string, string> = Object.create(null);
  for (const { name, value = '', valueFrom } of variables) {
    if (valueFrom === undefined) {
      env[name] = expand(value, env);
      continue;
    }
    if (valueFrom.fieldRef !== undefined) {
      env[name] = readField(pod, valueFrom.fieldRef.fieldPath);
      continue;
    }
    const from = valueFrom.secretKeyRef !== undefined ? 'secretKeyRef' : 'configMapKeyRef';
    const reference = valueFrom[from];
    if (reference === undefined)
      throw new AppError('invalid_argument', `env ${name}: valueFrom has nothing that is supported`);
    const found = (await fetch(KINDS[from], reference.name))?.[reference.key];
    if (found === undefined && reference.optional) continue;
    if (found === undefined)
      throw new AppError(
        'upstream',
        `env ${name}: there is no key ${reference.key} in ${KINDS[from]} ${reference.name}`,
      );
    env[name] = from === 'secretKeyRef' ? Buffer.from(found, 'base64').toString() : found;
  }
  return { ...env };
}

/** Undefined: there is no such object. */
async function readData(
  client: KubeClient,
  path: string,
  what: string,
  signal: AbortSignal,
): Promise<Readonly<Record<string, string>> | undefined> {
  try {
    return holder.parse(await client.request({ method: 'GET', path, signal })).data;
  } catch (error) {
    if (isRefusal(error, 404)) return undefined;
    if (isRefusal(error, 403)) {
      const message = `this host may not read ${what}: it needs an identity of its own (system:node)`;
      throw new AppError('upstream', message, { cause: error });
    }
    throw error;
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
  const [, kind, key = ''] = /^metadata\.(labels|annotations)\['(.+)'\]$/.exec(path) ?? [];
  if (kind !== undefined) return (kind === 'labels' ? labels : annotations)[key] ?? '';
  if (Object.hasOwn(fields, path)) return fields[path] ?? '';
  throw new AppError('invalid_argument', `fieldRef ${path.slice(0, 100)} is not supported`);
}
