"""What a plan costs, for people: each rank's time by part and memory, each table's place, as text and as a picture."""

from __future__ import annotations

from collections import Counter
from html import escape
from io import StringIO

from rich import box
from rich.console import Console
from rich.table import Table

from rushlight.recsys.planner.options import Perf, ShardingOption, Storage
from rushlight.recsys.planner.partitioners import rank_storages
from rushlight.recsys.planner.plan import Plan, rounded
from rushlight.recsys.planner.topology import GIB
from rushlight.support.frozen import frozen

PARTS = ("fwd_compute", "fwd_comms", "bwd_compute", "bwd_comms", "prefetch_compute")
COLOURS = ("#4477aa", "#66ccee", "#228833", "#ccbb44", "#aa3377")  # told apart by people who see few colours
SHORT = {
    "data_parallel": "DP",
    "table_wise": "TW",
    "column_wise": "CW",
    "row_wise": "RW",
    "table_row_wise": "TWRW",
    "table_column_wise": "TWCW",
    "grid_shard": "GS",
}


@frozen
class RankStats:
    """One rank: milliseconds by part, bytes of tables, bytes that they may take, shards by sharding type."""

    rank: int
    perf: Perf
    used: Storage
    room: Storage
    shards: tuple[tuple[str, int], ...]


def rank_stats(plan: Plan) -> list[RankStats]:
    """Return the figures of each rank."""
    world = plan.topology.world_size
    perfs = [Perf()] * world
    kinds: list[Counter[str]] = [Counter() for _ in range(world)]
    for option in plan.options:
        for rank, perf in zip(option.ranks, option.perfs, strict=True):
            perfs[rank] = perfs[rank] + perf
            kinds[rank][SHORT[option.sharding_type.value]] += 1
    used = rank_storages(plan.options, world)
    return [
        RankStats(rank, perfs[rank], used[rank], plan.room.caps[rank], tuple(sorted(kinds[rank].items())))
        for rank in range(world)
    ]


