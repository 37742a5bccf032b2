"""Distributions that are compared with recorded numbers of PyTorch: classes, parameters, and values."""

# class, parameters that are float64 tensors, other arguments, values.
CASES = [
    ("Gamma", {"concentration": [0.5, 2.5, 1.0], "rate": [2.0, 0.25, 3.0]}, {}, [0.25, 7.0, 1e-3]),
    ("Chi2", {"df": [0.5, 3.0, 40.0]}, {}, [0.25, 1.0, 33.0]),
    ("InverseGamma", {"concentration": [0.5, 1.5, 4.0], "rate": [2.0, 0.25, 3.0]}, {}, [0.25, 7.0, 0.6]),
    ("FisherSnedecor", {"df1": [1.0, 3.0, 8.0], "df2": [2.0, 3.5, 9.0]}, {}, [0.25, 1.0, 2.5]),
    ("StudentT", {"df": [0.5, 1.5, 30.0], "loc": [0.0, -1.0, 2.0], "scale": [1.0, 2.0, 0.5]}, {}, [0.25, 5.0, 2.0]),
    ("Beta", {"concentration1": [0.5, 2.0, 40.0], "concentration0": [0.25, 3.0, 9.0]}, {}, [0.25, 0.5, 0.9]),
    ("Dirichlet", {"concentration": [[0.5, 0.25, 0.75], [2.0, 1.0, 5.0]]}, {}, [[0.25, 0.25, 0.5], [0.2, 0.1, 0.7]]),
    ("Dirichlet", {"concentration": [3.0, 0.5, 2.0, 1.0]}, {}, [[0.25, 0.25, 0.125, 0.375]]),
    ("Poisson", {"rate": [0.5, 3.0, 70.0]}, {}, [0.0, 2.0, 66.0]),
    ("Geometric", {"probs": [0.125, 0.5, 1.0]}, {}, [5.0, 0.0, 0.0]),
    ("Geometric", {"logits": [0.5, -3.0, 2.0]}, {}, [5.0, 0.0, 1.0]),
    ("Binomial", {"probs": [0.125, 0.5, 0.9]}, {"total_count": 7}, [5.0, 0.0, 7.0]),
    ("Binomial", {"logits": [0.5, -3.0, 20.0]}, {"total_count": 3}, [0.0, 3.0, 2.0]),
    ("NegativeBinomial", {"probs": [0.125, 0.5, 0.9]}, {"total_count": 3.0}, [5.0, 0.0, 7.0]),
    ("NegativeBinomial", {"total_count": [0.0, 2.0, 4.5], "logits": [0.5, -3.0, 1.0]}, {}, [0.0, 3.0, 2.0]),
    ("Multinomial", {"probs": [[0.25, 0.25, 0.5], [0.1, 0.2, 0.7]]}, {"total_count": 4}, [[1.0, 1.0, 2.0]]),
    ("Multinomial", {"logits": [0.5, -3.0, 1.0, 0.0]}, {"total_count": 3}, [1.0, 0.0, 2.0, 0.0]),
    ("VonMises", {"loc": [0.0, 1.0, -2.0], "concentration": [0.01, 2.0, 50.0]}, {}, [3.0, -1.0, -2.0]),
    ("LKJCholesky", {"concentration": [0.5, 1.0]}, {"dim": 2}, [[1.0, 0.0], [0.6, 0.8]]),
    ("LKJCholesky", {"concentration": [3.0]}, {"dim": 3}, [[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [-0.6, 0.48, 0.64]]),
    ("Wishart", {"df": [2.5, 7.0], "covariance_matrix": [[2.0, 0.5], [0.5, 1.0]]}, {}, [[3.0, -1.0], [-1.0, 2.0]]),
    ("Wishart", {"df": [4.0], "precision_matrix": [[2.0, 0.5], [0.5, 1.0]]}, {}, [[3.0, -1.0], [-1.0, 2.0]]),
    ("Wishart", {"df": [6.0], "scale_tril": [[2.0, 0.0], [0.5, 1.0]]}, {}, [[3.0, -1.0], [-1.0, 2.0]]),
]

# What is asked of each, without an argument, by its value.
PROPERTIES = ("mean", "mode", "variance", "stddev")
METHODS = ("entropy",)
OF_VALUES = ("log_prob", "cdf")
SHAPES = ("batch_shape", "event_shape", "has_rsample", "has_enumerate_support")

# Two distributions of each family, for divergences.
FAMILIES = {
    "Bernoulli": [{"probs": [0.25, 0.5]}, {"logits": [1.0, -0.5]}],
    "Beta": [
        {"concentration1": [0.5, 2.0], "concentration0": [3.0, 1.5]},
        {"concentration1": [1.5, 0.75], "concentration0": [1.0, 4.0]},
    ],
    "Binomial": [{"probs": [0.25, 0.5], "total_count": [5.0, 3.0]}, {"probs": [0.75, 0.3], "total_count": [5.0, 2.0]}],
    "Cauchy": [{"loc": [0.0, 1.0], "scale": [1.0, 2.0]}, {"loc": [0.5, -1.0], "scale": [0.5, 3.0]}],
    "Chi2": [{"df": [0.5, 4.0]}, {"df": [3.0, 7.0]}],
    "ContinuousBernoulli": [{"probs": [0.25, 0.5]}, {"probs": [0.4, 0.9]}],
    "Dirichlet": [{"concentration": [0.5, 2.0, 1.0]}, {"concentration": [1.5, 0.25, 3.0]}],
    "Exponential": [{"rate": [0.5, 2.0]}, {"rate": [1.5, 0.25]}],
    "Gamma": [{"concentration": [0.5, 3.0], "rate": [2.0, 0.5]}, {"concentration": [1.5, 2.5], "rate": [1.0, 0.75]}],
    "Geometric": [{"probs": [0.25, 0.5]}, {"probs": [0.75, 0.3]}],
    "Gumbel": [{"loc": [0.5, -1.0], "scale": [1.0, 2.0]}, {"loc": [0.0, 1.0], "scale": [3.0, 0.5]}],
    "HalfNormal": [{"scale": [0.5, 2.0]}, {"scale": [1.5, 1.0]}],
    "InverseGamma": [
        {"concentration": [1.5, 3.0], "rate": [2.0, 0.5]},
        {"concentration": [2.5, 1.0], "rate": [1.0, 2.0]},
    ],
    "Laplace": [{"loc": [0.5, -1.0], "scale": [1.0, 2.0]}, {"loc": [0.0, 1.0], "scale": [3.0, 0.5]}],
    "LowRankMultivariateNormal": [
        {"loc": [0.0, 1.0, 2.0], "cov_factor": [[1.0], [0.5], [-1.0]], "cov_diag": [1.0, 0.5, 2.0]},
        {"loc": [0.5, 0.0, 1.0], "cov_factor": [[0.5], [2.0], [1.0]], "cov_diag": [0.25, 1.0, 3.0]},
    ],
    "MultivariateNormal": [
        {"loc": [0.0, 1.0, 2.0], "scale_tril": [[1.0, 0.0, 0.0], [0.5, 2.0, 0.0], [0.25, -1.0, 0.5]]},
        {"loc": [[0.0, 0.5, 1.0]] * 2, "scale_tril": [[2.0, 0.0, 0.0], [1.0, 0.5, 0.0], [0.0, 1.0, 1.5]]},
    ],
    "Normal": [{"loc": [0.5, -1.0], "scale": [1.0, 2.0]}, {"loc": [0.0, 1.0], "scale": [3.0, 0.5]}],
    "Pareto": [{"scale": [0.5, 2.0], "alpha": [3.0, 1.5]}, {"scale": [0.25, 3.0], "alpha": [2.5, 0.75]}],
    "Poisson": [{"rate": [0.5, 2.0]}, {"rate": [1.5, 0.25]}],
    "Uniform": [{"low": [0.0, 0.25], "high": [1.0, 0.5]}, {"low": [-1.0, 0.0], "high": [3.0, 4.0]}],
    "Wishart": [
        {"df": [3.0], "scale_tril": [[2.0, 0.0], [0.5, 1.0]]},
        {"df": [5.0], "covariance_matrix": [[1.0, -0.5], [-0.5, 2.0]]},
    ],
}
