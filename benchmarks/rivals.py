"""Models that others ship for tables, as they come: each reads texts and gaps as its authors advise."""

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.compose import TransformedTargetRegressor, make_column_selector, make_column_transformer
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import ElasticNetCV, LogisticRegression
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import bayesprune as bp

MEMBERS = 5


def _encoded(last: Any) -> Any:
    """Texts as columns of zeros and ones, gaps at the median, all standardised."""
    texts = make_column_selector(dtype_exclude="number")
    one_hot = OneHotEncoder(handle_unknown="ignore", min_frequency=5, sparse_output=False)
    numbers = (SimpleImputer(strategy="median", add_indicator=True), make_column_selector(dtype_include="number"))
    return make_pipeline(make_column_transformer((one_hot, texts), numbers), StandardScaler(), last)


def _linear(labels: bool) -> Any:
    return _encoded(LogisticRegression(max_iter=2000)) if labels else in_units(_encoded(ElasticNetCV(cv=5, max_iter=5000)))


def _forest(labels: bool) -> Any:
    return _encoded((RandomForestClassifier if labels else RandomForestRegressor)(random_state=0))


def _networks(labels: bool) -> Any:
    """Five of scikit-learn's, stopped early, averaged; targets standardised."""
    kind = MLPClassifier if labels else MLPRegressor
    members = [(str(seed), kind(early_stopping=True, max_iter=500, random_state=seed)) for seed in range(MEMBERS)]
    if labels:
        return _encoded(VotingClassifier(members, voting="soft"))
    return in_units(_encoded(VotingRegressor(members)))


def in_units(model: Any) -> Any:
    """The model on standardised targets: an elastic net's squares shrink all slopes to nothing where y is in thousands."""
    return TransformedTargetRegressor(model, transformer=StandardScaler())


class _Native:
    """A boosting library that takes texts as pandas categories (CatBoost: as texts) and gaps as NaN."""

    def __init__(self, model: Any, texts: bool = False) -> None:
        self.model, self.texts = model, texts

    def _read(self, x: Any) -> Any:
        x = x.copy()
        for name in self.named:
            texts = x[name].astype(object)
            if self.texts:
                x[name] = texts.where(texts.notna(), "gap").astype(str)
            else:  # what is new is a gap
                x[name] = texts.where(texts.isin(self.kinds[name].categories)).astype(self.kinds[name])
        return x

    def fit(self, x: Any, y: np.ndarray) -> "_Native":
        self.named = list(x.select_dtypes(exclude="number").columns)
        self.kinds = {name: x[name].astype("category").dtype for name in self.named}
        more = {"cat_features": self.named} if self.texts else {}
        self.model.fit(self._read(x), y, **more)
        return self

    def predict(self, x: Any) -> np.ndarray:
        return np.asarray(self.model.predict(self._read(x)), float).ravel()

    def predict_proba(self, x: Any) -> np.ndarray:
        return np.asarray(self.model.predict_proba(self._read(x)))


def _boosting(labels: bool) -> Any:
    kind = HistGradientBoostingClassifier if labels else HistGradientBoostingRegressor
    return _Native(kind(categorical_features="from_dtype", random_state=0))


def _catboost(labels: bool) -> Any:
    import catboost

    kind = catboost.CatBoostClassifier if labels else catboost.CatBoostRegressor
    return _Native(kind(random_seed=0, verbose=False, thread_count=1, allow_writing_files=False), texts=True)


def _lightgbm(labels: bool) -> Any:
    import lightgbm

    kind = lightgbm.LGBMClassifier if labels else lightgbm.LGBMRegressor
    return _Native(kind(random_state=0, verbose=-1, n_jobs=1))


def _xgboost(labels: bool) -> Any:
    import xgboost

    kind = xgboost.XGBClassifier if labels else xgboost.XGBRegressor
    return _Native(kind(random_state=0, n_jobs=1, enable_categorical=True))


def _default(labels: bool) -> Any:
    return (bp.BayesianSparseClassifier if labels else bp.BayesianSparseRegressor)(random_state=0)


def alone(labels: bool) -> Any:
    """The default, of one network: no mixture of forms."""
    return _default(labels).set_params(stacking=False)


def of_heavy_tails(labels: bool) -> Any:
    """The default for numbers whose errors have heavy tails, whether they are counts or not."""
    return _default(labels).set_params(likelihood="student_t")


MODELS: dict[str, Callable[[bool], Any]] = {
    "default": _default,
    "catboost": _catboost,
    "lightgbm": _lightgbm,
    "xgboost": _xgboost,
    "boosting": _boosting,
    "forest": _forest,
    "linear": _linear,
    "networks": _networks,
}
