// Public interface of this module.
export { type Entry, Journal, type JournalOptions } from './journal.ts';
