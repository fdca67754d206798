// A client of the sandbox manager, without HTTP.
import type { SandboxManager } from '../../../host-agent/src/sandboxes/manager.ts';

/** A command's output. Rejects unless it exits with 0. */
export function execText(manager: SandboxManager, id: string, cmd: readonly string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    const session = manager.get(id).exec(
      { cmd, env: {}, timeout_s: 0 },
      {
        output: (_stream, chunk) => {
          chunks.push(Buffer.from(chunk));
          session.consumed(chunk.length);
        },
        exit: ({ exitCode, error }) => {
          if (exitCode === 0) resolve(Buffer.concat(chunks).toString());
          else reject(new Error(error ?? `exit ${exitCode}`));
        },
      },
    );
  });
}
