// What a pod that others made asks for, as a create of a sandbox. Only fields that are listed here are taken: with any
// other one the pod would not be what its author wrote, so that it is refused.
import { DEFAULT_MEMORY_MIB, DEFAULT_VCPUS } from '@sandboxd/api';
import { z } from 'zod';
import { readQuantity } from '../kube/objects.ts';
import { Expansion } from './expansion.ts';
import { CPU_MILLIS, PLACE_LABEL } from './pods.ts';

const MIB = 2 ** 20;
/** Images with this prefix are profiles of the host. */
const PROFILE_PREFIX = 'sandboxd.dev/profile/';
const ALLOW_HOSTS = 'sandboxd.dev/allow-hosts';
const PRESETS = 'sandboxd.dev/network-presets';
const POD_LABEL = 'sandboxd.dev/pod';
const MAX_LABEL_CHARS = 63;
const MAX_PROBLEMS = 8;
/** Of a command with its arguments, as long as a body of the API. */
const MAX_COMMAND_CHARS = MIB;
const MAX_ITEMS = 1000;
const MAX_PATH_CHARS = 1024;
/** Admission puts the token of the service account into every pod; guests get none. */
const TOKEN_VOLUME = /^kube-api-access-[a-z0-9]+$/;

const text = z.string().max(64 * 1024);
const ignored = z.unknown().optional();
const off = z.literal(false, { error: 'is not supported' }).optional();
const none = z.array(z.unknown()).max(0, { error: 'are not supported' }).optional();

const keyRef = z.strictObject({ name: text, key: text, optional: z.boolean().default(false) });
const variable = z.strictObject({
  name: text,
  value: text.optional(),
  valueFrom: z
    .strictObject({
      secretKeyRef: keyRef.optional(),
      configMapKeyRef: keyRef.optional(),
      fieldRef: z.strictObject({ apiVersion: ignored, fieldPath: text }).optional(),
    })
    .optional(),
});

const user = {
  runAsUser: z.int().min(0).optional(),
  runAsGroup: z.int().min(0).optional(),
  runAsNonRoot: z.boolean().default(false),
  seccompProfile: ignored,
  appArmorProfile: ignored,
  seLinuxOptions: ignored,
};

const port = z.union([z.int().min(1).max(65_535), text]);
const probe = z
  .strictObject({
    tcpSocket: z.strictObject({ port }).optional(),
    httpGet: z
      .strictObject({
        port,
        path: text
          .max(MAX_PATH_CHARS)
          .regex(/^\/[!-~]*$/)
          .default('/'),
        scheme: z.literal('HTTP', { error: 'is not supported: only HTTP' }).optional(),
      })
      .optional(),
    ...{ initialDelaySeconds: ignored, periodSeconds: ignored, timeoutSeconds: ignored },
    successThreshold: ignored,
    failureThreshold: z.int().min(1).default(3),
  })
  .optional();

const container = z.strictObject({
  name: text.min(1),
  image: text.min(1),
  imagePullPolicy: z.enum(['Always', 'IfNotPresent', 'Never']).default('IfNotPresent'),
  command: z.array(text).max(MAX_ITEMS).optional(),
  args: z.array(text).max(MAX_ITEMS).optional(),
  workingDir: text.optional(),
  env: z.array(variable).max(MAX_ITEMS).default([]),
  ports: z
    .array(
      z.strictObject({
        name: text.optional(),
        containerPort: z.int().min(1).max(65_535),
        protocol: z.literal('TCP', { error: 'is not supported: only TCP' }).optional(),
        hostPort: z.literal(0, { error: 'is not supported' }).optional(),
      }),
    )
    .max(MAX_ITEMS)
    .default([]),
  resources: z
    .strictObject({
      requests: z.strictObject({ cpu: text.optional(), memory: text.optional() }).prefault({}),
      limits: z.strictObject({ cpu: text.optional(), memory: text.optional() }).prefault({}),
    })
    .prefault({}),
  resizePolicy: ignored,
  terminationMessagePath: ignored,
  terminationMessagePolicy: ignored,
  readinessProbe: probe,
  // The service is restarted when its process ends.
  ...{ livenessProbe: ignored, startupProbe: ignored },
  stdin: off,
  stdinOnce: off,
  tty: off,
  volumeMounts: z
    .array(z.looseObject({ name: text.regex(TOKEN_VOLUME, { error: 'is not supported' }) }))
    .max(MAX_ITEMS)
    .optional(),
  securityContext: z
    .strictObject({
      ...user,
      privileged: off,
      // A guest has a kernel of its own; these limit what a process may ask of a shared one.
      ...{ allowPrivilegeEscalation: ignored, readOnlyRootFilesystem: off, procMount: ignored },
      capabilities: z.strictObject({ drop: ignored, add: none }).optional(),
    })
    .optional(),
});

