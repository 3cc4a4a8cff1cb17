import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesprune.features import choose_fraction, cross_validation, top_fraction

FRACTIONS = (0.05, 0.1, 0.25, 0.5, 1.0)


def problem(rows=63, features=20, relevant=5):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows, features)).astype(np.float32)
    return x, (x[:, :relevant].sum(axis=1) + 0.5 * rng.standard_normal(rows)).astype(np.float32)


def least_squares(key, x, y, x_val, y_val):
    return np.mean((x_val @ np.linalg.lstsq(x, y, rcond=None)[0] - y_val) ** 2)


def correlation(key, x, y):
    return np.abs(x.T @ y)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("rule", ["min", "one_standard_error"])
def test_the_true_share_is_found(rule):
    x, y = problem(rows=300)
    found = choose_fraction(jax.random.key(0), least_squares, x, y, correlation, FRACTIONS, rule=rule)
    assert found.fraction == 0.25
    assert found.losses.shape == (10, 5) and found.fractions.tolist() == list(FRACTIONS)
    mean = found.losses.mean(axis=0)
    # Three of the five inputs dropped cost their variance, 3; all twenty kept cost a little.
    assert mean[1] > 2 and mean[2] < mean[4]


def test_every_fold_is_held_out_once_at_one_shape_and_dropped_columns_are_zero():
    x, _ = problem(rows=63)
    row = np.arange(63.0)
    seen, ranked = [], []

    def fit_and_score(key, x_train, y_train, x_val, y_val):
        seen.append((jax.random.key_data(key).tolist(), x_train, y_train, x_val, y_val))
        return float(len(seen))

    def rank(key, x_train, y_train):
        ranked.append(y_train)
        return np.arange(20.0)

    found = choose_fraction(jax.random.key(0), fit_and_score, x, row, rank, (0.5, 0.1), num_folds=10)
    assert len(seen) == 20 and len(ranked) == 10
    assert {(a.shape, b.shape) for _, a, _, b, _ in seen} == {((57, 20), (6, 20))}
    held = [y_val for *_, y_val in seen[::2]]
    assert len({int(v) for part in held for v in part}) == 60  # 63 rows: 3 are trained on in every fold
    assert not np.array_equal(np.sort(np.concatenate(held)), np.concatenate(held))  # folds are drawn, not cut in order
    for place, (_, x_train, y_train, x_val, y_val) in enumerate(seen):
        assert sorted([*y_train, *y_val]) == row.tolist()
        dropped = 20 - (2 if place % 2 == 0 else 10)  # shares ascend: 0.1, then 0.5
        for part, rows in ((x_train, y_train), (x_val, y_val)):
            assert not part[:, :dropped].any()
            np.testing.assert_array_equal(part[:, dropped:], x[rows.astype(int), dropped:])
    assert [key for key, *_ in seen[::2]] == [key for key, *_ in seen[1::2]]  # one key for a fold's shares
    assert len({str(key) for key, *_ in seen}) == 10
    np.testing.assert_array_equal(found.losses, np.arange(1.0, 21.0).reshape(10, 2))


def test_one_compilation_serves_all_fits():
    traces = []

    @jax.jit
    def fit_and_score(key, x, y, x_val, y_val):
        traces.append(x.shape)
        return jnp.mean((x_val @ jnp.linalg.solve(x.T @ x + jnp.eye(20), x.T @ y) - y_val) ** 2)

    x, y = problem()
    choose_fraction(jax.random.key(0), fit_and_score, x, y, correlation, FRACTIONS, num_folds=4)
    assert len(traces) == 1


def test_the_key_decides():
    x, y = problem()
    one, again, other = (
        choose_fraction(jax.random.key(k), least_squares, x, y, correlation, FRACTIONS, num_folds=3).losses for k in (0, 0, 1)
    )
    np.testing.assert_array_equal(one, again)
    assert not np.array_equal(one, other)


def test_rules_on_a_table():
    # Means 1.2, 1.0, 1.0. The lowest has the losses 0.5 and 1.5: deviation sqrt(0.5), standard error sqrt(0.5 / 2) = 0.5, so
    # 1.2 is within one of it and 1.6 is not; of two tied shares the smaller wins.
    table = np.array([[1.2, 0.5, 0.5], [1.2, 1.5, 1.5]])
    assert cross_validation._chosen(table, "min") == 1
    assert cross_validation._chosen(table, "one_standard_error") == 0
    assert cross_validation._chosen(table + np.array([0.4, 0, 0]), "one_standard_error") == 1


X, Y = problem()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"fractions": ()}, "fractions"),
        ({"stratified": True, "y": Y[:, None]}, r"labels y of shape \(rows,\), got"),
        ({"fractions": (0.5, 0.0)}, "fractions"),
        ({"num_folds": 1}, "num_folds"),
        ({"num_folds": 64}, "num_folds"),
        ({"rule": "max"}, "unknown rule"),
        ({"y": Y[:-1]}, "rows|parameter"),
        ({"importance_of": lambda key, x, y: np.ones(3)}, "importance_of"),
        ({"rng_key": 0}, "rng_key"),
    ],
)
def test_bad_arguments_are_named(change, message):
    arguments = {
        "rng_key": jax.random.key(0),
        "fit_and_score": least_squares,
        "x": X,
        "y": Y,
        "importance_of": correlation,
        "fractions": FRACTIONS,
    }
    with pytest.raises((ValueError, TypeError), match=message):
        choose_fraction(**(arguments | change))


def test_a_fit_that_diverges_is_named():
    with pytest.raises(FloatingPointError, match=r"fold 0 with the share 0\.05"):
        choose_fraction(jax.random.key(0), lambda *args: np.nan, X, Y, correlation, FRACTIONS)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("fraction", [0.01, 0.2, 0.5, 0.77, 1.0])
def test_the_count_is_exact_under_ties(fraction):
    values = np.random.default_rng(0).integers(0, 3, size=30).astype(float)
    keep = top_fraction(values, fraction)
    assert keep.sum() == max(1, round(fraction * 30))
    assert values[keep].min() >= values[~keep].max(initial=-1.0)


def test_ties_go_to_the_lower_index_and_minus_infinity_is_last():
    assert top_fraction(jnp.zeros(4), 0.5).tolist() == [True, True, False, False]
    assert top_fraction(np.array([-np.inf, -3.0, -np.inf, -2.0]), 0.5).tolist() == [False, True, False, True]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: top_fraction(np.array([1.0, np.nan]), 0.5), "NaN"),
        (lambda: top_fraction(np.zeros(0), 0.5), "importance"),
        (lambda: top_fraction(np.zeros(3), 0.0), "fraction"),
        (lambda: top_fraction(np.zeros(3), 1.2), "fraction"),
    ],
)
def test_bad_importances_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_rare_class_is_held_out_although_rows_are_left_over() -> None:
    """103 rows in ten folds leave three in none: of 100 and 3 labels, those of the larger class."""
    held: list[int] = []
    x, y = np.ones((103, 2)), np.repeat([0, 1], (100, 3))

    def fit_and_score(key: object, x: object, y: object, x_held: object, y_held: np.ndarray) -> float:
        held.append(int(np.sum(y_held)))
        return 1.0

    rank = lambda *given: np.arange(2.0)  # noqa: E731
    choose_fraction(jax.random.key(0), fit_and_score, x, y, rank, (1.0,), num_folds=10, stratified=True)
    assert sorted(held) == [0] * 7 + [1] * 3
