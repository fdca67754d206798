// A daemon without presets of networks.
import { pino } from 'pino';
import { Presets } from '../../host-agent/src/network/presets.ts';

export const NO_PRESETS = Presets.open({ hasInternet: false, log: pino({ level: 'silent' }) });
