"""Models cut into stages, one after another on the ranks of a group: PyTorch's `torch.distributed.pipelining`.

stage = PipelineStage(part_of_the_model, rank, world_size)
schedule = Schedule1F1B(stage, n_microbatches=8, loss_fn=loss)
schedule.step(x) if rank == 0 else schedule.step(target=y)
"""

from rushlight.distributed.pipelining.running import (
    PipelineScheduleMulti,
    PipelineScheduleSingle,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
    ScheduleLoopedBFS,
    ScheduleZBVZeroBubble,
    ScheduleZeroBubble,
    get_schedule_class,
)
from rushlight.distributed.pipelining.stage import PipelineStage
from rushlight.support.peer_names import absent_name

__all__ = [
    "PipelineScheduleMulti",
    "PipelineScheduleSingle",
    "PipelineStage",
    "Schedule1F1B",
    "ScheduleGPipe",
    "ScheduleInterleaved1F1B",
    "ScheduleInterleavedZeroBubble",
    "ScheduleLoopedBFS",
    "ScheduleZBVZeroBubble",
    "ScheduleZeroBubble",
    "get_schedule_class",
]


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
