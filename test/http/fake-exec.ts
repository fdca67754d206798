// One exec as a test sees it from the guest's side.
import { EventEmitter } from 'node:events';
import type { ExecRequest } from '@sandboxd/api';
import type { ExecEvents, ExecOutcome, ExecSession } from '../../host-agent/src/guest/exec.ts';

export type Script = (exec: FakeExec) => void;

export class FakeExec extends EventEmitter implements ExecSession {
  readonly request: ExecRequest;
  readonly hasStdin: boolean;
  readonly events: ExecEvents;
  readonly calls: string[] = [];
  readonly stdin: Buffer[] = [];
  consumedBytes = 0;
  sentBytes = 0;
  isStdinFull = false;
  isCancelled = false;
  id: string | undefined;

  constructor(request: ExecRequest, events: ExecEvents, hasStdin: boolean) {
    super();
    this.request = request;
    this.hasStdin = hasStdin;
    this.events = events;
  }

  output(stream: 'stdout' | 'stderr', data: string | Buffer): void {
    const chunk = Buffer.from(data);
    this.sentBytes += chunk.length;
    this.events.output(stream, chunk);
  }

  exit(outcome: Partial<ExecOutcome> = {}): void {
    this.events.exit({ exitCode: 0, durationMs: 1, ...outcome });
  }

  get stdinText(): string {
    return Buffer.concat(this.stdin).toString();
  }

  consumed(bytes: number): void {
    this.consumedBytes += bytes;
    this.emit('consumed', bytes);
  }

  write(chunk: Uint8Array): boolean {
    this.stdin.push(Buffer.from(chunk));
    this.emit('stdin');
    return !this.isStdinFull;
  }

  closeStdin(): void {
    this.calls.push('closeStdin');
    this.emit('closeStdin');
  }

  signal(name: string): void {
    this.calls.push(`signal ${name}`);
  }

  resize(size: { cols: number; rows: number }): void {
    this.calls.push(`resize ${size.cols}x${size.rows}`);
  }

  cancel(): void {
    this.isCancelled = true;
    this.calls.push('cancel');
    this.emit('cancel');
  }
}
