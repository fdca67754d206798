// What the calls about files take and give.
import type { Bytes } from '../connection/transport.ts';
import type { CallOptions } from '../contract.ts';

export type FileStream = Bytes & {
  /** Size of the whole file, if known. */
  readonly sizeBytes: number | undefined;
};

export type ReadOptions = CallOptions & {
  /** Reads only the beginning of a longer file; default: the whole file. */
  readonly maxBytes?: number;
};

export type WriteOptions = CallOptions & {
  /** Permissions; default: 0o644. */
  readonly mode?: number;
  /** Required for a stream. */
  readonly sizeBytes?: number;
};

export type PushOptions = CallOptions & {
  /** Who owns what is created, as name|uid[:group|gid]; default: root. */
  readonly owner?: string;
};

/** Options of calls about single files. */
export type FileOptions = CallOptions & {
  /** The user whose rights apply, as name|uid[:group|gid]; it owns what is created. Default: root. */
  readonly user?: string;
  /** Directory that is the root for all paths of the call: no symbolic link leads out of it. Default: /. */
  readonly root?: string;
};

export type Conditions = {
  /** ETag that the file must have, or `*` for any. */
  readonly ifMatch?: string;
  /** ETag that the file must not have; `*`: it must not exist. */
  readonly ifNoneMatch?: string;
};

type DescribeOptions = FileOptions & {
  /** With extended attributes of the namespace user. */
  readonly withAttributes?: boolean;
};
export type StatOptions = DescribeOptions & { readonly follow?: boolean };
export type ListOptions = DescribeOptions & { readonly depth?: number };

export type ReplaceOptions = FileOptions &
  Conditions & {
    readonly mode?: number;
    /** Extended attributes of the namespace user, without that prefix. */
    readonly attributes?: Readonly<Record<string, string>>;
  };

/** What changes; `null` removes an extended attribute. */
export type FileChanges = {
  readonly mode?: number;
  readonly owner?: string;
  readonly modifiedAt?: Date;
  readonly attributes?: Readonly<Record<string, string | null>>;
};

export type FileContent = Bytes & {
  readonly etag: string | undefined;
  /** Number of bytes that follow, if known. */
  readonly sizeBytes: number | undefined;
};
