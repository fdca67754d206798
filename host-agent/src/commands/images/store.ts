// Opens the image store of a data directory for commands, also beside a running daemon.
import type { Input } from '@sandboxd/api/command-line';
import { openIsolation } from '../../engines/isolation.ts';
import { confine } from '../../engines/jail/jail.ts';
import { type ImageRecord, type Images, openImages } from '../../images/index.ts';
import { NO_FAULTS } from '../../lib/faults.ts';
import { createLogger } from '../../lib/logger.ts';
import { HELPERS } from '../installation.ts';
import { loadSharedConfig, withStore } from '../shared-config.ts';

/** Calls `use` with the opened image store. AppError when it cannot be opened. */
export function withImages<T>(input: Input, use: (images: Images) => T | Promise<T>): Promise<T> {
  const config = loadSharedConfig(input);
  return withStore(input, async (store, dataDir) => {
    const log = createLogger({ level: 'error', format: 'auto' });
    const jailOptions = config.jail && {
      ...config.jail,
      program: HELPERS.jail,
      cgroups: { ...config.jail.cgroups, dir: dataDir },
    };
    const { jail } = await openIsolation({ jail: jailOptions, isRequired: false, log });
    const images = await openImages({
      dataDir,
      records: store.table<ImageRecord>('images'),
      maxBytes: config.images?.diskBytes ?? 0,
      allowedDirs: [],
      converter: {
        runtime: HELPERS.runtime,
        script: HELPERS.converter,
        confine: jail && ((command) => confine(jail, command)),
      },
      faults: NO_FAULTS,
      log,
    });
    try {
      return await use(images);
    } finally {
      await images.stop();
    }
  });
}
