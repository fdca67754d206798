// The named schemas of the document. Each use of such a schema becomes a reference, so the document defines it once.
import { isDeepStrictEqual } from 'node:util';
import type { z } from 'zod';
import { type JsonSchema, toJsonSchema } from '../json-schema.ts';
import { INTERFACE_LIMITS } from '../limits.ts';
import { errorResponse } from '../schemas/answers.ts';
import { execResult, resourceUsage } from '../schemas/command.ts';
import { command, commandLine, commandList } from '../schemas/commands.ts';
import { egressRecord, egressResponse } from '../schemas/egress.ts';
import { event } from '../schemas/event.ts';
import { execRequest, resizeFrame, signalFrame } from '../schemas/exec.ts';
import { execOutput, execPiece } from '../schemas/exec-output.ts';
import {
  changeFileRequest,
  copyFileRequest,
  copyResult,
  fileEntry,
  fileList,
  makeDirectoryRequest,
  moveFileRequest,
  pushResult,
  removeResult,
  watchEvent,
} from '../schemas/file.ts';
import { host, hostList } from '../schemas/host.ts';
import { changeImageRequest, image, imageList, imageRef, pullImageRequest } from '../schemas/image.ts';
import { linkList, linkRequest, madeLink } from '../schemas/link.ts';
import { logRecord, logsResponse } from '../schemas/log.ts';
import {
  engine,
  healthResponse,
  hostChecksResponse,
  profile,
  profilesResponse,
  whoamiResponse,
} from '../schemas/meta.ts';
import {
  changedNetworkPolicy,
  networkCheck,
  networkPatch,
  networkPolicy,
  networkReplacement,
  networkRequest,
  networkResponse,
  networkVerdict,
  portMapping,
  presetList,
  publishedPort,
} from '../schemas/network.ts';
import { answeredRule, networkRule } from '../schemas/network-rule.ts';
import { policy } from '../schemas/policy.ts';
import {
  openPort,
  openPortList,
  openPortRequest,
  publishedPortAnswer,
  publishPortRequest,
} from '../schemas/port.ts';
import { createSandboxRequest, sandbox, updateSandboxRequest } from '../schemas/sandbox.ts';
import { deletedSandboxes, sandboxList } from '../schemas/sandbox-list.ts';
import { boundSecret, secretBinding, secretList, storedSecret, storeSecret } from '../schemas/secret.ts';
import {
  createdService,
  restart,
  serviceLogLine,
  serviceLogPage,
  serviceSpec,
  serviceStatus,
  shownSpec,
  stopRequest,
} from '../schemas/service.ts';
import {
  changeSnapshotRequest,
  diffRequest,
  forkRequest,
  snapshot,
  snapshotDiff,
  snapshotList,
  snapshotRequest,
  snapshotTree,
} from '../schemas/snapshot.ts';
import { sandboxStats } from '../schemas/stats.ts';

