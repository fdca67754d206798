// What a sandbox's root filesystem is made of: a profile, or a container image.
import type { ServiceSpec } from '@sandboxd/api';
import { AppError } from '../lib/errors.ts';
import type { StoredImage } from './find.ts';
import { toServiceSpec } from './image-service.ts';
import type { Images, PullMode, PullOptions } from './images.ts';
import type { Profiles } from './profiles.ts';

const MAX_TRIES = 3;
const ROOT_HOME = '/root';

/** What a create asks for. `name` of a profile, or an image's reference or digest. */
export type RootfsRequest = {
  readonly kind: 'profile' | 'image';
  readonly name: string;
  /** `name` is the path of a file of the host. */
  readonly isPath?: true;
};

/** The same, found: all that a sandbox needs of it, also long after the profile was baked or the image pulled anew. */
export type RootfsSource = Omit<RootfsRequest, 'kind'> & {
  /** `agent`: the agent's own image, the only root of a guest that is saved before it has one. */
  readonly kind: RootfsRequest['kind'] | 'agent';
  /** SHA-256 of the root filesystem's bytes, which the page cache in a saved guest's memory mirrors. */
  readonly digest: string;
  readonly rootfsPath: string;
  /** What commands have in their environment, the request's own variables above it. */
  readonly env: Readonly<Record<string, string>>;
  readonly workdir: string;
  /** Image that the agent runs from, with the kernel's modules; absent: the root filesystem carries it. */
  readonly agentPath?: string | undefined;
};

/** What is known of it before it is found. */
export function toUnknownRootfs(request: RootfsRequest): RootfsSource {
  return { ...request, digest: '', rootfsPath: '', env: {}, workdir: '/' };
}

/**
 * What commands have in their environment before the request's own variables. That HOME is /root is all that a profile's says of
 * root; for every user it would be wrong, and a guest's agent knows the home of each.
 */
export function baseEnvironment({ kind, env }: Pick<RootfsSource, 'kind' | 'env'>): RootfsSource['env'] {
  if (kind === 'image' || env.HOME !== ROOT_HOME) return env;
  const { HOME: _, ...others } = env;
  return others;
}

/** What a guest has that gets its root as a copy: the image that the agent runs from. */
export function agentRootfs(image: { readonly path: string; readonly digest: string }): RootfsSource {
  const { path, digest } = image;
  return { kind: 'agent', name: 'agent', digest, rootfsPath: path, env: {}, workdir: '/', agentPath: path };
}

export type FoundRootfs = {
  readonly rootfs: RootfsSource;
  /** What an image runs by itself; `cmd` may be empty. */
  readonly service?: ServiceSpec;
};

export type FindOptions = PullOptions & {
  /** Keeps what was found until it is disposed: an image may be deleted, or have to make room, at any moment. */
  readonly holds?: AsyncDisposableStack;
};

type ImageSource = Pick<Images, 'obtain' | 'obtainFile' | 'hold' | 'rootfsPath'>;

export type RootfsFinderOptions = {
  readonly profiles: Pick<Profiles, 'obtain' | 'get' | 'isToBeBaked'>;
  /** Absent: this daemon has no images. */
  readonly images?: ImageSource | undefined;
  /** The image of the agent. */
  readonly agentPath: () => Promise<string>;
};

/** Finds, or pulls, what a create asks for. */
export class RootfsFinder {
  readonly #options: RootfsFinderOptions;

  constructor(options: RootfsFinderOptions) {
    this.#options = options;
  }

  /**
   * AppError invalid_argument naming the known profiles, `internal` when one is damaged; of an image what a pull gives, and
   * unsupported on a daemon without images. A profile that is yet to be baked has no digest where nothing shall be pulled.
   */
  async find(
    { kind, name, isPath }: RootfsRequest,
    pull: PullMode,
    findOptions: FindOptions,
  ): Promise<FoundRootfs> {
    if (kind === 'profile') {
      const { profiles } = this.#options;
      if (pull === 'never' && (await profiles.isToBeBaked(name)))
        return { rootfs: toUnknownRootfs({ kind, name }) };
      const { digest, rootfsPath, env, workdir } = await (pull === 'never'
        ? profiles.get(name)
        : profiles.obtain(name, findOptions.signal));
      // Without an image of the agent its guest runs from what was baked into it, and has no modules.
      const agentPath = await this.#options.agentPath().catch(() => undefined);
      return { rootfs: { kind, name, digest, rootfsPath, env, workdir, ...(agentPath && { agentPath }) } };
    }
    const { images, agentPath } = this.#options;
    if (images === undefined)
      throw new AppError('unsupported', 'image support is not enabled on this daemon; create from a profile');
    const obtain = () =>
      isPath ? images.obtainFile(name, findOptions) : images.obtain(name, pull, findOptions);
    const image = await obtainHeld(images, obtain, name, findOptions.holds);
    const { config, rootfsDigest } = image.record;
    return {
      rootfs: {
        kind,
        name,
        digest: rootfsDigest,
        rootfsPath: images.rootfsPath(image),
        env: config.env,
        workdir: '/',
        agentPath: await agentPath(),
      },
      service: toServiceSpec(config),
    };
  }
}

async function obtainHeld(
  images: ImageSource,
  obtain: () => Promise<StoredImage>,
  name: string,
  holds?: AsyncDisposableStack,
): Promise<StoredImage> {
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const image = await obtain();
    const held = await images.hold(image);
    if (held === undefined) continue;
    if (holds === undefined) await held[Symbol.asyncDispose]();
    else holds.use(held);
    return image;
  }
  throw new AppError('conflict', `image ${name} is deleted again and again while a sandbox is made of it`);
}
