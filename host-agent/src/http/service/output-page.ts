// One JSON page of service output.
import type { ServiceRecord } from '@sandboxd/proto';
import type { ServiceOutputEnd } from '../../guest/service-types.ts';
import type { SandboxService } from '../../sandboxes/service.ts';

export type PageQuery = { readonly fromSeq: number; readonly maxBytes: number };

/** AppError conflict if the sandbox has no service, guest_unreachable. */
export async function readOutputPage(
  service: Pick<SandboxService, 'output'>,
  { fromSeq, maxBytes }: PageQuery,
  signal: AbortSignal,
) {
  const records: ServiceRecord[] = [];
  const { ring, nextSeq } = await new Promise<ServiceOutputEnd>((resolve, reject) => {
    const subscription = service.output(
      { fromSeq, maxBytes, isFollowing: false, isWaiting: false },
      {
        records: (batch, bytes) => {
          records.push(...batch);
          subscription.consumed(bytes);
        },
        end: resolve,
        failed: reject,
      },
    );
    const onAbort = (): void => {
      subscription.cancel();
      reject(signal.reason);
    };
    if (signal.aborted) onAbort();
    else signal.addEventListener('abort', onAbort, { once: true });
  });
  const output = records.filter((record) => record.kind === 'output');
  const gaps = records.filter((record) => record.kind === 'gap');
  return {
    records:
      output.length === 0
        ? null
        : output.map(({ seq, stream, unixMs, data }) => ({
            seq,
            stream,
            unix_ms: unixMs,
            data: data.toString('base64'),
          })),
    next_seq: nextSeq,
    first_seq: ring.firstSeq,
    ...(gaps.length === 0
      ? {}
      : {
          dropped_records: gaps.reduce((sum, gap) => sum + gap.records, 0),
          dropped_bytes: gaps.reduce((sum, gap) => sum + gap.bytes, 0),
        }),
  };
}
