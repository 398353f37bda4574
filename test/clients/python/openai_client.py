"""OpenAI's client for Python, unmodified."""
import asyncio

import openai
from checks import BASE, KEY, LONG, MESSAGES, MODEL, SEEDED, raises, run

client = openai.OpenAI(base_url=BASE, api_key=KEY, max_retries=0)
chat = client.chat.completions


def stop_of(messages):
    """A text at which an answer can be stopped: the helpers take one that was cut by its length for a fault."""
    text = chat.create(model=MODEL, messages=messages, **SEEDED).choices[0].message.content
    return text[len(text) // 2 :][:2]


def lists_models():
    assert [model.id for model in client.models.list()] == [MODEL]


def completes_texts():
    answer = client.completions.create(
        model=MODEL, prompt=["Hello", "there"], max_tokens=8, n=2, logprobs=2, echo=True, seed=1
    )
    assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
    for choice in answer.choices:
        assert "".join(choice.logprobs.tokens) == choice.text
        # Offsets count characters as Python does.
        for token, offset in zip(choice.logprobs.tokens, choice.logprobs.text_offset):
            assert choice.text[offset : offset + len(token)] == token


def streams_what_it_answers():
    whole = chat.create(model=MODEL, messages=MESSAGES, **SEEDED)
    stream = chat.create(
        model=MODEL, messages=MESSAGES, stream=True, stream_options={"include_usage": True}, **SEEDED
    )
    text, usage, reasons = "", None, []
    for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            text += choice.delta.content or ""
            if choice.finish_reason:
                reasons.append(choice.finish_reason)
    assert text == whole.choices[0].message.content
    assert usage.completion_tokens == whole.usage.completion_tokens
    assert usage.prompt_tokens_details.cached_tokens >= 0
    assert reasons == [whole.choices[0].finish_reason]


def puts_a_stream_with_logprobs_together():
    options = dict(
        model=MODEL, messages=MESSAGES, logprobs=True, top_logprobs=2, stop=[stop_of(MESSAGES)], **SEEDED
    )
    whole = chat.create(**options)
    with chat.stream(**options) as stream:
        for _ in stream:
            pass
        final = stream.get_final_completion()
    for one, other in zip(final.choices, whole.choices, strict=True):
        assert one.message.content == other.message.content
        assert one.logprobs.content == other.logprobs.content
        joined = b"".join(bytes(token.bytes) for token in one.logprobs.content)
        assert joined.decode("utf-8", "replace") == one.message.content


def answers_responses():
    stop = stop_of(MESSAGES)
    whole = chat.create(model=MODEL, messages=MESSAGES, stop=stop, **SEEDED)
    options = dict(model=MODEL, input="Hello there", max_output_tokens=24, extra_body={"seed": 1, "stop": stop})
    assert client.responses.create(**options).output_text == whole.choices[0].message.content
    numbers = []
    with client.responses.stream(**options) as stream:
        for event in stream:
            numbers.append(event.sequence_number)
        assert stream.get_final_response().output_text == whole.choices[0].message.content
    # The helper makes deltas of its own on the way; what came is in order.
    assert numbers == sorted(numbers) and numbers[0] == 0


def runs_many_at_once():
    async def ask(client, seed):
        answer = await client.chat.completions.create(model=MODEL, messages=MESSAGES, seed=seed, max_tokens=16)
        return answer.choices[0].message.content

    async def both():
        async with openai.AsyncOpenAI(base_url=BASE, api_key=KEY, max_retries=0) as client:
            together = await asyncio.gather(*(ask(client, seed) for seed in range(16)))
            alone = [await ask(client, seed) for seed in range(16)]
            assert together == alone

    asyncio.run(both())


def aborts_a_stream():
    with chat.create(model=MODEL, messages=MESSAGES, stream=True, n=16, **LONG) as stream:
        for _ in stream:
            break


def times_out():
    raises(openai.APITimeoutError, lambda: chat.create(model=MODEL, messages=MESSAGES, n=64, timeout=0.2, **LONG))


def types_errors():
    error = raises(openai.BadRequestError, lambda: chat.create(model=MODEL, messages=MESSAGES, temperature=9999))
    assert error.param == "temperature" and error.type == "invalid_request_error"
    raises(openai.NotFoundError, lambda: chat.create(model="other", messages=MESSAGES))
    stranger = openai.OpenAI(base_url=BASE, api_key="wrong", max_retries=0)
    raises(openai.AuthenticationError, stranger.models.list)


def retries_by_itself():
    seen = []
    import httpx

    def count(response):
        seen.append(response.status_code)

    transport = httpx.Client(event_hooks={"response": [count]})
    retrying = openai.OpenAI(base_url=BASE, api_key=KEY + "-narrow", max_retries=8, http_client=transport)
    occupant = retrying.chat.completions.create(
        model=MODEL, messages=MESSAGES, stream=True, max_tokens=900, extra_body={"ignore_eos": True}
    )
    iterator = iter(occupant)
    next(iterator)
    import threading

    threading.Timer(0.3, occupant.close).start()
    answer = retrying.completions.create(model=MODEL, prompt="Hello", max_tokens=4)
    assert len(answer.choices) == 1
    assert 429 in seen and seen[-1] == 200, seen


run(
    lists_models,
    completes_texts,
    streams_what_it_answers,
    puts_a_stream_with_logprobs_together,
    answers_responses,
    runs_many_at_once,
    aborts_a_stream,
    times_out,
    types_errors,
    retries_by_itself,
)
