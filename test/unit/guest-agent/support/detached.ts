// Clients of detached commands of an agent in this process.

import { existsSync, readFileSync } from 'node:fs';
import {
  type Channel,
  COMMAND_INPUT,
  COMMAND_STATUSES,
  type CommandAttachInput,
  type CommandAttachResult,
  type CommandCallInput,
  type CommandStatus,
  type ExecInput,
  FLOW,
  type Result,
  type ServiceRecord,
  ServiceRecordDecoder,
  type Stream,
} from '@sandboxd/proto';

export const PATH = 'PATH=/usr/local/bin:/usr/bin:/bin';
export const { COMMAND_INPUT_WRITE: WRITE, COMMAND_INPUT_TAKE: TAKE } = COMMAND_INPUT;

export function ask(channel: Channel, request: Parameters<Channel['open']>[0]): Promise<Result> {
  return new Promise((resolve, reject) => {
    channel.open(request, {
      result: (result) => {
        if (result.error) reject(Object.assign(new Error(result.error.message ?? ''), result.error));
        else resolve(result);
      },
      lost: ({ kind }) => reject(new Error(`lost: ${kind}`)),
    });
  });
}

let count = 0;
export async function detach(channel: Channel, script: string, exec: ExecInput = {}): Promise<CommandStatus> {
  const cmd = ['sh', '-c', script];
  const id = `c${++count}`;
  const given = { cmd, env: [PATH], id, detach: true, outputBufferBytes: 1_000_000, ...exec };
  return (await ask(channel, { exec: given })).command as CommandStatus;
}

export const call = async (channel: Channel, commandCall: CommandCallInput): Promise<CommandStatus> =>
  (await ask(channel, { commandCall })).command as CommandStatus;
export const waitFor = (channel: Channel, { id }: CommandStatus): Promise<CommandStatus> =>
  call(channel, { id, wait: {} });
export const list = async (channel: Channel): Promise<readonly CommandStatus[]> =>
  COMMAND_STATUSES.decode(
    (await ask(channel, { commandList: {} })).commandList?.commands ?? Buffer.alloc(0),
    1000,
  );

export class Attached {
  readonly records: ServiceRecord[] = [];
  readonly stream: Stream;
  readonly end = Promise.withResolvers<CommandAttachResult>();
  readonly #decoder = new ServiceRecordDecoder();

  constructor(channel: Channel, commandAttach: CommandAttachInput) {
    this.end.promise.catch(() => undefined);
    this.stream = channel.open(
      { commandAttach },
      {
        data: (_flow, chunk) => {
          this.records.push(...this.#decoder.push(Buffer.from(chunk)));
          this.stream.consumed(chunk.length);
        },
        result: ({ error, commandAttach: end }) => {
          if (error) this.end.reject(Object.assign(new Error(error.message ?? ''), error));
          else this.end.resolve(end as CommandAttachResult);
        },
        lost: ({ kind }) => this.end.reject(new Error(`lost: ${kind}`)),
      },
    );
  }

  get seqs(): number[] {
    return this.records.flatMap((record) => (record.kind === 'output' ? [record.seq] : []));
  }

  get text(): string {
    return this.records.map((record) => (record.kind === 'output' ? String(record.data) : '')).join('');
  }

  write(text: string, isLast = false): void {
    let rest: Buffer | undefined = Buffer.from(text);
    this.stream.setSource(FLOW.in, () => {
      const bytes = rest;
      rest = undefined;
      if (bytes === undefined && isLast) this.stream.end(FLOW.in);
      return bytes ?? null;
    });
    this.stream.ready(FLOW.in);
  }
}

export const attach = (channel: Channel, { id }: CommandStatus, more: CommandAttachInput = {}): Attached =>
  new Attached(channel, { id, follow: true, ...more });

export const isAlive = (pid: number): boolean =>
  existsSync(`/proc/${pid}`) && !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
