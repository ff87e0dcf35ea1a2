"""The gradients of a model, and whether two passes give the same."""

# Of the largest gradient of all: each is a float32 sum of hundreds of terms, which
# packing and portions of a batch add up in another order. A view, a row or a term left
# out moves far more.
REORDERED = 1e-5


def gradients(model):
    """By the name of the parameter, of those that have one."""
    return {
        name: p.grad.clone()
        for name, p in model.named_parameters()
        if p.grad is not None
    }


def assert_same_gradients(found, expected):
    assert found.keys() == expected.keys()
    largest = max(gradient.abs().max() for gradient in expected.values())
    for name, gradient in found.items():
        assert (gradient - expected[name]).abs().max() <= REORDERED * largest, name
