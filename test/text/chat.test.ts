import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { strftime } from '../../src/text/chat/strftime.js';
import { ChatTemplate } from '../../src/text/chat/template.js';
import { loadTextModel } from '../../src/text/load.js';
import { type ChatMessage, type ChatOptions, ChatTemplateError, type TextModel } from '../../src/text/text-model.js';
import { bundledMetadata, bundledModel, readFixture, tinyModel, withTemplate } from './models.js';

const options: ChatOptions = { addGenerationPrompt: true, continueFinalMessage: false };
const user = (content: string): ChatMessage[] => [{ role: 'user', content }];

let model: TextModel;
beforeAll(async () => {
  model = await bundledModel();
});

function render(template: string, messages: readonly ChatMessage[], extra: Partial<ChatOptions> = {}): string {
  const chat = new ChatTemplate(template, { bos_token: '<s>' }, () => new Date(2025, 2, 7, 14, 5, 9));
  return chat.render(messages, { ...options, ...extra });
}

describe('text inside messages', () => {
  const parts = fc.array(
    fc.constantFrom(
      '<|im_end|>',
      '<|im_start|>',
      '<|IM_END|>',
      '<',
      '|im_end|>',
      '<|im_',
      'end|>',
      '\n',
      ' ',
      'a',
      '🙂',
    ),
    { maxLength: 8 },
  );
  const text = parts.map((list) => list.join(''));
  const specials = (ids: Iterable<number>) => [...ids].filter((id) => model.isSpecial(id));

  it('never becomes control tokens, and stays as it is', async () => {
    const chat = (content: string, name: string): ChatMessage[] => [
      { role: 'system', content },
      { role: 'user', content, name },
      { role: 'assistant', content: name },
    ];
    const trimming = await withTemplate(
      "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content|trim + '<|im_end|>' }}{{ m.name }}{{ m.content.upper() }}{{ m|tojson }}{% endfor %}",
    );
    for (const one of [model, trimming]) {
      const expected = specials(await one.encodeChat(chat('x', 'y'), options));
      expect(expected.length).toBeGreaterThan(5);
      await fc.assert(
        fc.asyncProperty(text, text, async (content, name) => {
          const ids = await one.encodeChat(chat(content, name), options);
          expect(specials(ids)).toEqual(expected);
          expect(one.decode(ids, { skipSpecialTokens: false })).toBe(one.renderChat(chat(content, name), options));
        }),
        { numRuns: 300 },
      );
    }
  });

  it('is safe in tools, names of parameters and template variables, too', async () => {
    const one = await withTemplate(
      '{{ tools|tojson }}{{ extra }}{{ tools|tojson(ensure_ascii=true) }}<|im_start|>{{ messages[0].role }}',
    );
    const inside = '<|im_end|>';
    const request = { ...options, tools: [{ [inside]: [inside, { a: inside }] }], variables: { extra: inside } };
    const ids = await one.encodeChat([{ role: inside, content: '' }], request);
    expect(specials(ids)).toEqual([1]);
    expect(one.decode(ids, { skipSpecialTokens: false })).toBe(
      one.renderChat([{ role: inside, content: '' }], request),
    );
  });

  it('becomes control tokens when that is asked for', async () => {
    const ids = await model.encodeChat(user('a<|im_end|>b'), { ...options, parseSpecialTokens: true });
    expect(specials(ids)).toEqual([1, 2, 1, 2, 2, 1]);
  });

  it('may be spelled with the marks used inside', async () => {
    const marks = String.fromCharCode(...Array.from({ length: 29 }, (_, i) => 0xfdd2 + i));
    for (const content of [`${marks}<|im_end|>`, '\\ufdd2<|im_end|>', '\ufdd0\ufdd1']) {
      const ids = await model.encodeChat(user(content), options);
      expect(specials(ids)).toEqual([1, 2, 1, 2, 1]);
      expect(model.decode(ids, { skipSpecialTokens: false })).toBe(model.renderChat(user(content), options));
    }
  });

  it('gives exactly the ids of the rendered text when it has no special tokens', async () => {
    const tiny = await tinyModel('llama');
    await fc.assert(
      fc.asyncProperty(fc.string({ unit: 'binary', maxLength: 40 }), async (content) => {
        for (const one of [model, tiny]) {
          const whole = await one.encode(one.renderChat(user(content), options), {
            addSpecialTokens: false,
            parseSpecialTokens: true,
          });
          expect(await one.encodeChat(user(content), options)).toEqual(whole);
        }
      }),
      { numRuns: 300 },
    );
  });

  it('keeps words that templates look for, when they are no control tokens', async () => {
    const { template } = readFixture<{ templates: { name: string; template: string }[] }>(
      'chat-templates.json',
    ).templates.find(({ name }) => name === 'qwen3')!;
    const qwen = await withTemplate(template);
    const messages = [...user('a'), { role: 'assistant', content: '<think>\nno\n</think>\n\nyes' }, ...user('b')];
    const ids = await qwen.encodeChat(messages, options);
    expect(qwen.decode(ids, { skipSpecialTokens: false })).toBe(qwen.renderChat(messages, options));
    expect(qwen.renderChat(messages, options)).not.toContain('think');
  });
});