/** Parts before wholes: a schema can refer only to the components before it. */
const NAMED: Readonly<Record<string, z.ZodType>> = {
  ErrorResponse: errorResponse,
  HealthResponse: healthResponse,
  Host: host,
  HostList: hostList,
  Profile: profile,
  Engine: engine,
  ProfilesResponse: profilesResponse,
  Policy: policy,
  HostChecksResponse: hostChecksResponse,
  WhoamiResponse: whoamiResponse,
  PortMapping: portMapping,
  PublishedPort: publishedPort,
  OpenPort: openPort,
  OpenPortList: openPortList,
  OpenPortRequest: openPortRequest,
  PublishPortRequest: publishPortRequest,
  PublishedPortAnswer: publishedPortAnswer,
  MadeLink: madeLink,
  LinkList: linkList,
  LinkRequest: linkRequest,
  NetworkRule: networkRule,
  AnsweredNetworkRule: answeredRule,
  SecretBinding: secretBinding,
  BoundSecret: boundSecret,
  StoreSecret: storeSecret,
  StoredSecret: storedSecret,
  SecretList: secretList,
  NetworkRequest: networkRequest,
  NetworkResponse: networkResponse,
  NetworkPatch: networkPatch,
  NetworkReplacement: networkReplacement,
  NetworkPolicy: networkPolicy,
  ChangedNetworkPolicy: changedNetworkPolicy,
  NetworkCheck: networkCheck,
  NetworkVerdict: networkVerdict,
  NetworkPresetList: presetList,
  EgressRecord: egressRecord,
  EgressPage: egressResponse,
  ResourceUsage: resourceUsage,
  Event: event,
  ExecReq: execRequest,
  ExecResult: execResult,
  ExecOutput: execOutput,
  ExecPiece: execPiece,
  Command: command,
  CommandList: commandList,
  CommandLine: commandLine,
  ResizeFrame: resizeFrame,
  SignalFrame: signalFrame,
  RestartPolicy: restart,
  ServiceSpec: serviceSpec,
  CreatedService: createdService,
  ConfiguredService: shownSpec,
  ServiceStatus: serviceStatus,
  StopServiceRequest: stopRequest,
  ServiceLogPage: serviceLogPage,
  ServiceLogLine: serviceLogLine,
  ImageRef: imageRef,
  PullImageRequest: pullImageRequest,
  ChangeImageRequest: changeImageRequest,
  ImageResponse: image,
  ImageListResponse: imageList,
  CreateSandboxRequest: createSandboxRequest(INTERFACE_LIMITS),
  UpdateSandboxRequest: updateSandboxRequest,
  DeletedSandboxes: deletedSandboxes,
  SandboxResponse: sandbox,
  ListResponse: sandboxList,
  SandboxStats: sandboxStats,
  SnapshotRequest: snapshotRequest,
  ChangeSnapshotRequest: changeSnapshotRequest,
  SnapshotResponse: snapshot,
  SnapshotListResponse: snapshotList,
  SnapshotTree: snapshotTree,
  DiffRequest: diffRequest,
  SnapshotDiff: snapshotDiff,
  ForkReq: forkRequest(INTERFACE_LIMITS),
  PushResult: pushResult,
  FileEntry: fileEntry,
  FileList: fileList,
  WatchEvent: watchEvent,
  CopyResult: copyResult,
  RemoveResult: removeResult,
  MakeDirectoryRequest: makeDirectoryRequest,
  MoveFileRequest: moveFileRequest,
  CopyFileRequest: copyFileRequest,
  ChangeFileRequest: changeFileRequest,
  LogRecord: logRecord,
  LogsResponse: logsResponse,
};

type Component = { readonly name: string; readonly plain: JsonSchema };

/** Converts schemas to JSON Schema with references to the components. */
export class Components {
  readonly #known: Component[] = [];
  /** By name. */
  readonly schemas: Record<string, JsonSchema> = {};

  constructor() {
    for (const [name, schema] of Object.entries(NAMED)) {
      const plain = describe(schema);
      this.schemas[name] = this.#refer(plain, true) as JsonSchema;
      this.#known.push({ name, plain: withoutAnnotations(plain) });
    }
  }

  toSchema(schema: z.ZodType): JsonSchema {
    return this.#refer(describe(schema)) as JsonSchema;
  }

  #refer(value: unknown, isComponent = false): unknown {
    if (Array.isArray(value)) return value.map((each) => this.#refer(each));
    if (typeof value !== 'object' || value === null) return value;
    const plain = withoutAnnotations(value);
    const known = isComponent ? undefined : this.#known.find((each) => isDeepStrictEqual(each.plain, plain));
    if (known !== undefined) {
      const { description } = value as JsonSchema;
      const $ref = `#/components/schemas/${known.name}`;
      return { $ref, ...(description !== this.schemas[known.name]?.description && { description }) };
    }
    return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, this.#refer(part)]));
  }
}

function describe(schema: z.ZodType): JsonSchema {
  const { $schema: _, ...described } = toJsonSchema(schema);
  return described;
}

/** Removes the keywords that depend on where the schema is used. */
function withoutAnnotations(schema: object): JsonSchema {
  const { description: _, default: __, ...plain } = schema as JsonSchema;
  return plain;
}
