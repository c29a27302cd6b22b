import { LeaseholdError, MOST_QUESTIONS, PermanentError, type TaskRecord } from '@leasehold/core';
import type { HumanAnswer } from './task-context.ts';

const LONGEST_QUESTION = 500;

/** Thrown to end an attempt until a person has answered. */
export class AskHumanSignal extends LeaseholdError {
  override readonly name: string = 'AskHumanSignal';

  constructor(question: string) {
    super('ask-human', question);
  }
}

/** The answer to a question, or the end of the attempt while there is none. A question is known by its text. */
export function answered(record: TaskRecord, question: string): HumanAnswer {
  if (typeof question !== 'string' || question.trim() === '' || question.length > LONGEST_QUESTION) {
    throw new LeaseholdError(
      'bad-option',
      `question has to be a text of 1 to ${LONGEST_QUESTION} characters that a person can answer with yes or no.`,
      {
        field: 'question',
      },
    );
  }
  const yes = record.human?.find((asked) => asked.question === question && asked.approved === true);
  if (yes) return { reason: yes.reason ?? '', answeredAt: yes.answeredAt ?? yes.askedAt };
  if ((record.human?.length ?? 0) >= MOST_QUESTIONS) {
    throw new PermanentError(
      `This task has asked people ${MOST_QUESTIONS} questions; ask about several things at once, or in follow-up tasks.`,
    );
  }
  throw new AskHumanSignal(question);
}
