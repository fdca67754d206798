// The time of day, for ages and ends that are shown.
import { useEffect, useState } from 'preact/hooks';
import { pause, whileVisible } from '../live/visibility.ts';

export function useNow(everyMs = 1000): number {
  const [now, setNow] = useState(Date.now());
  useEffect(
    () =>
      whileVisible(async (signal) => {
        for (;;) {
          setNow(Date.now());
          await pause(everyMs, signal);
        }
      }),
    [everyMs],
  );
  return now;
}
