"""Names of the columns of MovieLens' files (Harper and Konstan 2015)."""

from rushlight.support.peer_names import absent_name

RATINGS_FILENAME, MOVIES_FILENAME = "ratings.csv", "movies.csv"
DEFAULT_RATINGS_COLUMN_NAMES = ["userId", "movieId", "rating", "timestamp"]
DEFAULT_MOVIES_COLUMN_NAMES = ["movieId", "title", "genres"]
DEFAULT_COLUMN_NAMES = [*DEFAULT_RATINGS_COLUMN_NAMES, *DEFAULT_MOVIES_COLUMN_NAMES[1:]]

__all__ = [
    "DEFAULT_COLUMN_NAMES",
    "DEFAULT_MOVIES_COLUMN_NAMES",
    "DEFAULT_RATINGS_COLUMN_NAMES",
    "MOVIES_FILENAME",
    "RATINGS_FILENAME",
]


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
