// Spans for the long operations within a request: sandbox starts with their stages, snapshots, templates.
import { type Attributes, type Context, type Tracer, trace } from '@opentelemetry/api';
import { type LifecycleEvent, type LifecycleListener, originOf } from '../sandboxes/lifecycle-events.ts';

type Work = {
  readonly name: string;
  readonly attributes: Attributes;
  /** Milliseconds from the start to the end of each stage; `totalMs` to the end of the operation. */
  readonly times: Readonly<Record<string, number>>;
};

/** `within` returns the current request's context; without one, no span is sent. */
export function onLifeEvent(tracer: Tracer, within: () => Context | undefined): LifecycleListener {
  return (event) => {
    const parent = within();
    const work = parent && toWork(event);
    if (work === undefined) return;
    const { totalMs = 0, ...stages } = work.times;
    const beganAt = Date.now() - totalMs;
    const span = tracer.startSpan(work.name, { startTime: beganAt, attributes: work.attributes }, parent);
    const inner = trace.setSpan(parent as Context, span);
    let from = 0;
    for (const [stage, at] of Object.entries(stages).sort(([, a], [, b]) => a - b)) {
      const name = stage.replace(/Ms$/, '');
      tracer.startSpan(name, { startTime: beganAt + from }, inner).end(beganAt + at);
      from = at;
    }
    span.end(beganAt + totalMs);
  };
}

function toWork(event: LifecycleEvent): Work | undefined {
  switch (event.kind) {
    case 'created':
    case 'forked': {
      const { sandbox, rootfs, times, sourceSnapshot } = event;
      const attributes = {
        'sandboxd.sandbox': sandbox,
        'sandboxd.origin': originOf(event),
        'sandboxd.rootfs': rootfs,
        ...(sourceSnapshot !== undefined && { 'sandboxd.snapshot': sourceSnapshot }),
      };
      return { name: 'start sandbox', attributes, times };
    }
    case 'snapshot-taken': {
      const { snapshot, sandbox, pausedMs, totalMs } = event;
      const attributes = {
        'sandboxd.snapshot': snapshot,
        'sandboxd.sandbox': sandbox,
        'sandboxd.paused_ms': pausedMs,
      };
      return { name: 'take snapshot', attributes, times: { totalMs } };
    }
    case 'template-made': {
      const { template, rootfs, pausedMs, totalMs } = event;
      const attributes = {
        'sandboxd.template': template,
        'sandboxd.rootfs': rootfs,
        'sandboxd.paused_ms': pausedMs,
      };
      return { name: 'make template', attributes, times: { totalMs } };
    }
    default:
      return undefined;
  }
}
