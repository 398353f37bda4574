"""litellm, unmodified, by its provider for OpenAI-compatible servers."""
import asyncio
import os

# It would ask the network for prices of models.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
import litellm  # noqa: E402
from checks import BASE, KEY, MESSAGES, MODEL, SEEDED, raises, run  # noqa: E402

ROUTE = dict(model=f"openai/{MODEL}", api_base=BASE, api_key=KEY, num_retries=0)
litellm.telemetry = False


def completes_a_chat():
    answer = litellm.completion(messages=MESSAGES, **ROUTE, **SEEDED)
    assert answer.choices[0].message.content
    assert answer.usage.completion_tokens > 0


def streams_what_it_answers():
    whole = litellm.completion(messages=MESSAGES, **ROUTE, **SEEDED)
    stream = litellm.completion(
        messages=MESSAGES, stream=True, stream_options={"include_usage": True}, **ROUTE, **SEEDED
    )
    chunks = list(stream)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == whole.choices[0].message.content
    rebuilt = litellm.stream_chunk_builder(chunks, messages=MESSAGES)
    assert rebuilt.choices[0].message.content == text
    assert rebuilt.usage.completion_tokens == whole.usage.completion_tokens


def continues_a_text():
    route = {**ROUTE, "model": f"text-completion-openai/{MODEL}"}
    whole = litellm.text_completion(prompt="Hello", **route, **SEEDED)
    stream = litellm.text_completion(prompt="Hello", stream=True, **route, **SEEDED)
    text = "".join(chunk.choices[0].text or "" for chunk in stream if chunk.choices)
    assert text == whole.choices[0].text


def asks_at_once():
    async def both():
        answers = await asyncio.gather(
            *(litellm.acompletion(messages=MESSAGES, seed=seed, max_tokens=8, **ROUTE) for seed in range(8))
        )
        assert all(answer.choices[0].message.content is not None for answer in answers)

    asyncio.run(both())


def types_errors():
    raises(litellm.BadRequestError, lambda: litellm.completion(messages=MESSAGES, temperature=9999, **ROUTE))
    raises(litellm.AuthenticationError, lambda: litellm.completion(messages=MESSAGES, **{**ROUTE, "api_key": "wrong"}))
    raises(litellm.NotFoundError, lambda: litellm.completion(messages=MESSAGES, **{**ROUTE, "model": "openai/other"}))


run(completes_a_chat, streams_what_it_answers, continues_a_text, asks_at_once, types_errors)
