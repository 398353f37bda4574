/** Brings messages into the form that chat templates expect, which is Hugging Face's and not quite OpenAI's. */
import type { ChatMessage } from '../text-model.js';

type Message = Readonly<Record<string, unknown>>;

/**
 * `tool_calls` that are empty or null are left out, as are undefined keys. The role developer becomes system unless the
 * template knows it.
 */
export function normalizeMessages(messages: readonly ChatMessage[], knowsDeveloper: boolean): Message[] {
  return messages.map((message) => {
    const entries = Object.entries(message).filter(
      ([key, value]) => value !== undefined && !(key === 'tool_calls' && isEmpty(value)),
    );
    const normalized: Record<string, unknown> = Object.fromEntries(entries);
    if (message.role === 'developer' && !knowsDeveloper) normalized['role'] = 'system';
    return normalized;
  });
}

function isEmpty(calls: unknown): boolean {
  return calls === null || (Array.isArray(calls) && calls.length === 0);
}

/**
 * The forms of the messages to try on a template, in order. OpenAI sends a tool call's arguments as JSON text. Most
 * templates want the object, to write it their way; some join the text to theirs, and fail on an object.
 */
export function argumentForms(messages: readonly Message[]): (readonly Message[])[] {
  if (!messages.some((message) => Array.isArray(message['tool_calls']))) return [messages];
  return [
    messages.map((message) => mapArguments(message, parsed)),
    messages.map((message) => mapArguments(message, written)),
  ];
}

function mapArguments(message: Message, map: (args: unknown) => unknown): Message {
  const calls = message['tool_calls'];
  if (!Array.isArray(calls)) return message;
  return { ...message, tool_calls: calls.map((call: unknown) => mapCall(call, map)) };
}

/** A call is {function: {name, arguments}}, or that function itself. */
function mapCall(call: unknown, map: (args: unknown) => unknown): unknown {
  if (!isObject(call)) return call;
  if (isObject(call['function'])) return { ...call, function: mapCall(call['function'], map) };
  return 'arguments' in call ? { ...call, arguments: map(call['arguments']) } : call;
}

function parsed(args: unknown): unknown {
  if (typeof args !== 'string') return args;
  try {
    const value: unknown = JSON.parse(args);
    return isObject(value) ? value : args;
  } catch {
    return args;
  }
}

function written(args: unknown): unknown {
  return isObject(args) ? JSON.stringify(args) : args;
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