describe('a template that fails', () => {
  it.each([
    ["{{ raise_exception('roles must alternate') }}", 'roles must alternate'],
    ['{{ nowhere(1) }}', 'nowhere is not defined'],
    ["{% call nowhere('x') %}y{% endcall %}", 'nowhere is not defined'],
    ['{{ messages[0].content.shout() }}', 'messages[…].content.shout is not defined'],
    ["{{ 'a' | nofilter }}", 'nofilter'],
    ['{% if %}', 'chat template'],
    ["{{ 'a' + messages[0] }}", 'cannot join text and a mapping'],
    ["{{ 'a' ~ messages }}", 'cannot join text and a list'],
  ])('says why: %s (case 17, sglang#892)', async (template, message) => {
    expect(() => render(template, user('a'))).toThrow(ChatTemplateError);
    expect(() => render(template, user('a'))).toThrow(message);
    await expect((await withTemplate(template)).encodeChat(user('a'), options)).rejects.toThrow(ChatTemplateError);
  });

  it('says so for input nested too deeply', () => {
    let deep: unknown = 'x';
    for (let i = 0; i < 50_000; i++) deep = [deep];
    const call = (): unknown => render('{{ messages|tojson }}', [{ role: 'user', content: '', extra: deep }]);
    expect(call).toThrow(ChatTemplateError);
  });

  it('does not take exponential time over long expressions', () => {
    const sum = Array.from({ length: 60 }, () => "'a'").join(' + ');
    const chain = `'a'${".replace('a', 'a')".repeat(40)}`;
    expect(render(`{{ ${sum} }}{{ ${chain} }}{{ 'xax'${".strip('x')".repeat(40)} }}`, [])).toBe(`${'a'.repeat(60)}aa`);
  });
});

describe('tool calls (case 48, Qwen3#1894)', () => {
  const history = (args: unknown): ChatMessage[] => [
    { role: 'assistant', content: '', tool_calls: [{ function: { name: 'f', arguments: args } }] },
  ];
  const loop = '{% for c in messages[0].tool_calls %}';
  const items = `${loop}{% for k, v in c.function.arguments|items %}{{ k }}={{ v }};{% endfor %}{% endfor %}`;
  const joined = `${loop}{{ 'call ' + c.function.arguments }}{% endfor %}`;
  const json = `${loop}{{ c.function.arguments|tojson }}{% endfor %}`;

  it.each(['{"a": 1, "b": "x"}', { a: 1, b: 'x' }])('take arguments as text and as an object: %j', (args) => {
    expect(render(items, history(args))).toBe('a=1;b=x;');
    expect(JSON.parse(render(joined, history(args)).slice(5))).toEqual({ a: 1, b: 'x' });
    expect(render(json, history(args))).toBe('{"a": 1, "b": "x"}');
  });

  it('take arguments that are not JSON as text', () => {
    expect(render(joined, history('not json'))).toBe('call not json');
  });

  it.each([[[]], [null], [undefined]])('are absent when they are %j', (calls) => {
    const template = "{% for m in messages %}{{ 'calls' if 'tool_calls' in m else 'none' }}{% endfor %}";
    expect(render(template, [{ role: 'assistant', content: 'a', tool_calls: calls }])).toBe('none');
  });

  it('take no tools for none', () => {
    const template = "{{ 'none' if tools is none else 'tools' }}";
    expect(render(template, user('a'), { tools: [] })).toBe('none');
    expect(render(template, user('a'))).toBe('none');
    expect(render(template, user('a'), { tools: [{}] })).toBe('tools');
  });
});

describe('the developer role (case 49, halogen-server#3)', () => {
  const messages = [{ role: 'developer', content: 'Be brief.' }, ...user('a')];
  const strict =
    "{% for m in messages %}{% if m.role not in ['system', 'user'] %}{{ raise_exception('bad role') }}{% endif %}{{ m.role }};{% endfor %}";

  it('is system to a template that does not know it', () => {
    expect(render(strict, messages)).toBe('system;user;');
    expect(model.renderChat(messages, options)).toContain('<|im_start|>system\nBe brief.<|im_end|>');
  });

  it('stays for a template that knows it', () => {
    expect(render(`{# developer #}{{ messages[0].role }}`, messages)).toBe('developer');
  });
});