const podSpec = z.strictObject({
  containers: z.array(container).min(1).max(1, { error: 'must be one: sidecars are not supported' }),
  ...{ initContainers: none, ephemeralContainers: ignored, imagePullSecrets: none, readinessGates: none },
  volumes: z
    .array(
      z.strictObject({
        name: text.regex(TOKEN_VOLUME, { error: 'is not supported: a sandbox has no volumes' }),
        projected: z.unknown(),
      }),
    )
    .max(MAX_ITEMS)
    .optional(),
  ...{ hostNetwork: off, hostPID: off, hostIPC: off, shareProcessNamespace: off, setHostnameAsFQDN: off },
  restartPolicy: z.enum(['Always', 'OnFailure', 'Never']).default('Always'),
  activeDeadlineSeconds: z.int().min(1).optional(),
  terminationGracePeriodSeconds: z.int().min(0).default(30),
  securityContext: z
    .strictObject({
      ...user,
      ...{ fsGroup: ignored, fsGroupChangePolicy: ignored },
      ...{ supplementalGroups: none, supplementalGroupsPolicy: ignored, sysctls: none },
    })
    .optional(),
  // What concerns the scheduler and the API server, and what means nothing in a guest.
  ...{ runtimeClassName: ignored, overhead: ignored, nodeName: ignored, nodeSelector: ignored },
  ...{ affinity: ignored, tolerations: ignored, topologySpreadConstraints: ignored, schedulerName: ignored },
  ...{ schedulingGates: ignored, priority: ignored, priorityClassName: ignored, preemptionPolicy: ignored },
  ...{ serviceAccount: ignored, serviceAccountName: ignored, automountServiceAccountToken: ignored },
  ...{ enableServiceLinks: ignored, dnsPolicy: ignored, hostname: ignored, subdomain: ignored, os: ignored },
  // Names are resolved by the daemon, which knows what the guest may reach.
  ...{ hostUsers: ignored, dnsConfig: ignored },
});

type Spec = z.output<typeof podSpec>;
type Container = z.output<typeof container>;

export type RestartPolicy = Spec['restartPolicy'];
export type Variable = z.output<typeof variable>;

/** It is ready while the port of its guest takes connections, or answers a GET for the path with 200 to 399. */
export type Readiness = { readonly port: number; readonly path?: string; readonly failureThreshold: number };

/** Of a pod. */
export type WishSource = {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  readonly spec: unknown;
};

/** `refusal`: why it cannot be a sandbox. */
export type Asked = { readonly wish: Wish } | { readonly refusal: string };

export type Wish = {
  readonly container: string;
  readonly image: string;
  readonly variables: readonly Variable[];
  readonly vcpus: number;
  readonly memoryMib: number;
  readonly ports: readonly number[];
  readonly restartPolicy: RestartPolicy;
  readonly readiness: Readiness | undefined;
  /** A body of POST /sandboxes. `address`: of the pod; absent: its ports are not published. AppError. */
  toBody(env: Readonly<Record<string, string>>, address: string | undefined): Record<string, unknown>;
};

