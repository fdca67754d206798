// The REST interface as a client sees it.
import { EXEC_FRAME, ExecFrameDecoder } from '@sandboxd/api';

export type SandboxJson = {
  readonly id: string;
  readonly created_at: string;
  readonly memory_mib: number;
  readonly vcpus: number;
  readonly profile: string;
  readonly workdir: string;
};

export type UsageJson = {
  readonly context_switches_involuntary: number;
  readonly cpu_sys_ms: number;
  readonly cpu_user_ms: number;
  readonly io_read_bytes: number;
  readonly io_write_bytes: number;
  readonly page_faults_major: number;
  readonly peak_memory_bytes: number;
};

export type ExecResultJson = {
  readonly exit_code: number;
  readonly duration_ms: number;
  readonly signal?: string;
  readonly timed_out?: boolean;
  readonly oom_killed?: boolean;
  readonly error?: string;
  readonly usage?: UsageJson;
};

export type ExecOutput = {
  readonly stdout: string;
  readonly stderr: string;
  readonly result: ExecResultJson;
};

/** What a status outside 2xx came with. */
export class ApiError extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(`${status}: ${message}`);
    this.status = status;
  }
}

export class Api {
  readonly url: string;

  constructor(url: string) {
    this.url = url;
  }

  /** The answer, whatever its status. */
  fetch(path: string, init: RequestInit = {}): Promise<Response> {
    return fetch(`${this.url}${path}`, init);
  }

  /** The JSON body (undefined for 204); ApiError outside 2xx. */
  async call<T>(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
    const response = await this.fetch(path, {
      method,
      ...(body !== undefined && {
        body: JSON.stringify(body),
        headers: { 'content-type': 'application/json' },
      }),
      ...(signal && { signal }),
    });
    const text = await response.text();
    if (!response.ok) {
      let message = text;
      try {
        message = (JSON.parse(text) as { error: string }).error;
      } catch {}
      throw new ApiError(response.status, message);
    }
    return (text === '' ? undefined : JSON.parse(text)) as T;
  }

  create(options: Record<string, unknown> = {}, signal?: AbortSignal): Promise<SandboxJson> {
    return this.call('POST', '/sandboxes', options, signal);
  }

  async list(): Promise<readonly SandboxJson[]> {
    return (await this.call<{ sandboxes: SandboxJson[] }>('GET', '/sandboxes')).sandboxes;
  }

  delete(id: string): Promise<void> {
    return this.call('DELETE', `/sandboxes/${id}`);
  }

  /** Runs a command to its end; the whole output as text. */
  async exec(id: string, cmd: readonly string[], options: Record<string, unknown> = {}): Promise<ExecOutput> {
    const response = await this.fetch(`/sandboxes/${id}/exec`, {
      method: 'POST',
      body: JSON.stringify({ cmd, ...options }),
    });
    if (!response.ok)
      throw new ApiError(response.status, ((await response.json()) as { error: string }).error);
    return collectExec(response.body as ReadableStream<Uint8Array>);
  }

  /** A shell command's trimmed stdout; throws unless it exits with 0. */
  async sh(id: string, script: string, options: Record<string, unknown> = {}): Promise<string> {
    const { stdout, stderr, result } = await this.exec(id, ['sh', '-c', script], options);
    if (result.exit_code !== 0) throw new Error(`${script}: ${JSON.stringify(result)} ${stderr}`);
    return stdout.trimEnd();
  }
}

/** Reads an exec stream to its end. Throws when it does not end with exactly one exit frame. */
export async function collectExec(body: AsyncIterable<Uint8Array>): Promise<ExecOutput> {
  const decoder = new ExecFrameDecoder();
  const out: Buffer[] = [];
  const err: Buffer[] = [];
  let result: ExecResultJson | undefined;
  for await (const chunk of body) {
    for (const { type, payload } of decoder.push(chunk)) {
      if (result !== undefined) throw new Error('a frame behind the exit frame');
      if (type === EXEC_FRAME.stdout) out.push(payload);
      else if (type === EXEC_FRAME.stderr) err.push(payload);
      else if (type === EXEC_FRAME.exit) result = JSON.parse(payload.toString()) as ExecResultJson;
      else throw new Error(`a frame of type ${type}`);
    }
  }
  if (!decoder.isAtBoundary) throw new Error('the stream ends within a frame');
  if (result === undefined) throw new Error('the stream ends without an exit frame');
  return { stdout: Buffer.concat(out).toString(), stderr: Buffer.concat(err).toString(), result };
}
