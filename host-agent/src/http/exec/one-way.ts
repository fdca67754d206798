// Exec whose output is the body of a plain HTTP response.
import type { ExecRun } from './exec-run.ts';

/** Frames are made only when the connection takes them, so a slow reader holds back its command. */
export function toFrameStream(run: ExecRun): ReadableStream<Uint8Array> {
  const frames = run.frames();
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { value, done } = await frames.next();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      cancel: () => run.cancel(),
    },
    { highWaterMark: 0 },
  );
}
