// Resolves a sandbox's root filesystem from a profile or a container image.
import type { ServiceSpec } from '@sandboxd/api';
import { AppError } from '../lib/errors.ts';
import { raceSignal } from '../lib/wait.ts';
import { toServiceSpec } from './image-service.ts';
import type { Images, PullMode, PullOptions } from './images.ts';
import type { ProfileService, Profiles } from './profiles.ts';
import type { StoredImage } from './record.ts';

const MAX_TRIES = 3;
const ROOT_HOME = '/root';

/** The request of a create: `name` is a profile, or an image's reference or digest. */
export type RootfsRequest = {
  readonly kind: 'profile' | 'image';
  readonly name: string;
  /** `name` is the path of a host file. */
  readonly isPath?: true;
};

/**
 * The resolved request: everything that a sandbox needs from it, still valid after the profile is baked again or the
 * image pulled again.
 */
export type RootfsSource = Omit<RootfsRequest, 'kind'> & {
  /** `agent`: the agent's own image, the root of a generic template until it gets one. */
  readonly kind: RootfsRequest['kind'] | 'agent';
  /** SHA-256 of the root filesystem, whose page cache is part of a saved guest's memory. */
  readonly digest: string;
  /** Digest of the image; absent for other sources. */
  readonly imageDigest?: string | undefined;
  readonly rootfsPath: string;
  /** Default environment of commands; the request's variables override it. */
  readonly env: Readonly<Record<string, string>>;
  readonly workdir: string;
  /** Image with the agent and the kernel modules; absent: the root filesystem contains the agent. */
  readonly agentPath?: string | undefined;
};

/** The source before it is resolved. */
export function toUnknownRootfs(request: RootfsRequest): RootfsSource {
  return { ...request, digest: '', rootfsPath: '', env: {}, workdir: '/' };
}

/**
 * Environment of commands before the request's variables. A profile's HOME=/root is dropped: it would be wrong for
 * other users, and the guest agent knows each user's home.
 */
export function baseEnvironment({ kind, env }: Pick<RootfsSource, 'kind' | 'env'>): RootfsSource['env'] {
  if (kind === 'image' || env.HOME !== ROOT_HOME) return env;
  const { HOME: _, ...others } = env;
  return others;
}

/** The root of a guest that receives its root filesystem later, as a copy: the agent's image. */
export function agentRootfs(image: { readonly path: string; readonly digest: string }): RootfsSource {
  const { path, digest } = image;
  return { kind: 'agent', name: 'agent', digest, rootfsPath: path, env: {}, workdir: '/', agentPath: path };
}

export type FoundRootfs = {
  readonly rootfs: RootfsSource;
  /** The image's own service; `cmd` may be empty. */
  readonly service?: ServiceSpec;
  readonly profileService?: ProfileService;
};

export type FindOptions = PullOptions & {
  /** Retains the resolved image until disposal: it could be deleted or evicted at any moment. */
  readonly holds?: AsyncDisposableStack;
};

type ImageSource = Pick<Images, 'obtain' | 'obtainFile' | 'hold' | 'rootfsPath'>;

export type RootfsFinderOptions = {
  readonly profiles: Pick<Profiles, 'obtain' | 'get' | 'isToBeBaked'>;
  /** Absent: images are disabled on this daemon. */
  readonly images?: ImageSource | undefined;
  /** Path of the agent's image. */
  readonly agentPath: () => Promise<string>;
};

/** Resolves the root filesystem of a create, pulling or baking if necessary. */
export class RootfsFinder {
  readonly #options: RootfsFinderOptions;

  constructor(options: RootfsFinderOptions) {
    this.#options = options;
  }

  /**
   * AppError invalid_argument with the known profiles, `internal` for a damaged profile; for an image the errors of a
   * pull, and unsupported when images are disabled. With `pull` never, an unbaked profile has no digest.
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
      const { digest, rootfsPath, env, workdir, service } = await (pull === 'never'
        ? profiles.get(name)
        : profiles.obtain(name, findOptions.signal));
      // Without the agent's image, the guest runs the agent that was baked into the profile, and has no kernel modules.
      const agentPath = await this.#findAgent(findOptions).catch(() => undefined);
      findOptions.signal?.throwIfAborted();
      return {
        rootfs: { kind, name, digest, rootfsPath, env, workdir, ...(agentPath && { agentPath }) },
        ...(service && { profileService: service }),
      };
    }
    const { images } = this.#options;
    if (images === undefined)
      throw new AppError('unsupported', 'image support is not enabled on this daemon; create from a profile');
    const obtain = () =>
      isPath ? images.obtainFile(name, findOptions) : images.obtain(name, pull, findOptions);
    const image = await obtainRetained(images, obtain, name, findOptions.holds);
    const { config, rootfsDigest } = image.record;
    return {
      rootfs: {
        kind,
        name,
        digest: rootfsDigest,
        ...(!isPath && { imageDigest: `sha256:${image.id}` }),
        rootfsPath: images.rootfsPath(image),
        env: config.env,
        workdir: '/',
        agentPath: await this.#findAgent(findOptions),
      },
      service: toServiceSpec(config),
    };
  }

  #findAgent({ signal }: FindOptions): Promise<string> {
    const path = this.#options.agentPath();
    return signal === undefined ? path : raceSignal(path, signal);
  }
}

async function obtainRetained(
  images: ImageSource,
  obtain: () => Promise<StoredImage>,
  name: string,
  holds?: AsyncDisposableStack,
): Promise<StoredImage> {
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const image = await obtain();
    const hold = await images.hold(image);
    if (hold === undefined) continue;
    if (holds === undefined) await hold[Symbol.asyncDispose]();
    else holds.use(hold);
    return image;
  }
  throw new AppError('conflict', `image ${name} is deleted again and again while a sandbox is made of it`);
}
