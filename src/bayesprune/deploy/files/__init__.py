"""A compact network as one file: ours, and ONNX."""
