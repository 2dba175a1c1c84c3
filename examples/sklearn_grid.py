"""A grid search in scikit-learn over the parameters of a factorization machine, which predicts who likes which film.

    python3 examples/sklearn_grid.py

A hundred users rate random films. Whether a user likes a film depends on the kinds of both, which the data does not
contain. Logistic regression on users and films cannot learn that; a factorization machine learns a vector for each user
and film. Columns are categories (`categorical="all"`), so no encoder is needed.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
from sklearn.model_selection import GridSearchCV, train_test_split

from tug.sklearn import FMClassifier, LRClassifier

random = np.random.default_rng(1)
users, films = random.integers(0, 100, 20000), random.integers(0, 400, 20000)
taste = np.where(users % 5 == films % 5, 2.0, -1.0)
liked = np.where(random.random(20000) < 1 / (1 + np.exp(-2 * taste)), "liked", "disliked")
X = np.stack([users, films], axis=1)
X_train, X_test, y_train, y_test = train_test_split(X, liked, test_size=0.25, random_state=0)

search = GridSearchCV(FMClassifier(categorical="all", epochs=10, random_state=0),
                      {"dim": [2, 8, 16], "lr": [0.02, 0.1], "prior": [0, 2]}, scoring="roc_auc", cv=3, n_jobs=2)
search.fit(X_train, y_train)
for found, settings in sorted(zip(search.cv_results_["mean_test_score"], map(str, search.cv_results_["params"]))):
    print(f"{found:.4f}  {settings}")

linear = LRClassifier(categorical="all", random_state=0)
scorer = search.scorer_
print(f"logistic regression: test AUC {scorer(linear.fit(X_train, y_train), X_test, y_test):.4f}")
print(f"factorization machine, {search.best_params_}: test AUC {search.score(X_test, y_test):.4f}")
