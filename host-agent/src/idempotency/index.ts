// Answers of requests that carried an Idempotency-Key, for the retries of their clients.
export { type Answer, AnswerRecords, type Answers, type Question } from './answer-records.ts';
