// What happens, from wherever one was: a connection that is lost is made again and goes on behind the last event that came.
import { Comeback } from './connection/comeback.ts';
import { readLines } from './connection/lines.ts';
import type { Requests } from './connection/requests.ts';
import type { CallOptions, SandboxEvent } from './contract.ts';

export type EventOptions = Pick<CallOptions, 'signal'> & {
  /** Ids; all that the key sees by default. */
  readonly sandboxes?: readonly string[];
  readonly kinds?: readonly SandboxEvent['kind'][];
  /** Goes on behind the event of this id; `0`: from the oldest that is kept. From now on by default. */
  readonly after?: string;
  /** False: ends at the present, from the oldest that is kept unless `after` says where. */
  readonly follow?: boolean;
};

/**
 * Until the loop is left or the signal fires. ConnectionError when the daemon is not there to begin with, ApiError of status 410
 * when what follows `after` is not kept any more.
 */
export async function* followEvents(
  requests: Requests,
  { sandboxes, kinds, after, follow = true, signal }: EventOptions = {},
): AsyncGenerator<SandboxEvent, void> {
  let position = after;
  const comeback = new Comeback();
  for (;;) {
    let failure: unknown;
    const query = {
      sandbox: sandboxes?.join(','),
      kind: kinds?.join(','),
      follow: follow ? undefined : 0,
      last_event_id: position,
    };
    try {
      const { body } = await requests.stream('followEvents', { query, accept: 'text/event-stream', signal });
      comeback.answered();
      let message = { id: position, data: '' };
      for await (const line of readLines(body)) {
        const [, field, value = ''] = /^(id|data): (.*)$/.exec(line) ?? [];
        if (field === 'id') message.id = value;
        if (field === 'data') message.data = value;
        if (line !== '') continue;
        comeback.progressed();
        if (message.data !== '') yield JSON.parse(message.data) as SandboxEvent;
        position = message.id;
        message = { id: position, data: '' };
      }
      if (!follow) return;
    } catch (error) {
      failure = error;
    }
    await comeback.wait(failure, signal);
  }
}
