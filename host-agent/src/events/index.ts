// The face of this room.
export { type Entry, Journal, type JournalOptions } from './journal.ts';
