// Step of the start: the sources of root filesystems, which are baked profiles and container images.
import type { Isolation } from '../engines/isolation.ts';
import { confine } from '../engines/jail/jail.ts';
import { type ImageRecord, type Images, openImages, type Withdrawal } from '../images/index.ts';
import { Bakery, Profiles } from '../images/profiles.ts';
import { openSnapshotStore, type StoredImages } from '../snapshot-store/index.ts';
import type { Store } from '../store/store.ts';
import type { AppContext } from './context.ts';

export type OpenedRootfs = {
  readonly profiles: Profiles;
  /** Undefined when images are off. */
  readonly images: Images | undefined;
};

export async function openRootfs(
  { config, log, helpers, faults, resources }: AppContext,
  store: Store,
  { jail }: Isolation,
): Promise<OpenedRootfs> {
  const { dataDir } = config;
  const bakery = config.bakesOnDemand
    ? new Bakery({ dataDir, agentDir: helpers.agent, npmDir: helpers.npm, log })
    : undefined;
  resources.defer(() => bakery?.stop());
  const depot = openDepot(config, resources);
  const images =
    config.images &&
    (await openImages({
      dataDir,
      records: store.table<ImageRecord>('images'),
      sharing: depot && {
        depot,
        withdrawals: store.table<Withdrawal>('image_withdrawals'),
        maxBytes: config.images.sharedBytes,
      },
      maxBytes: config.images.diskBytes,
      allowedDirs: config.images.allowedDirs,
      converter: {
        runtime: helpers.runtime,
        script: helpers.converter,
        // The converter parses untrusted input.
        confine: jail && ((command) => confine(jail, command)),
      },
      faults,
      log,
    }));
  resources.defer(() => images?.stop());
  return { profiles: new Profiles(dataDir, bakery), images };
}

/** Undefined: images are of this host alone. */
function openDepot(
  { images, snapshotStore }: AppContext['config'],
  resources: AppContext['resources'],
): StoredImages | undefined {
  if (!images?.isShared || snapshotStore === undefined) return undefined;
  const { store } = openSnapshotStore(snapshotStore);
  resources.defer(() => store.close());
  return store.images;
}
