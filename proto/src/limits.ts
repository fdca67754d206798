// Numbers that both ends of the agent protocol agree on.

/** Version in Hello and HelloReply; both ends must have the same. */
export const PROTOCOL_VERSION = 1;

/** Most payload bytes of one data frame. */
export const MAX_DATA_BYTES = 65_536;

/** Most bytes that a link reads for itself in one turn of a flow, in frames of MAX_DATA_BYTES. */
export const MAX_SOURCE_BYTES = 16 * MAX_DATA_BYTES;

/** Longest encoded frame, its length prefix apart: a full data frame and its field headers. */
export const MAX_FRAME_BYTES = MAX_DATA_BYTES + 64;

/**
 * Credit that a data frame costs beside its bytes. Without it a peer that sends single bytes could make the other end
 * hold some hundred times the window in objects.
 */
export const FRAME_CREDIT_BYTES = 64;

/** Longest message that may be sent in parts (an exec request with a very long argument list or environment). */
export const MAX_MESSAGE_BYTES = 4 * 1024 * 1024;

/** Bytes of every part of a long message but the last. */
export const PART_BYTES = MAX_DATA_BYTES;

/** Most bytes of unfinished parts that one connection may hold, all streams together. */
export const MAX_PARTS_BYTES = 8 * 1024 * 1024;

/** Control bytes that may wait for a link that takes none; then calls, pings, signals and resizes are refused. */
export const MAX_BACKLOG_BYTES = 4 * 1024 * 1024;

/** Streams that may be open at once on one connection. */
export const MAX_STREAMS = 4096;

/** Longest payload of a ping. */
export const MAX_PING_BYTES = 65_536;

/** Credit of a new stream in each direction, bytes. Above the channel's bandwidth × delay, below 1 MiB of memory. */
export const DEFAULT_WINDOW_BYTES = 768 * 1024;

/** Bounds of a window that a peer may announce. */
export const MIN_WINDOW_BYTES = 4096;
export const MAX_WINDOW_BYTES = 1024 * 1024;

/** Capability of a guest that tells its time and shifts its clock. */
export const CLOCK = 'clock';

/** Capability of a guest whose commands and service stand still when it is told so. */
export const FREEZE = 'freeze';

/** Capability of a guest that gets its network interface with its identity. */
export const NETWORK = 'network';

export const NONCE_BYTES = 16;

/** The virtio-serial port's name, and the vsock port the guest agent listens on. */
export const AGENT_PORT_NAME = 'sandbox.agent';
export const AGENT_VSOCK_PORT = 1024;

/** Where the guest agent lives in every root file system. */
export const AGENT_DIR = '/.sandbox';
