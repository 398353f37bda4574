"""onnxruntime-genai: static batches, which is what its CPU engine offers. Arguments: model directory, threads."""

import json
import pathlib
import sys

import numpy as np
import onnxruntime_genai as og

from driver import drive

directory, threads = sys.argv[1], int(sys.argv[2])
config = og.Config(directory)
config.overlay(json.dumps({"model": {"decoder": {"session_options": {"intra_op_num_threads": threads}}}}))
model = og.Model(config)


def run(prompts, new_tokens, now):
    params = og.GeneratorParams(model)
    length = len(prompts[0]) + new_tokens
    # The lower bound keeps end tokens from being chosen.
    params.set_search_options(batch_size=len(prompts), do_sample=False, min_length=length, max_length=length)
    generator = og.Generator(model, params)
    generator.append_tokens(np.array(prompts, dtype=np.int32))
    tokens = [[] for _ in prompts]
    times = [[] for _ in prompts]
    for _ in range(new_tokens):
        generator.generate_next_token()
        at = now()
        for sequence, token in enumerate(generator.get_next_tokens()):
            tokens[sequence].append(int(token))
            times[sequence].append(at)
    return tokens, times


drive(f"onnxruntime-genai {og.__version__}, {pathlib.Path(directory).name}, {threads} threads", run)
