// Handlers of the requests that name a command.
import {
  AgentError,
  COMMAND_INPUT,
  COMMAND_STATUSES,
  type CommandAttach,
  type CommandCall,
  type ResultInput,
  type Stream,
  type TtySize,
} from '@sandboxd/proto';
import { OutputReader } from '../service/reader.ts';
import type { Recorder } from './recorder.ts';
import type { Command, CommandTable } from './table.ts';

export function listCommands(commands: CommandTable): ResultInput {
  return { commandList: { commands: COMMAND_STATUSES.encode(commands.all.map(({ status }) => status)) } };
}

export function callCommand(commands: CommandTable, stream: Stream, call: CommandCall): void {
  const command = commands.get(call.id);
  const { controls } = command;
  if (call.wait || call.kill) {
    if (call.kill) controls?.terminate(call.kill.graceMs ?? 0);
    const forget = command.whenEnded(() => stream.finish({ command: command.status }));
    stream.handlers = {
      cancel: () => {
        forget();
        stream.finish({ error: { code: 'cancelled', message: 'the wait was cancelled' } });
      },
      lost: forget,
    };
    return;
  }
  if (call.signal || call.resize) {
    if (controls === undefined) throw new AgentError('conflict', 'the command has ended');
    if (call.signal) controls.signal(call.signal.name ?? '');
    if (call.resize) command.resize(toSize(call.resize));
  }
  stream.finish({ command: command.status });
}

/** A stream that ends, however, changes nothing for the command. */
export function attachCommand(commands: CommandTable, stream: Stream, attach: CommandAttach): void {
  const command = commands.get(attach.id);
  const { recorder } = command;
  if (recorder === undefined)
    throw new AgentError('conflict', 'the command is attached: its output and input are those of its client');
  if (attach.noOutput && !recorder.isInputOpen)
    throw new AgentError('conflict', 'the command takes no input: it was started without, or it was closed');
  const isTaking = attach.input === COMMAND_INPUT.COMMAND_INPUT_TAKE;
  if (attach.noOutput) writeInput(command, recorder, stream, { isTaking, isClosing: attach.closesInput });
  else {
    if (attach.input !== COMMAND_INPUT.COMMAND_INPUT_NONE) recorder.claimInput(stream, isTaking);
    readOutput(command, recorder, stream, attach);
  }
}

function writeInput(
  command: Command,
  recorder: Recorder,
  stream: Stream,
  { isTaking, isClosing }: { readonly isTaking: boolean; readonly isClosing: boolean },
): void {
  let hasEnded = false;
  const leave = (): void => recorder.releaseInput(stream);
  // What it sends from now on would be discarded.
  const onReplaced = (): void => {
    if (hasEnded) return;
    leave();
    stream.finish({ error: { code: 'conflict', message: 'another client has taken over the input' } });
  };
  recorder.claimInput(stream, isTaking, onReplaced);
  stream.handlers = {
    data: (_flow, chunk) => recorder.write(stream, chunk),
    end: () => {
      hasEnded = true;
      if (isClosing) recorder.endInput(stream);
      recorder.whenTaken(stream, () => {
        leave();
        stream.finish(toAttachResult(command, 0));
      });
    },
    cancel: () => {
      leave();
      stream.finish({ error: { code: 'cancelled', message: 'the input was cancelled' } });
    },
    lost: leave,
  };
}

function readOutput(
  command: Command,
  recorder: Recorder,
  stream: Stream,
  { fromSeq, follow }: CommandAttach,
): void {
  const { ring } = recorder;
  const leave = (): void => recorder.releaseInput(stream);
  new OutputReader({
    stream,
    ring,
    place: ring.find(fromSeq),
    missed: ring.missedSince(fromSeq),
    isFollowing: follow,
    maxBytes: 0,
    isLastRing: true,
    toResult: (_ring, nextSeq) => {
      leave();
      return toAttachResult(command, nextSeq);
    },
  });
  const { cancel, lost } = stream.handlers;
  stream.handlers = {
    ...(cancel && { cancel }),
    data: (_flow, chunk) => recorder.write(stream, chunk),
    end: () => recorder.endInput(stream),
    signal: (name) => command.controls?.signal(name),
    resize: (size) => command.resize(toSize(size)),
    lost: (loss) => {
      leave();
      lost?.(loss);
    },
  };
}

function toAttachResult(command: Command, nextSeq: number): ResultInput {
  return { commandAttach: { nextSeq, status: command.status } };
}

function toSize({ cols, rows }: { cols?: number | null; rows?: number | null }): TtySize {
  return { cols: cols ?? 0, rows: rows ?? 0 };
}
