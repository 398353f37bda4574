"""Converts a Hugging Face directory to OpenVINO with 8-bit weights. Arguments: source, target."""

import sys

from optimum.intel import OVModelForCausalLM

model = OVModelForCausalLM.from_pretrained(sys.argv[1], export=True, load_in_8bit=True)
model.save_pretrained(sys.argv[2])