const short = z.string().max(1024);
const named = z.object({ containers: z.array(z.object({ name: short, image: short })).min(1) });

/** The container of a pod, for its status. */
export function readContainer({ spec }: Pick<WishSource, 'spec'>): Pick<Wish, 'container' | 'image'> {
  const [first] = named.safeParse(spec).data?.containers ?? [];
  return { container: first?.name ?? '', image: first?.image ?? '' };
}

export function readWish({ spec, ...pod }: WishSource): Asked {
  const parsed = podSpec.safeParse(spec);
  if (!parsed.success) {
    const problems = parsed.error.issues.flatMap(explain);
    return { refusal: problems.slice(0, MAX_PROBLEMS).join('; ') };
  }
  const [only] = parsed.data.containers;
  if (only === undefined) return { refusal: 'spec.containers must be one' };
  const size = readSize(only);
  const who = readUser(parsed.data, only);
  const refusal = [size, who].flatMap((each) => ('refusal' in each ? [each.refusal] : []));
  if ('refusal' in size || 'refusal' in who) return { refusal: refusal.join('; ') };
  if (only.command === undefined && only.args !== undefined)
    return {
      refusal: `args without a command are not supported: give the whole command of ${only.image}`,
    };
  const [network, labels] = [toNetwork(pod), toLabels(pod)];
  const ports = [...new Set(only.ports.map(({ containerPort }) => containerPort))];
  return {
    wish: {
      ...{ container: only.name, image: only.image, variables: only.env, ports, ...size },
      restartPolicy: parsed.data.restartPolicy,
      readiness: toReadiness(only),
      toBody: (env, address) => ({
        ...{ vcpus: size.vcpus, memory_mib: size.memoryMib, env },
        ...toRoot(only),
        ...toService(parsed.data, only, who.user, env),
        ...network,
        labels,
        timeout_s: parsed.data.activeDeadlineSeconds ?? 0,
        ...(address !== undefined && {
          publish: ports.map((port) => ({ host_ip: address, host_port: port, guest_port: port })),
        }),
      }),
    },
  };
}

function explain(issue: z.core.$ZodIssue): string[] {
  const path = ['spec', ...issue.path].map(String).join('.').slice(0, 200);
  if (issue.code === 'unrecognized_keys')
    return issue.keys.map((key) => `${path}.${key.slice(0, 100)} is not supported`);
  return [`${path} ${issue.message}`];
}

/** The memory that counts in quotas is what a guest gets, and the scheduler counts its vCPUs as those of gateways. */
function readSize({ resources: { requests, limits } }: Container) {
  const memory = requests.memory ?? limits.memory;
  if (limits.memory !== undefined && readQuantity(limits.memory) !== readQuantity(memory ?? ''))
    return { refusal: 'resources: requests.memory and limits.memory must be the same' };
  const bytes = memory === undefined ? DEFAULT_MEMORY_MIB * MIB : readQuantity(memory);
  const asked = limits.cpu ?? requests.cpu;
  const cpus = asked === undefined ? DEFAULT_VCPUS : readQuantity(asked);
  if (bytes === undefined || cpus === undefined)
    return { refusal: 'resources: a quantity cannot be read; write such as 500m and 512Mi' };
  const vcpus = Math.max(1, Math.ceil(cpus));
  const counted = requests.cpu === undefined ? undefined : (readQuantity(requests.cpu) ?? 0) * 1000;
  if (counted !== undefined && Math.round(counted) < vcpus * CPU_MILLIS)
    return { refusal: `resources: requests.cpu must be ${vcpus * CPU_MILLIS}m or more for ${vcpus} vCPUs` };
  return { vcpus, memoryMib: Math.floor(bytes / MIB) };
}

