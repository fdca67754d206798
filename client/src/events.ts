// The stream of lifecycle events. Reconnects after a lost connection and resumes after the last event received.

import { readLines } from './connection/lines.ts';
import { Reconnect } from './connection/reconnect.ts';
import type { Requests } from './connection/requests.ts';
import type { CallOptions, SandboxEvent } from './contract.ts';

export type EventOptions = Pick<CallOptions, 'signal'> & {
  /** Sandbox ids; default: all that the key can see. */
  readonly sandboxes?: readonly string[];
  readonly kinds?: readonly SandboxEvent['kind'][];
  /** Only of sandboxes and snapshots that had all of these labels: `key=value`, or `key` alone. */
  readonly labels?: readonly string[];
  /** Resumes after the event with this id; `0`: from the oldest kept event. Default: from now on. */
  readonly after?: string;
  /** False: ends after the past events. They begin with the oldest kept event unless `after` is set. */
  readonly follow?: boolean;
  /** Called with true when the stream is open, and with false when it is lost and will be opened again. */
  readonly onConnection?: (isOpen: boolean) => void;
};

/**
 * Runs until the loop ends or the signal aborts. ConnectionError when the first connection fails, ApiError with status
 * 410 when events after `after` are no longer kept.
 */
export async function* followEvents(
  requests: Requests,
  { sandboxes, kinds, labels, after, follow = true, onConnection, signal }: EventOptions = {},
): AsyncGenerator<SandboxEvent, void> {
  let position = after;
  const reconnect = new Reconnect();
  for (;;) {
    let failure: unknown;
    const query = {
      sandbox: sandboxes?.join(','),
      kind: kinds?.join(','),
      label: labels,
      follow: follow ? undefined : 0,
      last_event_id: position,
    };
    try {
      const { body } = await requests.stream('followEvents', { query, accept: 'text/event-stream', signal });
      reconnect.answered();
      onConnection?.(true);
      let message = { id: position, data: '' };
      for await (const line of readLines(body)) {
        const [, field, value = ''] = /^(id|data): (.*)$/.exec(line) ?? [];
        if (field === 'id') message.id = value;
        if (field === 'data') message.data = value;
        if (line !== '') continue;
        reconnect.progressed();
        if (message.data !== '') yield JSON.parse(message.data) as SandboxEvent;
        position = message.id;
        message = { id: position, data: '' };
      }
      if (!follow) return;
    } catch (error) {
      failure = error;
    }
    onConnection?.(false);
    await reconnect.wait(failure, signal);
  }
}
