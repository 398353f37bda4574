/** A burst of requests is spread over turns of the event loop, in order, and loses none. */
import { Hono } from 'hono';
import { describe, expect, it } from 'vitest';
import type { AppEnv } from '../../src/server/context.js';
import { pace } from '../../src/server/pace.js';

describe('pace', () => {
  it('lets a few requests a turn begin, in their order', async () => {
    let turns = 0;
    let counting = true;
    const count = () => {
      turns++;
      if (counting) setImmediate(count);
    };
    setImmediate(count);
    const begun: [index: number, turn: number][] = [];
    const app = new Hono<AppEnv>();
    app.get('/:index', pace(), (c) => {
      begun.push([Number(c.req.param('index')), turns]);
      return c.text('ok');
    });
    const answers = await Promise.all(Array.from({ length: 100 }, (_, i) => app.request(`/${i}`)));
    counting = false;
    expect(answers.map(({ status }) => status)).toEqual(Array(100).fill(200));
    expect(begun.map(([index]) => index)).toEqual(Array.from({ length: 100 }, (_, i) => i));
    const perTurn = new Map<number, number>();
    for (const [, turn] of begun) perTurn.set(turn, (perTurn.get(turn) ?? 0) + 1);
    expect(Math.max(...perTurn.values())).toBeLessThanOrEqual(32);
    expect(perTurn.size).toBeGreaterThan(3);
  });

  it('does not hold a request that comes alone', async () => {
    const app = new Hono<AppEnv>();
    let begun = 0;
    app.get('/', pace(), (c) => {
      begun++;
      return c.text('ok');
    });
    for (let i = 0; i < 50; i++) {
      const answer = app.request('/');
      await Promise.resolve();
      await answer;
      expect(begun).toBe(i + 1);
    }
  });
});