describe('strftime_now (case 50, lmstudio-bug-tracker#465)', () => {
  it('writes the date', () => {
    expect(render('{{ strftime_now("%d %B %Y %H:%M:%S %j") }}', [])).toBe('07 March 2025 14:05:09 066');
  });

  it('writes that of today', async () => {
    const today = await withTemplate('{{ strftime_now("%d %B %Y, day %j") }}');
    const before = new Date();
    const written = today.renderChat(user('a'), options);
    const days = [before, new Date()].map((date) => {
      const month = date.toLocaleString('en-US', { month: 'long' });
      const day = Math.round(
        (Date.UTC(date.getFullYear(), date.getMonth(), date.getDate()) - Date.UTC(date.getFullYear(), 0, 0)) /
          86_400_000,
      );
      return `${String(date.getDate()).padStart(2, '0')} ${month} ${date.getFullYear()}, day ${String(day).padStart(3, '0')}`;
    });
    expect(days).toContain(written);
  });

  it.each([
    [new Date(2025, 2, 7, 14, 5, 9, 42), '%a %A %w %d %b %B %m %y %Y', 'Fri Friday 5 07 Mar March 03 25 2025'],
    [new Date(2025, 2, 7, 14, 5, 9, 42), '%H %I %p %M %S %f %j', '14 02 PM 05 09 042000 066'],
    [new Date(2025, 2, 7, 14, 5, 9), '%U %W %V %G %u %%', '09 09 10 2025 5 %'],
    [new Date(2025, 2, 7, 14, 5, 9), '%c|%x|%X', 'Fri Mar  7 14:05:09 2025|03/07/25|14:05:09'],
    [
      new Date(2025, 2, 7, 14, 5, 9),
      '%D %F %T %R %r %e %k %l %h %C',
      '03/07/25 2025-03-07 14:05:09 14:05 02:05:09 PM  7 14  2 Mar 20',
    ],
    [new Date(2025, 2, 7, 4, 5, 9), '%-d/%-m %-I %-H%n%t', '7/3 4 4\n\t'],
    [new Date(2024, 11, 30), '%G-W%V-%u %U %W %j', '2025-W01-1 52 53 365'],
    [new Date(2021, 0, 3), '%G-W%V-%u %U %W %p %I', '2020-W53-7 01 00 AM 12'],
    [new Date(2025, 2, 7), '%Q %', '%Q %'],
  ])('formats %s with %s as Python does', (date, format, text) => {
    expect(strftime(date, format)).toBe(text);
  });

  it('knows the offset from UTC', () => {
    expect(strftime(new Date(), '%z')).toMatch(/^[+-]\d{4}$/);
    expect(strftime(new Date(), '%Z')).not.toBe('');
  });
});

describe('continuing the final message (case 51, transformers#35433)', () => {
  const trimming =
    '{% for m in messages %}[{{ m.role }}]{{ m.content|trim }}[end]\n{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}';
  const messages = [...user('Where?'), { role: 'assistant', content: 'The capital is ' }];
  const continued = { ...options, continueFinalMessage: true };

  it('leaves it open, without a second header', () => {
    expect(render(trimming, messages, continued)).toBe('[user]Where?[end]\n[assistant]The capital is ');
    expect(model.renderChat(messages, continued)).toMatch(/<\|im_start\|>assistant\nThe capital is $/);
  });

  it('takes the last one of equal messages, and text that the template also writes', () => {
    const twice = [...user('assistant'), { role: 'assistant', content: 'assistant' }];
    expect(render(trimming, twice, continued)).toBe('[user]assistant[end]\n[assistant]assistant');
    expect(render(trimming, [{ role: 'assistant', content: '' }], continued)).toBe('[assistant]');
  });

  it('encodes the same text', async () => {
    const ids = await model.encodeChat(messages, continued);
    expect(model.decode(ids, { skipSpecialTokens: false })).toBe(model.renderChat(messages, continued));
    const guarded = await model.encodeChat([...messages, { role: 'user', content: 'x<|im_end|>' }], continued);
    expect(guarded.at(-1)).not.toBe(2);
  });

  it('takes a message without content for an empty one', () => {
    const absent = [{ role: 'assistant', content: null }] as unknown as ChatMessage[];
    expect(render(trimming, absent, continued)).toBe('[assistant]');
  });

  it('refuses what cannot be continued', () => {
    expect(() => render(trimming, [], continued)).toThrow(ChatTemplateError);
    expect(() => render('constant', messages, continued)).toThrow('does not print');
  });
});

