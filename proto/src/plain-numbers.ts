// Must be loaded before the generated code: 64-bit fields are plain numbers even where the package `long` is installed.
// Otherwise protobufjs would find and use `long`, and a bundler would include it.
import protobuf from 'protobufjs/minimal.js';

Object.assign(protobuf.util, { Long: null });
protobuf.configure();