function readUser(
  { securityContext: ofPod }: Spec,
  { securityContext: own }: Container,
): { readonly user: string | undefined } | { readonly refusal: string } {
  const id = own?.runAsUser ?? ofPod?.runAsUser;
  const group = own?.runAsGroup ?? ofPod?.runAsGroup;
  if ((own?.runAsNonRoot || ofPod?.runAsNonRoot) && (id ?? 0) === 0)
    return { refusal: 'securityContext: runAsNonRoot needs a runAsUser that is not 0' };
  if (id === undefined && group === undefined) return { user: undefined };
  return { user: group === undefined ? String(id) : `${id ?? 0}:${group}` };
}

function toReadiness({ readinessProbe, ports }: Container): Readiness | undefined {
  const { tcpSocket, httpGet } = readinessProbe ?? {};
  const asked = httpGet ?? tcpSocket;
  if (asked === undefined) return undefined;
  // A name that no port has is never ready, as elsewhere.
  const named = ports.find(({ name }) => name === asked.port)?.containerPort ?? 0;
  return {
    port: typeof asked.port === 'number' ? asked.port : named,
    ...(httpGet !== undefined && { path: httpGet.path }),
    failureThreshold: readinessProbe?.failureThreshold ?? 1,
  };
}

function toRoot({ image, imagePullPolicy }: Container) {
  if (image.startsWith(PROFILE_PREFIX)) return { profile: image.slice(PROFILE_PREFIX.length) };
  const pull = { Always: 'always', IfNotPresent: 'missing', Never: 'never' }[imagePullPolicy];
  return { image: { oci: image }, pull };
}

function toService(
  { restartPolicy, terminationGracePeriodSeconds: stop_grace_s }: Spec,
  { image, command, args = [], workingDir }: Container,
  runAs: string | undefined,
  env: Readonly<Record<string, string>>,
) {
  // A profile without a command is a sandbox that waits for commands of clients.
  if (command === undefined && image.startsWith(PROFILE_PREFIX)) return {};
  const policy = { Always: 'always', OnFailure: 'on-failure', Never: 'never' }[restartPolicy];
  return {
    service: {
      ...(command !== undefined && { cmd: expandAll([...command, ...args], env) }),
      ...(workingDir !== undefined && { cwd: workingDir }),
      ...(runAs !== undefined && { user: runAs }),
      ...{ restart: { policy }, stop_grace_s },
    },
  };
}

function expandAll(texts: readonly string[], env: Readonly<Record<string, string>>): string[] {
  const expansion = new Expansion('the command', MAX_COMMAND_CHARS);
  return texts.map((each) => expansion.expand(each, env));
}

function toNetwork({ annotations }: Pick<WishSource, 'annotations'>) {
  const list = (key: string): string[] =>
    (annotations[key] ?? '')
      .split(',')
      .map((each) => each.trim())
      .filter((each) => each !== '');
  const [allowlist, presets] = [list(ALLOW_HOSTS), list(PRESETS)];
  if (allowlist.length + presets.length === 0) return {};
  return { network: { enabled: true, allowlist, ...(presets.length > 0 && { presets }) } };
}

function toLabels({ name, labels }: Pick<WishSource, 'name' | 'labels'>): Record<string, string> {
  const own = Object.entries(labels).filter(([key]) => key !== PLACE_LABEL && key !== POD_LABEL);
  return Object.fromEntries([...own, ...(name.length <= MAX_LABEL_CHARS ? [[POD_LABEL, name]] : [])]);
}

/** `metadata.labels['KEY']` and `metadata.annotations['KEY']`. */
export function readFieldPath(
  path: string,
): { readonly kind: 'labels' | 'annotations'; readonly key: string } | undefined {
  const [, kind, key = ''] = /^metadata\.(labels|annotations)\['(.+)'\]$/.exec(path) ?? [];
  return kind === 'labels' || kind === 'annotations' ? { kind, key } : undefined;
}