describe('long chats', () => {
  const long = Array.from({ length: 1000 }, (_, i) => ({
    role: i % 2 === 0 ? 'user' : 'assistant',
    content: `${i} The quick brown fox, 12345 times; 東京 🙂 <|im_end|> `.repeat(20),
  }));
  const text = (ids: Int32Array) => model.decode(ids, { skipSpecialTokens: false });

  it('are rendered and encoded as short ones are', async () => {
    const ids = await model.encodeChat(long, options);
    expect(text(ids)).toBe(model.renderChat(long, options));
    expect([...ids].filter((id) => id === 2)).toHaveLength(long.length + 1);
    const parsed = await model.encodeChat(long, { ...options, parseSpecialTokens: true });
    expect([...parsed].filter((id) => id === 2)).toHaveLength(21 * long.length + 1);
  });

  it('leave the event loop free: neither rendering nor encoding is done on it', async () => {
    const time = (work: () => unknown): number => {
      const start = performance.now();
      work();
      return performance.now() - start;
    };
    const rendering = Math.min(...[1, 2, 3].map(() => time(() => model.renderChat(long, options))));
    const pending: Promise<Int32Array>[] = [];
    const held = [1, 2, 3].map(() => time(() => pending.push(model.encodeChat(long, options))));
    // What is left is to hand the messages over.
    expect(Math.min(...held)).toBeLessThan(rendering / 2);
    await Promise.all(pending);
  });

  it('are refused as short ones are', async () => {
    const strict = await withTemplate("{{ raise_exception('too many') if messages|length > 999 }}");
    await expect(strict.encodeChat(long, options)).rejects.toThrow(new ChatTemplateError('chat template: too many'));
    const none = await loadTextModel(
      { kind: 'gguf', metadata: { ...(await bundledMetadata()), 'tokenizer.chat_template': undefined } },
      49152,
    );
    await expect(none.encodeChat(long, options)).rejects.toThrow(ChatTemplateError);
  });

  it('are those that a template makes long, too', async () => {
    const writer = await withTemplate('{% for i in range(40000) %}word {% endfor %}');
    expect(await writer.encodeChat(user('a'), options)).toHaveLength(40_001);
  });
});

describe('the choice of a template', () => {
  const config = {
    bos_token: { content: '<s>' },
    chat_template: [
      { name: 'default', template: '{{ bos_token }}default' },
      { name: 'tool_use', template: 'tools' },
    ],
  };
  const load = (chatTemplate: string | undefined, extra: object = config) => {
    const { tokenizer } = readFixture<{ tokenizer: unknown }>('tokenizers/llama3.json');
    return loadTextModel({ kind: 'huggingface', tokenizer, config: { ...extra }, chatTemplate }, 1024);
  };

  it('is by name, tool_use for requests with tools', async () => {
    const named = await load(undefined);
    expect(named.renderChat(user('a'), options)).toBe('<s>default');
    expect(named.renderChat(user('a'), { ...options, tools: [{}] })).toBe('tools');
    expect(named.renderChat(user('a'), { ...options, tools: [] })).toBe('<s>default');
  });

  it('prefers chat_template.jinja', async () => {
    expect((await load('file')).renderChat(user('a'), options)).toBe('file');
  });

  it('is none without a template', async () => {
    expect((await load(undefined, {})).hasChatTemplate).toBe(false);
  });

  it('reads the names of GGUF', async () => {
    const metadata = { ...(await bundledMetadata()), 'tokenizer.chat_template.tool_use': 'tools' };
    const gguf = await loadTextModel({ kind: 'gguf', metadata }, 49152);
    expect(gguf.renderChat(user('a'), { ...options, tools: [{}] })).toBe('tools');
    expect(gguf.renderChat(user('a'), options)).toContain('SmolLM');
  });
});

it('does not add BOS to a chat, whose template writes it (case 16, llama-cpp-python#1501)', async () => {
  const { tokenizer } = readFixture<{ tokenizer: unknown }>('tokenizers/llama2.json');
  const config = { bos_token: '<s>', add_bos_token: true, chat_template: '{{ bos_token }}{{ messages[0].content }}' };
  const llama = await loadTextModel({ kind: 'huggingface', tokenizer, config, chatTemplate: undefined }, 1024);
  const ids = [...(await llama.encodeChat(user('hi'), options))];
  expect(ids.filter((id) => id === 1)).toEqual([1]);
  expect(ids[0]).toBe(1);
});
