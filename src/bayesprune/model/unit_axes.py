"""Which weights of an array share a scale: along its inputs, or along its outputs."""

from bayesprune.model.layout import ParamSpec


def of_outputs(spec: ParamSpec) -> tuple[int, ...]:
    """The shape in which a number for each output broadcasts to the array: that of a bias is its own."""
    return _along(spec, spec.outputs)


def of_inputs(spec: ParamSpec) -> tuple[int, ...]:
    """The same for each input."""
    return _along(spec, spec.inputs)


def of_compression(spec: ParamSpec) -> tuple[int, ...] | None:
    """The same for each input of a dense kernel, or each output channel of a convolution; None for what is no kernel.

    A convolution has axes that are neither inputs nor outputs: positions.
    """
    if not spec.inputs or not spec.outputs:
        return None
    positions = len(spec.shape) > len(spec.inputs) + len(spec.outputs)
    return _along(spec, spec.outputs if positions else spec.inputs)


def _along(spec: ParamSpec, axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(size if axis in axes else 1 for axis, size in enumerate(spec.shape))
