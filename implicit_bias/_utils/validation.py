"""scikit-learn's checks of inputs, with their exceptions converted to InputError."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state, compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, validate_data

from implicit_bias._utils.checks import CONVERSION_ERRORS, Array, InputError, as_seed, shown, without_torch
from implicit_bias._utils.limits import check_memory


class InputTypeError(InputError, TypeError):
    """Error of input of a wrong type, for which scikit-learn's interface requires a TypeError."""


class UnfittedError(InputError, NotFittedError):
    """Error of a method that was called before `fit`."""


@contextmanager
def refusals() -> Iterator[None]:
    """Convert exceptions of scikit-learn's checks in the block into an InputError, InputTypeError for a TypeError."""
    try:
        yield
    except InputError:
        raise
    except TypeError as error:
        raise InputTypeError(_short(error)) from None
    except CONVERSION_ERRORS as error:
        raise InputError(_short(error)) from None


def _short(error: Exception) -> str:
    """Return an exception's text without data and long advice, cut after 600 characters; some get a remedy."""
    text = re.sub(r":\narray=.*\.\n(?=Reshape)", ". ", str(error), flags=re.DOTALL)
    if text.startswith("Complex data"):
        return f"{text.splitlines()[0]}; give real numbers"
    if "missing values encoded as NaN" in text:
        return f"{text.splitlines()[0].rstrip('.')}; fill missing values (SimpleImputer in a pipeline), or drop them"
    if re.search("(Date[Tt]ime|Time[Dd]elta)(64DType|Array)", text):
        return "X holds columns of dates or durations; convert them to numbers, or drop them"
    if text.startswith(("could not convert string to float", "Cannot cast")):
        return f"{text}; encode columns of text (OneHotEncoder in a pipeline), or drop them"
    return text if len(text) <= 600 else f"{text[:600]} …"


def validated(
    estimator: BaseEstimator, X: Any, y: Any = "no_validation", *, reset: bool, sparse: bool = False, **checks: Any
) -> Any:
    """Return X (n, d) as finite float64, or the pair (X, y) if y is given and not None; y of a classifier are labels.

    `reset` sets the estimator's features; otherwise X is compared with those of `fit`. `sparse` allows a sparse X.
    `checks` are parameters of scikit-learn's `validate_data`. InputError is raised for invalid and masked inputs.
    """
    if np.ma.is_masked(X):
        raise InputError("X holds masked entries; fill them or leave their samples out")
    for name, values in {"X": X, "y": y}.items():
        if getattr(getattr(values, "dtype", None), "kind", "") in ("m", "M"):
            raise InputError(f"{name} holds dates or durations, which are not numbers or texts; convert them first")
    with refusals(), np.errstate(over="ignore", invalid="ignore"):
        checks |= {"accept_sparse": ("csr", "csc", "coo") if sparse else False}
        checked = validate_data(estimator, without_torch(X), y, dtype=np.float64, order="C", reset=reset, **checks)
        if isinstance(checked, tuple) and is_classifier(estimator):
            check_classification_targets(checked[1])
        if "y_numeric" in checks:
            checked = checked[0], checked[1].astype(np.float64)
    if not sparse:
        return checked
    inputs, *rest = checked if isinstance(checked, tuple) else (checked,)
    if sp.issparse(inputs):
        size = 8 * inputs.shape[0] * inputs.shape[1]
        check_memory(size, "X as a dense array", "select or combine its columns first")
        inputs = inputs.toarray()
    return (inputs, *rest) if rest else inputs


def seed_of(random_state: Any) -> int:
    """Return an integer random state as the seed; draw a seed from any other random state."""
    if random_state is None or not np.issubdtype(type(random_state), np.integer):
        with refusals():
            return int(check_random_state(random_state).randint(2**31 - 1))
    return as_seed(random_state)


def as_weights(values: Any, X: Array) -> Array:
    """Return sample weights (n,), ones by default; raise InputError unless they are finite, ≥ 0 and not all zero."""
    with refusals():
        if np.asarray(without_torch(values)).dtype.kind == "c":
            raise InputError("sample_weight holds complex numbers; give real ones")
        weight: Array = _check_sample_weight(values, X, dtype=np.float64, ensure_non_negative=True)
    return weight


def unequal(weight: Array) -> Array | None:
    """Return the sample weights (n,), or None if all are equal: quantiles and means are then the unweighted ones."""
    return None if np.ptp(weight) == 0 else weight


def with_class_weights(weight: Array, class_weight: Any, y: np.ndarray) -> Array:
    """Return sample weights w (n,) times the positive class weights of labels y (n,), of any classes.

    `class_weight` is a dict, with weight 1 for the classes that it lacks; None, for 1; or 'balanced', for the weights
    Σ_j w_j / (K Σ_{j in the class} w_j) of K classes. InputError is raised for others.

    >>> with_class_weights(np.array([1.0, 1.0, 2.0]), "balanced", np.array(["a", "a", "b"])).tolist()
    [1.0, 1.0, 2.0]
    """
    balanced = isinstance(class_weight, str) and class_weight == "balanced"
    if not balanced and not isinstance(class_weight, dict | None):
        raise InputError(f"class_weight must be a dict of weights, 'balanced' or None, not {shown(class_weight)}")
    with refusals():
        if balanced:
            classes, codes = np.unique(y, return_inverse=True)
            weight = weight * (weight.sum() / len(classes) / np.bincount(codes, weight))[codes]
        else:
            weight = weight * compute_sample_weight(class_weight, y)
    if not (weight > 0).all():
        raise InputError("class_weight must be positive; leave the samples of a class out instead")
    return weight
