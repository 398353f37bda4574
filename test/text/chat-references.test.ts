/** Chat templates of the families in use, rendered by Python's Jinja (test/fixtures/chat-templates.json). */
import { describe, expect, it } from 'vitest';
import { ChatTemplate } from '../../src/text/chat/template.js';
import { type ChatMessage, ChatTemplateError } from '../../src/text/text-model.js';
import { readFixture } from './models.js';

interface Case {
  readonly messages: ChatMessage[];
  readonly tools: unknown[] | null;
  readonly addGenerationPrompt: boolean;
  readonly variables: Record<string, unknown>;
  readonly text?: string;
  readonly error?: string;
}

const { templates, specials } = readFixture<{
  specials: Record<string, string>;
  templates: { name: string; template: string; cases: Case[] }[];
}>('chat-templates.json');
const now = (): Date => new Date(2025, 2, 7, 14, 5, 9);

describe.each(templates)('the template of $name', ({ template, cases }) => {
  const chat = new ChatTemplate(template, specials, now);

  it.each(cases)('renders %j', ({ messages, tools, text, error, ...rest }) => {
    const options = { ...rest, ...(tools === null ? {} : { tools }), continueFinalMessage: false };
    for (const form of [messages, withArgumentsAsText(messages)]) {
      if (error === undefined) expect(chat.render(form, options)).toBe(text);
      else expect(() => chat.render(form, options)).toThrow(new ChatTemplateError(`chat template: ${error}`));
    }
  });
});

/** As OpenAI's API has it. */
function withArgumentsAsText(messages: readonly ChatMessage[]): ChatMessage[] {
  return messages.map((message) => {
    const calls = message['tool_calls'] as { function: { arguments: unknown } }[] | undefined;
    if (calls === undefined) return message;
    const asText = (call: { function: { arguments: unknown } }) => ({
      ...call,
      function: { ...call.function, arguments: JSON.stringify(call.function.arguments) },
    });
    return { ...message, tool_calls: calls.map(asText) };
  });
}
