// An intake as its link gets it: with the stream that it is for, which may be over before the link has done.
import type { Intake, StreamIntake } from './link.ts';
import type { Stream } from './stream.ts';

/** `isOver`: nobody is to hear of it any more; `guard` runs what concerns the stream, which ends alone when that throws. */
export function toStreamIntake(
  stream: Stream,
  { target, wanted, took, failed }: Intake,
  isOver: () => boolean,
  guard: (work: () => void) => void,
): StreamIntake {
  const unlessOver = (work: () => void): void => {
    if (!isOver()) guard(work);
  };
  return {
    stream: stream.id,
    target,
    wanted: () => (isOver() ? 0 : wanted()),
    creditDue: () => stream.inflow.due,
    creditWorth: stream.inflow.worth,
    took: (bytes, frames, returned) =>
      unlessOver(() => {
        stream.takenIn(bytes, frames, returned);
        took(bytes);
      }),
    failed: (errno) => unlessOver(() => failed(errno)),
  };
}
