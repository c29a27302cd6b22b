import { readFileSync } from 'node:fs';
import { taskIdOf, type Json, type NewTask } from '@leasehold/core';

/** One call of a tool, as an agent made it. */
export interface ToolCall {
  /** The agent's run that asked. */
  readonly run: string;
  readonly agent: string;
  readonly id: string;
  readonly tool: string;
  readonly arguments: Json;
  /** Tied to what the call means: an agent that asks again, under another call id, uses the same one. */
  readonly idempotencyKey: string;
}

const FILE = new URL('../tool-calls.jsonl', import.meta.url);

/** The sixty calls of `tool-calls.jsonl`, in the order in which they were made. Throws with the line that cannot be used. */
export function readToolCalls(): readonly ToolCall[] {
  return readFileSync(FILE, 'utf8')
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map((line, index) => toolCall(JSON.parse(line) as Readonly<Record<string, Json>>, index + 1));
}

function toolCall(line: Readonly<Record<string, Json>>, number: number): ToolCall {
  const text = (field: string): string => {
    const value = line[field];
    if (typeof value === 'string' && value !== '') return value;
    throw new Error(`tool-calls.jsonl:${number} has no ${field}.`);
  };
  return {
    run: text('run'),
    agent: text('agent'),
    id: text('id'),
    tool: text('tool'),
    arguments: line['arguments'] ?? null,
    idempotencyKey: text('idempotency_key'),
  };
}

/** The task that a call asks for. */
export function taskOf(call: ToolCall): NewTask & { readonly taskId: string } {
  return {
    type: call.tool,
    input: call.arguments,
    idempotencyKey: call.idempotencyKey,
    agentRunId: call.run,
    taskId: taskIdOf(call.tool, call.idempotencyKey),
  };
}