class EmbeddingStats:
    """A plan's figures as text and as a picture. The same plan gives the same bytes.

    print(EmbeddingStats(plan).text())
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.ranks = rank_stats(plan)

    def summary(self) -> str:
        """Return one line: sizes, bottleneck, bound, balance."""
        plan = self.plan
        totals = [rank.perf.total for rank in self.ranks]
        mean = sum(totals) / len(totals)
        longest, bound = max(totals), plan.lower_bound_ms
        gap = f"{100 * (longest / bound - 1):.1f} %" if bound else "unknown"
        proof = ", and no plan is better" if plan.proven else ""
        balance = longest / mean if mean else 1.0
        return (
            f"{len(plan.options)} tables on {len(totals)} ranks of {plan.topology.compute_device}, batch "
            f"{plan.batch_size}: {rounded(longest):.4g} ms, {gap} above a bound{proof}; longest/mean {balance:.3f}"
        )

    def rank_table(self) -> Table:
        """Return a table with a row for each rank."""
        table = Table("rank", "ms", *[part.replace("_", " ") for part in PARTS], box=box.ASCII, title="Ranks")
        memory = [kind for kind in ("hbm", "ddr", "ssd") if any(getattr(rank.used, kind) for rank in self.ranks)]
        for kind in memory:
            table.add_column(f"{kind} GiB")
        table.add_column("shards")
        for rank in self.ranks:
            used = [_share(getattr(rank.used, kind), getattr(rank.room, kind)) for kind in memory]
            parts = [f"{getattr(rank.perf, part):.4g}" for part in PARTS]
            shards = " ".join([f"{kind} {count}" for kind, count in rank.shards])
            table.add_row(str(rank.rank), f"{rank.perf.total:.4g}", *parts, *used, shards)
        return table

    def table_table(self) -> Table:
        """Return a table with a row for each table of the plan."""
        table = Table("table", "rows x columns", "sharding type", "kernel", "ranks", "ms", "GiB", box=box.ASCII)
        table.title = "Tables"
        for option in self.plan.options:
            storage = option.total_storage
            table.add_row(
                option.fqn,
                f"{option.table.rows} x {option.table.columns}",
                option.sharding_type.value,
                option.compute_kernel.value,
                shown_ranks(option, self.plan.topology.world_size),
                f"{option.longest_perf:.4g}",
                f"{(storage.hbm + storage.ddr + storage.ssd) / GIB:.3f}",
            )
        return table

    def text(self, width: int = 160) -> str:
        """Return summary and tables as plain text, for lines of so many characters."""
        out = StringIO()
        console = Console(file=out, width=width, color_system=None, force_terminal=False, legacy_windows=False)
        console.print(self.summary(), soft_wrap=True, highlight=False)
        console.print(self.rank_table())
        console.print(self.table_table())
        return out.getvalue()

    def svg(self) -> str:
        """Return a picture: bars of time by part for each rank, with mean and bound, and bars of memory with caps."""
        return _picture(self)


def _share(used: int, room: int) -> str:
    return f"{used / GIB:.3f} ({100 * used / room:.0f} %)" if room else f"{used / GIB:.3f}"


def shown_ranks(option: ShardingOption, world_size: int) -> str:
    """Return the ranks of an option for people: `all`, or ranges."""
    ranks = sorted(set(option.ranks))
    if len(ranks) == world_size and world_size > 1:
        return "all"
    ranges: list[str] = []
    first = 0
    for position in range(1, len(ranks) + 1):
        if position == len(ranks) or ranks[position] != ranks[position - 1] + 1:
            start, end = ranks[first], ranks[position - 1]
            ranges.append(str(start) if start == end else f"{start}-{end}")
            first = position
    return ",".join(ranges)


WIDTH, HEIGHT, LEFT, GAP = 900, 220, 60, 50


def _picture(stats: EmbeddingStats) -> str:
    ranks = stats.ranks
    step = (WIDTH - LEFT - 20) / len(ranks)
    body = [_text(LEFT, 18, stats.summary(), 12), *_time_bars(stats, step), *_memory_bars(stats, step), *_legend()]
    whole = 2 * HEIGHT + 2 * GAP + 40
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{whole}" viewBox="0 0 {WIDTH} {whole}" '
        'font-family="sans-serif">\n<title>Plan of embedding tables</title>\n'
        f'<rect width="{WIDTH}" height="{whole}" fill="#ffffff"/>\n' + "\n".join(body) + "\n</svg>\n"
    )


def _time_bars(stats: EmbeddingStats, step: float) -> list[str]:
    totals = [rank.perf.total for rank in stats.ranks]
    top = max(totals) or 1.0
    base = GAP + HEIGHT
    lines: list[str] = _axis(base, f"{top:.4g} ms")
    for position, rank in enumerate(stats.ranks):
        low = float(base)
        for part, colour in zip(PARTS, COLOURS, strict=True):
            milliseconds = getattr(rank.perf, part)
            height = HEIGHT * milliseconds / top
            low -= height
            note = f"rank {rank.rank}: {part} {milliseconds:.4g} ms of {rank.perf.total:.4g}"
            lines.append(_bar(LEFT + position * step, low, step * 0.85, height, colour, note))
        if len(stats.ranks) <= 32 or position % 8 == 0:
            lines.append(_text(LEFT + position * step, base + 14, str(rank.rank), 10))
    mean = sum(totals) / len(totals)
    lines += _level(base - HEIGHT * mean / top, f"mean {mean:.4g}", "#000000")
    bound = stats.plan.lower_bound_ms
    return lines + (_level(base - HEIGHT * bound / top, f"bound {bound:.4g}", "#cc3311") if bound else [])


def _memory_bars(stats: EmbeddingStats, step: float) -> list[str]:
    kind = stats.plan.topology.memory_kind
    caps = [getattr(rank.room, kind) for rank in stats.ranks]
    top = max(*caps, *[getattr(rank.used, kind) for rank in stats.ranks], 1)
    base = 2 * HEIGHT + 2 * GAP
    lines = _axis(base, f"{top / GIB:.4g} GiB")
    for position, (rank, cap) in enumerate(zip(stats.ranks, caps, strict=True)):
        used = getattr(rank.used, kind)
        left = LEFT + position * step
        note = f"rank {rank.rank}: {used / GIB:.4g} of {cap / GIB:.4g} GiB {kind}"
        for nbytes, colour in ((cap, "#dddddd"), (used, "#4477aa")):
            height = HEIGHT * nbytes / top
            lines.append(_bar(left, base - height, step * 0.85, height, colour, note))
    return lines


def _legend() -> list[str]:
    row = 2 * HEIGHT + 2 * GAP + 28
    lines: list[str] = []
    for position, (part, colour) in enumerate(zip(PARTS, COLOURS, strict=True)):
        left = LEFT + 150 * position
        lines += [_bar(left, row - 9, 10, 10, colour, part), _text(left + 14, row, part.replace("_", " "), 11)]
    return lines


def _axis(base: float, top: str) -> list[str]:
    return [
        f'<line x1="{LEFT}" y1="{_n(base)}" x2="{WIDTH - 20}" y2="{_n(base)}" stroke="#888888"/>',
        _text(4, base - HEIGHT + 4, top, 10),
        _text(4, base, "0", 10),
    ]


def _level(y: float, label: str, colour: str) -> list[str]:
    line = f'<line x1="{LEFT}" y1="{_n(y)}" x2="{WIDTH - 20}" y2="{_n(y)}" stroke="{colour}" stroke-dasharray="4 3"/>'
    return [line, _text(WIDTH - 110, y - 3, label, 10)]


def _bar(x: float, y: float, width: float, height: float, colour: str, note: str) -> str:
    shape = f'x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}" fill="{colour}"'
    return f"<rect {shape}><title>{escape(note)}</title></rect>"


def _text(x: float, y: float, text: str, size: int) -> str:
    return f'<text x="{_n(x)}" y="{_n(y)}" font-size="{size}">{escape(text)}</text>'


def _n(value: float) -> str:
    return f"{value:.2f}"
