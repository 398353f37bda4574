"""vLLM's CPU build. Arguments: model directory, threads, sequences at once, tokens of a sequence."""

import itertools
import os
import sys

directory, threads, sequences, length = sys.argv[1], *map(int, sys.argv[2:5])
os.environ.update(
    VLLM_CPU_OMP_THREADS_BIND=f"0-{threads - 1}",
    VLLM_CPU_KVCACHE_SPACE="1",
    # The engine in this process, so that a step is what is timed.
    VLLM_ENABLE_V1_MULTIPROCESSING="0",
)

import vllm  # noqa: E402
from driver import drive  # noqa: E402

engine = vllm.LLMEngine.from_engine_args(
    vllm.EngineArgs(
        model=directory,
        dtype="bfloat16",
        max_model_len=length,
        max_num_seqs=sequences,
        max_num_batched_tokens=2048,
        enable_prefix_caching=False,
    )
)
ids = itertools.count()


def run(prompts, new_tokens, now):
    params = vllm.SamplingParams(
        temperature=0,
        max_tokens=new_tokens,
        ignore_eos=True,
        detokenize=False,
        output_kind=vllm.sampling_params.RequestOutputKind.DELTA,
    )
    places = {}
    for sequence, prompt in enumerate(prompts):
        places[name := str(next(ids))] = sequence
        engine.add_request(name, vllm.TokensPrompt(prompt_token_ids=prompt), params)
    tokens = [[] for _ in prompts]
    times = [[] for _ in prompts]
    while engine.has_unfinished_requests():
        outputs = engine.step()
        at = now()
        for output in outputs:
            new = list(output.outputs[0].token_ids)
            tokens[places[output.request_id]].extend(new)
            times[places[output.request_id]].extend([at] * len(new))
    return tokens, times


drive(f"vLLM {vllm.__version__}, bf16, {threads} threads", run)
