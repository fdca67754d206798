// To be loaded before the generated code: 64-bit fields are plain numbers even where the package `long` is installed,
// which protobufjs would otherwise find and use (and a bundler would put in).
import protobuf from 'protobufjs/minimal.js';

Object.assign(protobuf.util, { Long: null });
protobuf.configure();
